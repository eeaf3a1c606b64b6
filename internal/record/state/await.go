package state

import (
	"context"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
)

// pollEvery is how often a process reads again what a store that is no Awaiter may have changed.
const pollEvery = time.Second

// Awaiter is a store that reports changes without being polled.
type Awaiter interface {
	// Await returns when a record below a prefix may have changed since the mark, and the next
	// mark. It returns now and then although nothing has changed, and at once if the mark is "".
	Await(ctx context.Context, prefix, mark string) (next string, err error)
}

// Await is that of the store, or a pause if the store reports no changes.
func Await(ctx context.Context, s Store, prefix, mark string) (next string, err error) {
	if a, ok := s.(Awaiter); ok {
		return a.Await(ctx, prefix, mark)
	}
	if mark != "" && !delay.For(ctx, pollEvery) {
		return mark, ctx.Err()
	}
	return "polled", nil
}
