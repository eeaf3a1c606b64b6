// Package access carries the rights of an HTTP request from the server that has checked them to the
// handlers.
package access

import "context"

// Level is what a request may do.
type Level int

// The levels, each with the rights of the previous ones.
const (
	None Level = iota // the sender is unknown: it may only learn whether Terrapulse works
	Read              // read everything except secrets
	Act               // change things, which includes running programs on the host
)

type key struct{}

// With returns a context that carries a level.
func With(ctx context.Context, level Level) context.Context {
	return context.WithValue(ctx, key{}, level)
}

// Of returns the level of a request from its context. It is Act if no server has checked the
// request: behind a function URL, IAM has.
func Of(ctx context.Context) Level {
	if level, ok := ctx.Value(key{}).(Level); ok {
		return level
	}
	return Act
}
