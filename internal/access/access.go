// Package access carries what the sender of an HTTP request may do, from the
// server that has checked it to the handlers.
package access

import "context"

// Level is what a request may do.
type Level int

// The levels, each with the rights of those before it.
const (
	None Level = iota // the sender is unknown: only whether all is well may be shown
	Read              // see everything that is no secret
	Act               // change things, which includes running programs on the host
)

type key struct{}

// With returns a context that carries a level.
func With(ctx context.Context, level Level) context.Context {
	return context.WithValue(ctx, key{}, level)
}

// Of returns the level of a request by its context. It is Act where no server has
// checked the request: behind a function URL, IAM has done that.
func Of(ctx context.Context) Level {
	if level, ok := ctx.Value(key{}).(Level); ok {
		return level
	}
	return Act
}
