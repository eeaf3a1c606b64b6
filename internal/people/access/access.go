// Package access carries the rights of an HTTP request from the server that has checked them to the
// handlers.
package access

import (
	"context"
	"net/http"
	"strings"
)

// Level is what a request may do.
type Level int

// The levels, each with the rights of the previous ones.
const (
	None Level = iota // the sender is unknown: it may only learn whether Terrapulse works
	Read              // read everything except secrets
	Act               // change things, which includes running programs on the host
)

// Reads reports whether requests with this method of HTTP change nothing.
func Reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

type key struct{}

// With returns a context that carries a level.
func With(ctx context.Context, level Level) context.Context {
	return context.WithValue(ctx, key{}, level)
}

// Of returns the level of a request from its context. It is Act if no server has checked the
// request.
func Of(ctx context.Context) Level {
	if level, ok := ctx.Value(key{}).(Level); ok {
		return level
	}
	return Act
}

// Sender is who sends a request.
type Sender struct {
	Name string
	// Authenticated is set if the name was proven: by a client certificate, a token or IAM.
	Authenticated bool
}

// Or returns the sender or, if nothing proves who that is, the name that the request itself gives,
// marked as a claim.
func (s Sender) Or(name string) Sender {
	if !s.Authenticated && name != "" && name != s.Name {
		s.Name = Claimed(name)
	}
	return s
}

// unproven follows a name that somebody only claims to have.
const unproven = " (not proven)"

// Claimed marks a name as a claim that nothing proves. The mark is a part of the name in records,
// events and messages, so that no reader of them takes it for a fact.
func Claimed(name string) string {
	return strings.TrimSuffix(strings.TrimSpace(name), unproven) + unproven
}

type tokenKey struct{}

// WithToken returns a context that carries the name of the token of a request.
func WithToken(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, tokenKey{}, name)
}

// Token returns the name of the token of a request; "" if it needs none.
func Token(ctx context.Context) string {
	name, _ := ctx.Value(tokenKey{}).(string)
	return name
}

type senderKey struct{}

// WithSender returns a context that carries the sender of a request, for a handler
// that sends another request for them.
func WithSender(ctx context.Context, sender Sender) context.Context {
	return context.WithValue(ctx, senderKey{}, sender)
}

// By returns the sender that WithSender has set.
func By(ctx context.Context) (Sender, bool) {
	sender, ok := ctx.Value(senderKey{}).(Sender)
	return sender, ok
}
