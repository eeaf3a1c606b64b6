package overview

import (
	"cmp"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// facts are what is shown of a task beside its view.
type facts struct{ lifecycle.Facts }

// unapplied returns what differs in Consul from what was applied last, as far as that is
// known, and since when: also while a run for it waits or works, and after it has failed.
func (f facts) unapplied() (since time.Time, entries *state.EntryChanges) {
	t := f.Task
	if p := t.Pending; p != nil {
		return p.First, p.Entries // the latest tick has found it
	}
	if live := t.Run; live != nil && !live.Destroys() {
		return f.Run.Seen, cmp.Or(f.Run.Entries, live.Entries)
	}
	last := t.Ended.Last
	if last == nil || last.State == state.RunSucceeded || t.Observed.Digest != t.Attempted.Observed || f.Setting == lifecycle.Gone {
		return time.Time{}, nil
	}
	return last.Seen, last.Entries
}
