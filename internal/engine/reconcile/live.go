package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// yieldPatience is how long a run with an expired claim is still not lost while
// the launcher cannot say whether its runner is alive. A runner that cannot renew
// its claim interrupts Terraform, which is killed 60 seconds later; the rest of
// the time is for a backend that does not accept the state at once.
const yieldPatience = 5 * time.Minute

// intentPatience is how long a launch that the launcher does not know is started
// again and again, before its runs count as lost.
const intentPatience = 15 * time.Minute

// preferFor is how long a launch waits for room on the instance whose run of the task was lost, and which perhaps
// has a state that is nowhere else.
const preferFor = 20 * time.Second

// findLostRuns finds the runs under way whose runners are dead, and starts again
// the launches that may never have been started.
func (t *tick) findLostRuns(ctx context.Context, inputs []decide.Input, states map[string]state.Stored[state.Task]) error {
	taken, err := t.readTakers(ctx, inputs)
	if err != nil || len(taken) == 0 {
		return err
	}
	found, err := t.Launcher.Status(ctx, slices.Sorted(maps.Values(taken)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		// Then only the claims show which runs are alive, and what no runner has
		// claimed waits. Other tasks continue.
		t.Log.Warn("cannot read the status of the launches under way: their runs wait until their claims have expired",
			"wait", yieldPatience, "error", err)
	}
	statuses := map[string]LaunchStatus{}
	for launch, id := range taken {
		statuses[launch] = found[id]
	}
	l := liveness{tick: t, statuses: statuses, unknown: err, relaunched: map[string]relaunch{}}
	for i := range inputs {
		live := inputs[i].State.Run
		if live == nil || live.Wait != nil || statuses[live.Launch].alive() {
			continue
		}
		if err := l.check(ctx, &inputs[i], states); err != nil {
			return fmt.Errorf("find out whether run %s of task %s is alive: %w", live.ID, inputs[i].Task.Name, err)
		}
	}
	for _, launch := range l.begun { // not before: a short run of it would have ended when its task is looked at
		t.start(ctx, launch)
	}
	return nil
}

// readTakers returns the launches under way, each with the id that the launcher knows
// it by: that of the runner if a runner that lingered has taken it, otherwise its own.
func (t *tick) readTakers(ctx context.Context, inputs []decide.Input) (map[string]string, error) {
	taken := map[string]string{}
	for _, in := range inputs {
		live := in.State.Run
		if live == nil || live.Wait != nil || taken[live.Launch] != "" {
			continue
		}
		taken[live.Launch] = live.Launch
		if live.Offer == "" {
			continue
		}
		launch, corrupt, err := state.ReadAnyway[state.Launch](ctx, t.Store, state.LaunchKey(live.Launch))
		if err != nil {
			return nil, fmt.Errorf("read launch %s: %w", live.Launch, err)
		}
		if corrupt == nil && launch.Data.TakenByRunner() {
			taken[live.Launch] = launch.Data.Taker
		}
	}
	return taken, nil
}

// liveness finds out which runs are alive.
type liveness struct {
	*tick
	statuses   map[string]LaunchStatus // by launch
	unknown    error                   // why the launcher has not returned the statuses
	relaunched map[string]relaunch     // by launch
	begun      []state.Launch          // those that are started once every task was looked at
}

// relaunch is a launch that was started again.
type relaunch struct {
	refused string // why it was not started
	runs    []state.PlannedRun
}

// check marks the run of a task as lost if it is, or as corrupt. Its launcher does
// not say that it is alive.
func (l *liveness) check(ctx context.Context, in *decide.Input, states map[string]state.Stored[state.Task]) error {
	live, name := in.State.Run, in.Task.Name
	run, corrupt, err := state.ReadAnyway[state.Run](ctx, l.Store, state.RunKey(name, live.ID))
	if err != nil {
		return err
	}
	if corrupt != nil {
		l.corrupt[name], in.Corrupt = corrupt, corrupt
		return nil
	}
	if !run.Data.State.Active() {
		// It has ended or waits since the task was read: both records are written at once.
		if states[name], err = state.Read[state.Task](ctx, l.Store, state.TaskKey(name)); err != nil {
			return err
		}
		in.State = states[name].Data
		if in.Destroy && in.State.OnRemoval == "" { // the run has destroyed everything
			in.Task, in.Definition, in.Destroy = &config.Task{Name: name, After: in.State.Follows}, "", false
		}
		if again := in.State.Run; again == nil || again.ID != live.ID || again.Wait != nil {
			return nil
		}
	}
	if l.unknown != nil && run.Data.State == state.RunIntended {
		l.notBegun = fmt.Errorf("read the status of launch %s, which may not have been started: %w", live.Launch, l.unknown)
		return nil
	}
	if run, err = l.boundClaim(ctx, l.opts.Lease, run); err != nil {
		return err
	}
	now, grace := l.Now(), l.Skew
	if l.unknown != nil {
		grace += yieldPatience
	}
	stopped, status := "", l.statuses[live.Launch]
	if orphan.LeftBy(run.Data, status.Runner) {
		stopped = status.Stopped
	}
	lost := whyLost(run.Data, stopped, now, grace)
	switch {
	case run.Data.State != state.RunIntended:
	case status.Blocked != "" && lost != "":
		lost += ": " + status.Blocked
	case status.Blocked != "":
		l.unplaced = fmt.Sprintf("launch %s waits: %s", live.Launch, status.Blocked)
	case lost == "":
		if lost, err = l.begin(ctx, live, in.Definition); err != nil {
			return err
		}
	}
	if lost == "" {
		if !run.Data.Expires.IsZero() {
			l.expiry = clock.Earlier(l.expiry, run.Data.Expires.Add(grace))
		}
		return nil
	}
	ended := run.Data
	ended.ID, ended.Task = live.ID, name
	ended.State, ended.Ended, ended.Error, ended.Dead = state.RunLost, now, state.Cut(lost), stopped != ""
	in.Lost = &ended
	l.dead[live.ID] = run
	return nil
}

// begin starts the launch of an intended run again, once in this tick: a process
// may have died after it had written the intent. The runner refuses runs that were
// decided on another definition. It returns why the run can never begin, if so.
func (l *liveness) begin(ctx context.Context, live *state.LiveRun, definition string) (lost string, err error) {
	again, done := l.relaunched[live.Launch]
	if !done {
		launch, corrupt, err := state.ReadAnyway[state.Launch](ctx, l.Store, state.LaunchKey(live.Launch))
		if err != nil {
			return "", fmt.Errorf("read launch %s: %w", live.Launch, err)
		}
		again.runs = launch.Data.Runs
		switch {
		case corrupt != nil:
			again.refused = corrupt.Error()
		case !launch.Exists():
			again.refused = "the record of its launch is gone"
		case launch.Data.Bundle != l.Bundle:
			again.refused = "it was decided on another bundle and had not begun"
		case launch.Data.TakenByRunner(): // it is claimed, or its runner has stopped
		case slices.ContainsFunc(again.runs, func(run state.PlannedRun) bool { return run.Definition == l.definitions[run.Task] }):
			l.Log.Info("starting a launch that was decided before", "launch", live.Launch)
			l.begun = append(l.begun, launch.Data)
		}
		l.relaunched[live.Launch] = again
	}
	valid := func(run state.PlannedRun) bool { return run.ID == live.ID && run.Definition == definition }
	if again.refused == "" && !slices.ContainsFunc(again.runs, valid) {
		return "it was decided on another definition of the task and had not begun", nil
	}
	return again.refused, nil
}

// boundClaim shortens a claim that a clock that was ahead has written: to its full
// time from now. A live runner renews it.
func (r *Reconciler) boundClaim(ctx context.Context, held *lease.Lease, run state.Stored[state.Run]) (state.Stored[state.Run], error) {
	now, next := r.Now(), run.Data
	if next.State != state.RunRunning || next.ClaimFor == 0 || next.Expires.Sub(now) <= next.ClaimFor+r.Skew {
		return run, nil
	}
	next.Expires = now.Add(next.ClaimFor)
	written, err := held.Apply(ctx, run.Write(next))
	if conflict := new(state.ConflictError); errors.As(err, &conflict) {
		return state.Read[state.Run](ctx, r.Store, run.Key) // it was renewed, or has ended
	}
	if err != nil {
		return run, fmt.Errorf("shorten the claim of run %s, which expires too late: %w", run.Data.ID, err)
	}
	r.Log.Info("the claim of a run was shortened: it was written by a clock that was ahead", "task", next.Task, "run", next.ID, "expires", next.Expires)
	return state.Stored[state.Run]{Record: written[0], Data: next}, nil
}

// whyLost says why a run is lost whose runner is not known to be alive; it is empty
// if the run may still end. Stopped says why its runner has stopped, if that is
// known. A claim is valid for a grace period after it has expired.
func whyLost(run state.Run, stopped string, now time.Time, grace time.Duration) string {
	switch {
	case run.ID == "":
		return "its record is gone"
	case run.State.Ended():
		return "it ended, but its task was not updated"
	case stopped != "":
		return stopped
	case run.State == state.RunIntended && clock.Passed(run.Intended(), intentPatience, now, grace):
		return fmt.Sprintf("no runner began it within %s", intentPatience)
	case run.State == state.RunRunning && !now.Before(run.Expires.Add(grace)):
		return fmt.Sprintf("its runner %s should have reported by %s and has not", run.Owner, clock.Stamp(run.Expires, now))
	}
	return ""
}
