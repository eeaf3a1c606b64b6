package overview

import (
	"cmp"
	"time"

	"github.com/terrapulse/terrapulse/internal/state"
)

// unapplied returns what differs in Consul from what was applied last, as far as that is
// known, and since when: also while a run for it waits or works, and after it has failed.
func (f facts) unapplied() (since time.Time, entries *state.EntryChanges) {
	t := f.task
	if p := t.Pending; p != nil {
		return p.First, p.Entries // the latest tick has found it
	}
	if live := t.Run; live != nil && !live.Destroys() {
		return f.run.Seen, cmp.Or(f.run.Entries, live.Entries)
	}
	last := t.Last
	if last == nil || last.State == state.RunSucceeded || t.Observed != t.Attempted.Observed || f.setting == removed {
		return time.Time{}, nil
	}
	return last.Seen, last.Entries
}
