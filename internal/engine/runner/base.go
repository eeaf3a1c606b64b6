package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
)

// What a guard counts from: the most that was applied within its window, and what runs have
// destroyed in it. An outcome is written together with what it changes about that.

// addPeaks adds to the sources what was applied in the window, if that decides anything: an entry is
// gone.
func (j *judgement) addPeaks(ctx context.Context) error {
	gone := slices.ContainsFunc(j.sources, func(s guard.Source) bool { return s.Now < s.Applied })
	if !gone || j.task.Guard.Window() == 0 {
		return nil
	}
	known, err := j.known(ctx)
	for i := range j.sources {
		j.sources[i].Count = j.sources[i].WithPeaks(known.Counts)
	}
	return err
}

// losses are those of earlier runs, if they decide anything about a plan.
func (j *judgement) losses(ctx context.Context, plan state.Changes) (state.Losses, error) {
	if plan.Destroy == 0 || !j.task.Guard.PlanLimited() || j.task.Guard.Window() == 0 {
		return nil, nil
	}
	known, err := j.known(ctx)
	return known.Losses, err
}

// known is the record of the task, which is read once.
func (j *judgement) known(ctx context.Context) (state.Task, error) {
	if j.record != nil {
		return *j.record, nil
	}
	rec, err := retry(ctx, func() (state.Stored[state.Task], error) {
		return state.Read[state.Task](ctx, j.Store, state.TaskKey(j.claimed.Task))
	}, backoff.WithMaxTries(claimTries))
	if err != nil {
		return state.Task{}, fmt.Errorf("read what was applied in the window of the guard: %w", err)
	}
	j.record = &rec.Data
	return rec.Data, nil
}

// judgedAt is the time at which the guards judge the run. If the clocks of the leader and of this
// process differ, the earlier one counts: a clock that is ahead must not end a window.
func (c *claim) judgedAt() time.Time {
	now := c.Now()
	if decided := c.claimed.Intended(); decided.Before(now) {
		return decided
	}
	return now
}

// endedAt is when the run ended, for the guards: not before it could end by the clock of the
// leader, should that of this process be behind.
func (c *claim) endedAt(ended time.Time) time.Time {
	if least := c.claimed.Intended().Add(max(0, ended.Sub(c.since))); ended.Before(least) {
		return least
	}
	return ended
}

// again is when the guards judge the plan again that waits for these causes, by the clock of the
// leader; zero if time alone does not permit it.
func (j *judgement) again(causes []state.Cause) (at time.Time) {
	for _, c := range causes {
		if c.Rule != state.RuleInputGuard && c.Rule != state.RulePlanGuard && c.Rule != state.RuleChanged {
			return time.Time{}
		}
	}
	judged := j.judgedAt()
	for _, until := range j.until {
		if until.IsZero() {
			return time.Time{}
		}
		if then := j.claimed.Intended().Add(until.Sub(judged)); then.After(at) {
			at = then
		}
	}
	return at
}

// based returns the task's record with what the guards count from after the run. planned are the
// numbers of its plan, if it had one.
func (c *claim) based(next state.Task, before []state.Count, run state.Run, done result) state.Task {
	if run.Kind != state.KindApply || run.State == state.RunWaiting || run.State == state.RunSuperseded {
		return next
	}
	succeeded, at := run.State == state.RunSucceeded, c.endedAt(run.Ended)
	fresh := done.window == 0 || run.Based
	since := c.judgedAt().Add(-done.window) // by the earlier clock, as that judges
	next.Counts = slices.Clone(next.Counts)
	for i := range next.Counts {
		if !succeeded {
			break
		}
		now := &next.Counts[i]
		if now.Peaks = nil; fresh {
			continue
		}
		for _, was := range before {
			if was.Of == now.Of {
				now.Peaks = was.Peaks.Replaced(was.Applied, now.Applied, at, since)
			}
		}
	}
	switch planned := c.plannedChanges(done); {
	case succeeded && fresh:
		next.Losses = nil
	case planned == nil || !done.limited || !done.applied || planned.Destroy == 0 && len(next.Losses) == 0:
	default:
		loss := state.Loss{Resources: planned.Destroy, At: at, Open: !succeeded}
		if run.InState != nil {
			loss.Of = *run.InState
		}
		next.Losses = next.Losses.Add(loss, since)
	}
	return next
}

// plannedChanges are the numbers of the plan that the run applied, or had begun to apply; nil if it had none.
func (c *claim) plannedChanges(done result) *state.Changes {
	switch {
	case c.claimed.AppliedElsewhere():
		return c.claimed.Changes
	case done.permitted:
		return done.plan.Changes
	}
	return nil
}

// noteBase notes in the run what its outcome means for the guards.
func (c *claim) noteBase(run *state.Run, done result) {
	if c.claimed.AppliedElsewhere() { // it was judged before that, or confirmed by a person although it waited
		if w := c.claimed.Wait; w.For == state.WaitApproval {
			run.Based = w.Guards()
		}
		return
	}
	run.Based, run.InState = done.based, done.plan.InState
}
