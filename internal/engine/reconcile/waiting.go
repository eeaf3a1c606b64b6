package reconcile

import (
	"cmp"
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// waitingRun reads the record of a run that is to be resumed or ended. It returns
// false if the run does not wait any more: the next tick decides anew.
func (b *batch) waitingRun(ctx context.Context, name string, task state.Task) (state.Stored[state.Run], bool, error) {
	live := task.Run
	run, _, err := state.ReadAnyway[state.Run](ctx, b.tick.Store, state.RunKey(name, live.ID))
	if err != nil {
		return run, false, fmt.Errorf("read run %s: %w", live.ID, err)
	}
	if run.Data.ID == "" { // its record is gone, or cannot be decoded: only its task tells of it
		run.Data = state.Run{ID: live.ID, Task: name, Kind: cmp.Or(live.Kind, state.KindApply), Launch: live.Launch, Created: live.Created,
			State: state.RunWaiting, Waits: state.Waits{Wait: live.Wait}, Remote: task.LiveRemote()}
	}
	return run, run.Data.State == state.RunWaiting, nil
}

// ended ends a waiting run as it was decided.
func (b *batch) ended(it *item, next state.Task, run state.Stored[state.Run]) state.Task {
	d, ended := it.decision, run.Data
	ended.State, ended.Ended, ended.Error = d.EndAs, b.now, state.Cut(d.Reason.Text)
	was := next
	next, d.Forget = was.Conclude(ended, "")
	it.changes = append(it.changes, run.Write(ended).Until(ended.KeptUntil()))
	if !run.Data.EndsTrace() {
		b.endsTrace(it, ended)
	}
	it.events = append(it.events, outbox.OfEnd(was, next, ended)...)
	return next
}
