package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
)

// Writable is a store that says without a write why it cannot be written.
type Writable interface {
	// Unwritable returns nil if it can be written, as far as is known.
	Unwritable() error
}

// Unwritable returns why the store cannot be written; nil if that is not known.
func Unwritable(s Store) error {
	if w, ok := s.(Writable); ok {
		return w.Unwritable()
	}
	return nil
}

// unwritableAfter is how long writes fail until a Noting store says so: a single one may come
// at a bad moment.
const unwritableAfter = 10 * time.Second

// Noting is a store that notes since when its writes fail. It is safe for concurrent use.
type Noting struct {
	Store
	Now func() time.Time

	mu    sync.Mutex
	err   error // of the latest write; nil if the store has answered it
	since time.Time
}

var (
	_ Writable = (*Noting)(nil)
	_ Awaiter  = (*Noting)(nil)
	_ Backward = (*Noting)(nil)
)

// Last implements Backward.
func (n *Noting) Last(ctx context.Context, prefix, before string, most int) ([]Record, error) {
	return Last(ctx, n.Store, prefix, before, most)
}

// Await implements Awaiter.
func (n *Noting) Await(ctx context.Context, prefix, mark string) (string, error) {
	return Await(ctx, n.Store, prefix, mark)
}

// Apply implements Store.
func (n *Noting) Apply(ctx context.Context, changes ...Change) ([]Record, error) {
	records, err := n.Store.Apply(ctx, changes...)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err == nil, errors.As(err, new(*ConflictError)), errors.As(err, new(*NewerError)):
		n.err, n.since = nil, time.Time{}
	case ctx.Err() != nil: // this says nothing about the store
	default:
		if n.err == nil {
			n.since = n.Now()
		}
		n.err = err
	}
	return records, err
}

// Unwritable implements Writable.
func (n *Noting) Unwritable() error {
	if err := Unwritable(n.Store); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil || n.Now().Sub(n.since) < unwritableAfter {
		return nil
	}
	return fmt.Errorf("the store cannot be written since %s: %w", clock.UTC(n.since), n.err)
}
