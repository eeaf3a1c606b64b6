package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// Outcome is what once-mode did about one task.
type Outcome struct {
	Task   string
	Run    *state.Run   // nil if the task was not run
	Reason state.Reason // why it was run, or why not
	// Err is what kept the task from its run, or the run's outcome from the store.
	Err error
}

// Waits reports whether the task is stopped, or waits for an approval, its window or another task.
func (o Outcome) Waits() bool {
	if o.Run != nil {
		return o.Run.State == state.RunWaiting && o.Run.Wait != nil && o.Run.Wait.For.ForPeople()
	}
	row := lifecycle.RowOf(o.Reason.Code)
	return o.Reason.Code == state.ReasonWaiting || row.Waits || row.Behind || row.Stops
}

// Stopped reports whether a person has stopped the task, or has to say first what it is:
// once-mode does not run it.
func (o Outcome) Stopped() bool { return o.Run == nil && lifecycle.RowOf(o.Reason.Code).Stops }

// Failed reports whether the task should have been applied, was not, and does not
// wait for a person or a window either; or whether it was applied, and not verified.
func (o Outcome) Failed() bool {
	if o.Waits() {
		return o.Err != nil
	}
	if o.Run != nil {
		return o.Run.State != state.RunSucceeded || !o.Run.Verification.Passed()
	}
	return o.Reason.Code != state.ReasonDisabled
}

// Once runs every enabled task one time, in their order and without retries, unless a person has
// stopped it. It returns the outcomes in the order of the configuration, also with an error. A
// failing task stops no other, except those that come after it. wait returns when all runs of this process have ended.
func (r *Reconciler) Once(ctx context.Context, wait func()) ([]Outcome, error) {
	if err := r.prepareStored(ctx); err != nil {
		return r.unrun(err), err
	}
	held, outcomes, err := r.leadSoon(ctx)
	switch {
	case outcomes != nil:
		return outcomes, err
	case err != nil:
		return r.unrun(err), err
	}
	defer r.release(ctx, r.hold(ctx, held))

	if err := r.awaitRuns(ctx, held); err != nil {
		return r.unrun(err), err
	}
	report, failed := r.settle(ctx, held, wait)
	last := r.delivery(held)
	last.Last = true
	r.deliver(context.WithoutCancel(ctx), last)
	if failed != nil && len(report.Decisions) == 0 {
		return r.unrun(failed), failed
	}
	runs := map[string]string{} // ids by task
	for _, launch := range report.Launches {
		for _, run := range launch.Runs {
			runs[run.Task] = run.ID
		}
	}
	for _, d := range report.Decisions {
		if d.Reason.Code == state.ReasonRemoved || d.Removed && d.State.Run != nil && !d.State.Run.Destroys() {
			continue // also while a run that another process has begun is still there
		}
		outcomes = append(outcomes, Outcome{Task: d.Task.Name, Reason: d.Reason})
		last := &outcomes[len(outcomes)-1]
		id, ok := runs[d.Task.Name]
		switch {
		case ok:
		case d.State.Run != nil:
			id = d.State.Run.ID // an intent that another process has left behind, or a waiting run
		default:
			if d.Action == decide.Run {
				last.Err = failed
			}
			continue
		}
		run, err := state.Read[state.Run](context.WithoutCancel(ctx), r.Store, state.RunKey(d.Task.Name, id))
		if err != nil {
			last.Run = &state.Run{ID: id, Task: d.Task.Name, Kind: state.KindApply, State: state.RunRunning}
			last.Err = fmt.Errorf("read the outcome of its run: %w", err)
			failed = cmp.Or(failed, last.Err)
			continue
		}
		last.Run = &run.Data
	}
	return outcomes, failed
}

// settle ticks until everything is at rest that once-mode runs, and returns what all these ticks did. After the
// first tick, only tasks are decided about that have not run yet, so that nothing is retried, and those whose runs
// go on in another system.
func (r *Reconciler) settle(ctx context.Context, held *lease.Lease, wait func()) (Report, error) {
	report, err := r.Tick(ctx, TickOptions{Lease: held, Leads: true, Force: r.force("-once"), All: true})
	last, ordered, logged := report, false, false
	for {
		if err := errors.Join(err, last.Stalled); err != nil {
			wait() // what was launched is under way
			return report, err
		}
		opts := TickOptions{Lease: held, Ended: true, All: true, Force: last.Replaced("-once"), Only: report.waiting()}
		if stepped := len(last.Launches) > 0; len(opts.Force) == 0 {
			wait()
			var elsewhere map[string]bool
			if elsewhere, opts.Moved, err = r.waitRemotely(ctx, !stepped); err != nil {
				return report, err
			}
			if len(elsewhere) == 0 {
				if !report.behind("-once", opts.Force) || ordered && !stepped {
					return report, nil // what is left waits for a person, for a window, or for a task that has failed
				}
				ordered = true
			} else if ordered = false; !logged {
				logged = true
				r.Log.Info("waiting for runs of another system", "runs", len(elsewhere))
			}
			maps.Copy(opts.Only, elsewhere)
		}
		last, err = r.Tick(ctx, opts)
		report.Include(last)
	}
}

// waiting returns the tasks that no run was begun for, neither by the ticks of the report nor by another process.
func (r *Report) waiting() map[string]bool {
	all := map[string]bool{}
	for _, d := range r.Decisions {
		all[d.Task.Name] = d.State.Run == nil || d.State.Waits() != nil
	}
	for _, launch := range r.Launches {
		for _, run := range launch.Runs {
			all[run.Task] = false
		}
	}
	return all
}

