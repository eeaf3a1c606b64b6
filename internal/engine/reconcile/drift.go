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

// findLostChecks finds the checks under way whose runners are dead, and notes whether
// others are under way.
func (t *tick) findLostChecks(ctx context.Context, inputs []decide.Input) error {
	var launches []string
	for _, in := range inputs {
		if live := underCheck(in.State); live != nil && !slices.Contains(launches, live.Launch) {
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
	for i := range inputs {
		live := underCheck(inputs[i].State)
		if live == nil {
			continue
		}
		status := statuses[live.Launch]
		if status.Running {
			t.checking = true
			continue
		}
		lost, err := t.lostCheck(ctx, inputs[i].Task.Name, live, status, grace)
		if err != nil {
			return fmt.Errorf("find out whether check %s of task %s is under way: %w", live.ID, inputs[i].Task.Name, err)
		}
		inputs[i].LostCheck = lost
		t.checking = t.checking || lost == nil
	}
	return nil
}

func underCheck(s state.Task) *state.LiveRun {
	if s.Drift == nil {
		return nil
	}
	return s.Drift.Run
}

// lostCheck returns the run of a check, ended, if it is lost.
func (t *tick) lostCheck(ctx context.Context, task string, live *state.LiveRun, status LaunchStatus, grace time.Duration) (*state.Run, error) {
	run, corrupt, err := state.ReadAnyway[state.Run](ctx, t.Store, state.RunKey(task, live.ID))
	if err != nil {
		return nil, err
	}
	why := ""
	switch {
	case corrupt != nil:
		why = corrupt.Error()
	case run.Data.State == state.RunLost:
		why = run.Data.Error
	default:
		stopped := ""
		if orphan.LeftBy(run.Data, status.Runner) {
			stopped = status.Stopped
		}
		why = whyLost(run.Data, stopped, t.Now(), grace)
	}
	if why == "" {
		return nil, nil
	}
	ended := run.Data
	ended.ID, ended.Task, ended.Kind = live.ID, task, state.KindDrift
	if !ended.State.Ended() {
		ended.State, ended.Ended = state.RunLost, t.Now()
		if corrupt == nil {
			t.dead[live.ID] = run
		}
	}
	ended.State, ended.Error = state.RunLost, state.Cut(why)
	return &ended, nil
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
		s.Recheck = false // it is read in this tick
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
	events := outbox.OfDrift(was, next, d.Task.Name, now)
	if d.LostCheck != nil {
		events = append(events, outbox.OfCheck(*d.LostCheck, now)...)
	}
	return events
}
