package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/drift"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/settle"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Checks for drift come after everything else: a task is checked only at rest, one
// launch of checks is under way at a time, it does not count for MaxLaunches, and a
// tick that leaves runs to the next tick launches no checks. A check does not occupy
// its task: a run begins as if there was none, and the outcome of the check is dropped.

// atRest reports whether nothing is to be done about a task, so that what a plan
// changes was changed by somebody else.
func atRest(s *state.Task, definition string) bool {
	applied := !s.AppliedAt.IsZero() && s.Definition == definition && s.Observed == s.Applied && !s.Unfinished()
	requested := s.Pending != nil || s.Forced != "" || s.Doubt != ""
	held := s.OnHold != nil || s.Held != nil || s.HoldNext || !s.UnreadableSince.IsZero()
	return applied && !requested && !held && !s.Recheck && s.Run == nil
}

// appliesDrift reports whether a task at rest should run because it is drifted.
func appliesDrift(t *config.Task, s *state.Task) bool {
	found := s.Drifted()
	return t.Drift.Enabled && t.Drift.Action == drift.Apply && found != nil && !found.Persists
}

// checkDue is when a task is due for a check; zero if it is not to be checked.
func checkDue(t *config.Task, definition string, s *state.Task, now time.Time, skew time.Duration) time.Time {
	switch d := s.Drift; {
	case !t.Enabled || !t.Drift.Enabled || d == nil || d.Run != nil || !atRest(s, definition) || appliesDrift(t, s):
		return time.Time{}
	case d.Applied != "":
		return earlier(d.After, now)
	default:
		return t.Drift.Next(t.Name, d.After, now, skew)
	}
}

// noteDrift takes over what is known of checks since the last decision.
func (d *decider) noteDrift() {
	s := &d.state
	switch {
	case !d.Task.Drift.Enabled:
		s.Drift = nil
	case !d.Task.Enabled:
		*s = s.WithoutCheck()
	case s.Drift == nil:
		s.Drift = &state.Drift{After: d.now} // so that not all tasks are checked when checks are configured
	case d.LostCheck != nil:
		*s, _ = s.EndCheck(*d.LostCheck, nil) // what is of no use any more expires
	}
}

// checks reports whether the task is to be checked, if nothing triggers it.
func (d *decider) checks(t trigger) bool {
	return d.Check && d.Paused == nil && d.Observed != nil && t.reason.Code == state.ReasonUnchanged && !t.missed &&
		reached(checkDue(d.Task, d.Definition, &d.state, d.now, d.Skew), d.now)
}

// findLostChecks finds the checks under way whose runners are dead, and notes whether
// others are under way.
func (t *tick) findLostChecks(ctx context.Context, inputs []Input) error {
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
	run, corrupt, err := readAnyway[state.Run](ctx, t.Store, state.RunKey(task, live.ID))
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
		if settle.LeftBy(run.Data, status.Runner) {
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
func (t *tick) chooseChecks(inputs []Input, now time.Time) {
	if t.checking || t.rec.Data.Paused != nil {
		return
	}
	var chosen []*Input
	due := map[*Input]time.Time{}
	for i := range t.tasks {
		in := &inputs[i]
		s := in.State
		s.Recheck = false // it is read in this tick
		at := checkDue(in.Task, in.Definition, &s, now, t.Skew)
		if reached(at, now) && in.Corrupt == nil && in.Blocked == nil && in.Force == "" {
			chosen, due[in] = append(chosen, in), at
		}
	}
	slices.SortStableFunc(chosen, func(a, b *Input) int { return due[a].Compare(due[b]) })
	for _, in := range chosen[:min(len(chosen), runsPerLaunch)] {
		in.Check = true
	}
}

// checksAgain is when the next tick has to deal with the checks of a task; zero if it
// need not.
func (t *tick) checksAgain(d *Decision, now time.Time) time.Time {
	switch {
	case underCheck(d.State) != nil, d.Action == Check:
		return now.Add(liveCheck)
	case t.rec.Data.Paused != nil: // a tick follows the resume
		return time.Time{}
	case d.Reason.Code != state.ReasonUnchanged:
		return time.Time{}
	}
	due := checkDue(d.Task, t.definitions[d.Task.Name], &d.State, now, t.Skew)
	if reached(due, now) {
		return now.Add(liveCheck) // other checks come first
	}
	return due
}

// startChecks starts a launch of checks. If that fails, its runs are given up after a
// while, and the tasks are checked at their next times.
func (t *tick) startChecks(ctx context.Context, launch state.Launch) {
	t.report.Checks = append(t.report.Checks, launch)
	if err := t.Launcher.Start(ctx, launch); err != nil {
		t.Log.Warn("checks for drift were not started", "launch", launch.ID, "fence", launch.Fence, "error", err)
	}
}

// drifted returns the events about the drift of a task that changes from was to next.
func drifted(was, next state.Task, d Decision, now time.Time) []outbox.Event {
	events := outbox.OfDrift(was, next, d.Task.Name, now)
	if d.LostCheck != nil {
		events = append(events, outbox.OfCheck(*d.LostCheck, now)...)
	}
	return events
}