// behind reports whether tasks wait for one that comes before them, or for one that is destroyed before them. It
// requests a run of those that are not to be destroyed.
func (r *Report) behind(who string, force map[string]string) (found bool) {
	for _, d := range r.Decisions {
		if !lifecycle.RowOf(d.Reason.Code).Behind {
			continue
		}
		if found = true; !d.Removed && d.Kind != state.KindDestroy {
			force[d.Task.Name] = who
		}
	}
	return found
}

// Replaced names who requests a run, for every task whose waiting run the tick has
// ended, or that somebody has changed meanwhile: the next tick decides on these tasks.
func (r *Report) Replaced(who string) map[string]string {
	force := map[string]string{}
	for _, d := range r.Decisions {
		if d.Action == decide.End {
			force[d.Task.Name] = who
		}
	}
	for _, name := range r.Left {
		force[name] = who
	}
	return force
}

// Include adds what the next tick has done. Its decisions replace those about tasks that have not run.
func (r *Report) Include(next Report) {
	waiting := r.waiting()
	decided := map[string]int{} // indices in next, by task
	for i, d := range next.Decisions {
		decided[d.Task.Name] = i
	}
	for i, was := range r.Decisions {
		if now, ok := decided[was.Task.Name]; ok && waiting[was.Task.Name] {
			r.Decisions[i] = next.Decisions[now]
		}
	}
	r.Launches = append(r.Launches, next.Launches...)
	r.Stalled = cmp.Or(r.Stalled, next.Stalled)
}

// unrun returns outcomes that say why no task was run.
func (r *Reconciler) unrun(why error) []Outcome {
	var outcomes []Outcome
	for _, t := range r.tasks {
		if t.Enabled {
			outcomes = append(outcomes, Outcome{Task: t.Name, Err: why})
		} else {
			outcomes = append(outcomes, Outcome{Task: t.Name, Reason: state.Reason{Code: state.ReasonDisabled, Text: "the task is disabled"}})
		}
	}
	return outcomes
}

// awaitRuns waits for the runs that other processes have under way: until each
// has ended, or its runner has not renewed its claim for as long as that
// lasts.
func (r *Reconciler) awaitRuns(ctx context.Context, held *lease.Lease) error {
	logged := map[string]bool{}
	for {
		states, _, err := r.readStates(ctx)
		if err != nil {
			return err
		}
		var until time.Time
		for _, task := range r.tasks {
			live := states[task.Name].Data.Run
			if !task.Enabled || live == nil {
				continue
			}
			run, err := state.Read[state.Run](ctx, r.Store, state.RunKey(task.Name, live.ID))
			if errors.As(err, new(*state.CorruptError)) {
				continue // the tick reports it, and that task alone waits
			}
			if err != nil {
				return fmt.Errorf("read run %s: %w", live.ID, err)
			}
			if run, err = r.boundClaim(ctx, held, run); err != nil {
				return err
			}
			if run.Data.State != state.RunRunning || clock.Reached(run.Data.Expires, r.Now()) {
				continue
			}
			until = clock.Earlier(until, run.Data.Expires)
			if !logged[live.ID] {
				logged[live.ID] = true
				r.Log.Info("waiting for a run that another process has begun", "task", task.Name, "run", live.ID, "owner", run.Data.Owner)
			}
		}
		if until.IsZero() {
			return nil
		}
		if !delay.For(ctx, max(50*time.Millisecond, min(until.Sub(r.Now()), time.Second))) {
			return ctx.Err()
		}
	}
}

// force names who requests a run, for every enabled task.
func (r *Reconciler) force(who string) map[string]string {
	force := map[string]string{}
	for _, t := range r.tasks {
		if t.Enabled {
			force[t.Name] = who
		}
	}
	return force
}

// ErrNotReached is returned by Elsewhere if the leader's API cannot be used.
var ErrNotReached = errors.New("the instance that leads cannot be requested to run the tasks")

// leadSoon takes the lease. If another process leads, it returns the outcomes from
// there, or waits for the lease as long as Patience says.
func (r *Reconciler) leadSoon(ctx context.Context) (*lease.Lease, []Outcome, error) {
	patience := r.Patience
	if patience == 0 {
		patience = 2 * r.LeaseTTL
	}
	until := r.Now().Add(patience)
	var logged string // the holder that was logged
	for {
		held, err := r.acquire(ctx)
		var other *lease.HeldError
		if !errors.As(err, &other) {
			return held, nil, err
		}
		if r.Elsewhere != nil {
			outcomes, unreached := r.Elsewhere(ctx, other.Owner, r.effective.Config)
			if !errors.Is(unreached, ErrNotReached) {
				return nil, outcomes, unreached
			}
			err = fmt.Errorf("%w; %w", err, unreached)
		}
		if !r.Now().Before(until) {
			return nil, nil, fmt.Errorf("%w; it runs the tasks of this store: stop it first, name its HTTP API with -http-addr, wait longer with -wait, or use a store of your own with -store", err)
		}
		if other.Owner != logged {
			logged = other.Owner
			r.Log.Info("waiting for the lease", "leader", other.Owner, "until", other.Until, "at_most", until.Sub(r.Now()).Round(time.Second), "error", err)
		}
		if !delay.For(ctx, max(50*time.Millisecond, min(other.Until.Sub(r.Now()), until.Sub(r.Now()), time.Second))) {
			return nil, nil, ctx.Err()
		}
	}
}
