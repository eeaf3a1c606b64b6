package reconcile

import (
	"context"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// followRemote ticks until no task waits for another system any more, and adds what the
// ticks do to the report. wait returns when all runs of this process have ended. Only
// tasks whose runs wait are decided about, so that nothing is retried.
func (r *Reconciler) followRemote(ctx context.Context, held *lease.Lease, wait func(), report *Report) error {
	if r.Remote == nil {
		return nil
	}
	logged, stepped := false, true // runs of this process have just ended: a tick sees what they wait for
	var force map[string]string    // the tasks whose runs new input has replaced
	for {
		only, due, err := r.waitRemotely(ctx)
		if err != nil {
			return err
		}
		for task := range force {
			only[task] = true
		}
		if len(only) == 0 {
			return nil
		}
		if !logged {
			logged = true
			r.Log.Info("waiting for runs of another system", "runs", len(only))
		}
		var moved map[string]state.RemoteStatus
		if len(force) == 0 && !stepped {
			if moved = r.AwaitRemote(ctx, due); ctx.Err() != nil {
				return ctx.Err()
			}
		}
		next, err := r.Tick(ctx, TickOptions{Lease: held, Ended: true, Force: force, Only: only, Moved: moved})
		wait()
		stepped = len(next.Launches) > 0
		if err != nil {
			return err
		}
		force = next.Replaced("-once")
		report.Launches = append(report.Launches, next.Launches...)
		for _, launch := range next.Launches {
			for _, run := range launch.Runs {
				report.ran(run.Task)
			}
		}
		if next.Stalled != nil {
			return next.Stalled
		}
	}
}

// ran clears the run in the task's decision: a launch of the report names the run now.
func (r *Report) ran(task string) {
	for i := range r.Decisions {
		if d := &r.Decisions[i]; d.Task.Name == task {
			d.State.Run = nil
		}
	}
}

// waitRemotely returns the tasks whose runs wait for another system and continue without a person, and
// when the first of their remote runs is polled. Of removed tasks, only destroys count.
func (r *Reconciler) waitRemotely(ctx context.Context) (only map[string]bool, due time.Time, err error) {
	states, _, err := r.readStates(ctx)
	if err != nil {
		return nil, due, err
	}
	only = map[string]bool{}
	for name, record := range states {
		t := record.Data
		w := t.Waits()
		if _, configured := r.effective.Config.Task(name); w == nil || !configured && !t.Run.Destroys() || t.LiveRemote() == nil || w.For.ForPeople() || !w.For.Elsewhere() && (t.OnHold != nil || lifecycle.RowOf(t.Reason.Code).Waits) {
			continue
		}
		only[name], due = true, clock.Earlier(due, decide.NextPoll(w.Since, r.Now()))
	}
	return only, due, nil
}

// leaveAlone replaces the decisions about tasks that are not in TickOptions.Only, and about those that are
// left to the next tick: nothing is done about them.
func (t *tick) leaveAlone(states map[string]state.Stored[state.Task]) {
	for i, d := range t.report.Decisions {
		if was := states[d.Task.Name].Data; t.left[d.Task.Name] || t.opts.Only != nil && !t.opts.Only[d.Task.Name] {
			was.Unconfirmed = d.State.Unconfirmed
			t.report.Decisions[i] = decide.Decision{Task: d.Task, Definition: d.Definition, Removed: d.Removed, Reason: was.Reason, State: was, Kind: state.KindApply}
		}
	}
}
