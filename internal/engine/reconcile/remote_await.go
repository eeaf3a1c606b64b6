package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Between ticks, the process that leads polls the remote runs that tasks wait for, more often than
// ticks do, and without the store. When one has come further, it ticks. The polls of ticks find what
// that misses.

// takeMoved takes over what was found between two ticks. It reports whether the tick need not poll.
func (t *tick) takeMoved(inputs []decide.Input) bool {
	taken := false
	for i := range inputs {
		if r := remoteRun(&inputs[i]); r != nil {
			if status, ok := t.opts.Moved[r.ID]; ok {
				inputs[i].Remote, taken = &status, true
			}
		}
	}
	if taken {
		t.unpolled = t.rec.Data.Unpolled
	}
	return taken
}

// noteWaits notes which remote runs tasks wait for after the tick.
func (t *tick) noteWaits(inputs []decide.Input) {
	known := map[string]state.RemotePhase{}
	for _, w := range t.waits {
		known[w.Run] = w.Phase
	}
	t.Reconciler.waits = nil
	for i, d := range t.report.Decisions {
		r, w := d.State.LiveRemote(), d.State.Waits()
		if inputs[i].Corrupt != nil || w == nil || !w.For.OnRemote() || !r.Created() || r.OfOther(inputs[i].Driver) || d.Action == decide.Resume {
			continue
		}
		wait := state.RemoteWait{Run: r.ID, Workspace: r.Workspace, Phase: r.Phase, Since: w.Since}
		if phase, ok := known[r.ID]; ok {
			wait.Phase = phase
		}
		if now := inputs[i].Remote; now != nil {
			wait.Phase = now.Phase
		}
		t.Reconciler.waits = append(t.Reconciler.waits, wait)
	}
}

// AwaitRemote returns the status of remote runs that have come further since the latest tick, for
// TickOptions.Moved. It returns nil at the time until, or when ctx ends.
func (r *Reconciler) AwaitRemote(ctx context.Context, until time.Time) map[string]state.RemoteStatus {
	var remote follower
	moved := remote.follow(ctx, r)
	defer remote.end()
	select {
	case <-ctx.Done():
	case <-time.After(max(0, until.Sub(r.Now()))):
	case found := <-moved:
		return found
	}
	return nil
}

// AwaitsRemote reports whether a task has waited for a remote run since a time or later, as far as the
// latest tick knows that was not idle.
func (r *Reconciler) AwaitsRemote(since time.Time) bool {
	return r.Remote != nil && slices.ContainsFunc(r.waits, func(w state.RemoteWait) bool { return !w.Since.Before(since) })
}

// follower awaits remote runs between the ticks of a process.
type follower struct {
	cfg   *config.Config
	waits []state.RemoteWait
	found chan map[string]state.RemoteStatus
	stop  func()
}

// follow awaits the remote runs for which tasks wait after a tick. It continues if they are the same
// as before. Call end when something was received.
func (f *follower) follow(ctx context.Context, r *Reconciler) <-chan map[string]state.RemoteStatus {
	switch {
	case !r.AwaitsRemote(time.Time{}) || r.effective == nil:
		f.end()
		return nil
	case f.stop != nil && f.cfg == r.effective.Config && slices.Equal(f.waits, r.waits):
		return f.found
	}
	f.end()
	remote, cfg, waits, found := r.Remote, r.effective.Config, slices.Clone(r.waits), make(chan map[string]state.RemoteStatus, 1)
	f.cfg, f.waits, f.found = cfg, waits, found
	f.stop = background.Run(ctx, func(ctx context.Context) {
		if moved := remote.Await(ctx, cfg, waits); moved != nil {
			found <- moved
		}
	})
	return f.found
}

// end ends what follow has begun.
func (f *follower) end() {
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// waitRemotely returns the tasks whose runs wait for another system and continue without a person. If it is to
// wait, it does so until one of the remote runs has come further, whose status it returns, or is to be polled. Of
// removed tasks, only destroys count.
func (r *Reconciler) waitRemotely(ctx context.Context, wait bool) (only map[string]bool, moved map[string]state.RemoteStatus, err error) {
	if r.Remote == nil {
		return nil, nil, nil
	}
	states, _, err := r.readStates(ctx)
	if err != nil {
		return nil, nil, err
	}
	only = map[string]bool{}
	var due time.Time
	for name, record := range states {
		t := record.Data
		w := t.Waits()
		if _, configured := r.effective.Config.Task(name); w == nil || !configured && !t.Run.Destroys() || t.LiveRemote() == nil || w.For.ForPeople() || !w.For.Elsewhere() && (t.OnHold != nil || lifecycle.RowOf(t.Reason.Code).Waits) {
			continue
		}
		only[name], due = true, clock.Earlier(due, decide.NextPoll(w.Since, r.Now()))
	}
	if len(only) > 0 && wait {
		moved = r.AwaitRemote(ctx, due)
	}
	return only, moved, ctx.Err()
}
