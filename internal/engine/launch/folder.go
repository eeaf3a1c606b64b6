package launch

import (
	"context"
	"sync/atomic"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// folder has the records below a prefix, as they were read last.
type folder struct {
	prefix  string
	records []state.Record
	stale   atomic.Bool // they may have changed since
}

// read reads the records again if they may have changed, and reports whether it has read them.
func (f *folder) read(ctx context.Context, store state.Store) (read bool, err error) {
	if !f.stale.Swap(false) {
		return false, nil
	}
	records, err := store.List(ctx, f.prefix)
	if err != nil {
		f.stale.Store(true)
		return false, err
	}
	f.records = records
	return true, nil
}

// follow has Serve read the records of a folder again whenever they may have changed, until ctx ends.
func (s *Shared) follow(ctx context.Context, f *folder) {
	mark := ""
	for failures := 0; ctx.Err() == nil; {
		next, err := state.Await(ctx, s.Store, f.prefix, mark)
		if mark = next; err != nil {
			if failures++; ctx.Err() == nil {
				s.Log.Debug("cannot wait for changes of the store", "below", f.prefix, "error", err)
			}
			delay.For(ctx, delay.Doubled(again, 30*again, failures))
		} else {
			failures = 0
		}
		f.stale.Store(true)
		notify(s.changed)
	}
}
