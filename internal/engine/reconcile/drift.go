package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Checks for drift come after everything else: a task is checked only at rest, one
// launch of checks is under way at a time, it does not count for MaxLaunches, and a
// tick that leaves runs to the next tick launches no checks. A check does not occupy
// its task: a run begins as if there was none, and the outcome of the check is dropped.

// findEndedChecks finds the checks that have ended, or whose runners are dead, and notes whether others are
// under way.
func (t *tick) findEndedChecks(ctx context.Context, inputs []decide.Input) error {
	var checked []*decide.Input
	var keys []string
	for i := range inputs {
		if live := underCheck(inputs[i].State); live != nil {
			checked, keys = append(checked, &inputs[i]), append(keys, state.RunKey(inputs[i].Task.Name, live.ID))
		}
	}
	if len(checked) == 0 {
		return nil
	}
	runs, corrupt, err := state.ReadSeveral[state.Run](ctx, t.Store, keys)
	if err != nil {
		return fmt.Errorf("read the checks for drift that are under way: %w", err)
	}
	var launches []string
	for i, in := range checked {
		live, run := underCheck(in.State), runs[keys[i]].Data
		if run.State.Ended() {
			run = in.State.AgainInterrupted(run)
			in.EndedCheck = &run
		} else if !slices.Contains(launches, live.Launch) {
			launches = append(launches, live.Launch)
		}
	}
	if len(launches) == 0 {
		return nil
	}
	statuses, err := t.Launcher.Status(ctx, launches)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	grace := t.Skew
	if err != nil { // then the claims show which checks are under way
		statuses, grace = nil, grace+yieldPatience
	}
	for i, in := range checked {
		if in.EndedCheck == nil {
			status := statuses[underCheck(in.State).Launch]
			in.EndedCheck = t.lostCheck(in, runs[keys[i]], corrupt[keys[i]], status, grace)
			t.checking = t.checking || in.EndedCheck == nil
		}
	}
	return nil
}

func underCheck(s state.Task) *state.LiveRun {
	if s.Drift == nil {
		return nil
	}
	return s.Drift.Run
}

// lostCheck returns the run of a check as lost; nil if it is not.
func (t *tick) lostCheck(in *decide.Input, run state.Stored[state.Run], corrupt *state.CorruptError, status LaunchStatus, grace time.Duration) *state.Run {
	why, stopped := "", ""
	if orphan.LeftBy(run.Data, status.Runner) {
		stopped = status.Stopped
	}
	switch {
	case status.Running:
	case corrupt != nil:
		why = corrupt.Error()
	default:
		why = whyLost(run.Data, stopped, t.Now(), grace)
	}
	if why == "" {
		return nil
	}
	lost := run.Data
	lost.ID, lost.Task, lost.Kind = underCheck(in.State).ID, in.Task.Name, state.KindDrift
	lost.State, lost.Ended, lost.Error = state.RunLost, t.Now(), state.Cut(why)
	if corrupt == nil {
		t.dead[lost.ID] = run
	}
	return &lost
}

// chooseChecks chooses the tasks to be checked: those of one launch, the longest due
// first.
func (t *tick) chooseChecks(inputs []decide.Input, now time.Time) {
	if t.checking || t.rec.Data.Paused != nil {
		return
	}
	var chosen []*decide.Input
	due := map[*decide.Input]time.Time{}
	for i := range t.tasks {
		in := &inputs[i]
		s := in.State
		s.Observed.Recheck = false // it is read in this tick
		at := decide.CheckDue(in.Task, in.Definition, &s, now, t.Skew)
		if clock.Reached(at, now) && in.Corrupt == nil && in.Blocked == nil && in.Force == "" {
			chosen, due[in] = append(chosen, in), at
		}
	}
	list.Sort(chosen, func(a, b *decide.Input) int { return due[a].Compare(due[b]) })
	for _, in := range chosen[:min(len(chosen), runsPerLaunch)] {
		in.Check = true
	}
}

// checksAgain is when the next tick has to deal with the checks of a task; zero if it
// need not.
func (t *tick) checksAgain(d *decide.Decision, now time.Time) time.Time {
	switch {
	case underCheck(d.State) != nil, d.Action == decide.Check:
		return now.Add(liveCheck)
	case t.rec.Data.Paused != nil: // a tick follows the resume
		return time.Time{}
	case d.Reason.Code != state.ReasonUnchanged:
		return time.Time{}
	}
	due := decide.CheckDue(d.Task, t.definitions[d.Task.Name], &d.State, now, t.Skew)
	if clock.Reached(due, now) {
		return now.Add(liveCheck) // other checks come first
	}
	return due
}

// startChecks starts a launch of checks. If that fails, its runs are given up after a
// while, and the tasks are checked at their next times.
func (t *tick) startChecks(ctx context.Context, launch state.Launch) {
	t.report.Checks = append(t.report.Checks, launch)
	began := t.Now()
	err := t.Launcher.Start(ctx, launch)
	t.exportStart(launch, began, err)
	if err != nil {
		t.Log.Warn("checks for drift were not started", "launch", launch.ID, "fence", launch.Fence, "error", err)
	}
}

// drifted returns the events about the drift of a task that changes from was to next.
func drifted(was, next state.Task, d decide.Decision, now time.Time) []outbox.Event {
	if d.EndedCheck == nil {
		return outbox.OfDrift(was, next, d.Task.Name, now)
	}
	return append(outbox.OfDrift(was, next, d.Task.Name, d.EndedCheck.Ended), outbox.OfCheck(*d.EndedCheck)...)
}
