package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
)

// What a guard counts from: the most that was applied within its window, and the most resources that
// the state had in it. An outcome is written together with what it changes about that.

// addPeaks adds to the sources what was applied in the window, if that decides anything: an entry is
// gone.
func (j *judgement) addPeaks(ctx context.Context) error {
	gone := slices.ContainsFunc(j.sources, func(s guard.Source) bool { return s.Now < s.Applied })
	if !gone || j.task.Guard.Window() == 0 {
		return nil
	}
	known, err := j.known(ctx)
	for i := range j.sources {
		j.sources[i].Count = j.sources[i].WithPeaks(known.Applied.Counts)
	}
	return err
}

// sizes are those before earlier applies, if they decide anything about a plan.
func (j *judgement) sizes(ctx context.Context, plan state.Changes) (state.Sizes, error) {
	if plan.Destroy == 0 || !j.task.Guard.PlanLimited() || j.task.Guard.Window() == 0 {
		return state.Sizes{}, nil
	}
	known, err := j.known(ctx)
	return known.Applied.Sizes, err
}

// begins notes that the apply of a plan begins. It reports whether that counts from now on, however
// the run ends. based says that a person has approved what a guard held.
func (j *judgement) begins(plan driver.Plan, based bool) bool {
	if j.claimed.Kind != state.KindApply {
		return false
	}
	b := j.task.Guard.Begun(plan.Counted())
	if based || j.accepted {
		b = state.Begun{}
	}
	j.begun.Store(&b)
	return b.InState != nil
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

// beginsElsewhere notes that a person has confirmed in another system what the run waited with.
func (j *judgement) beginsElsewhere() {
	w := j.claimed.Wait
	j.begins(driver.Plan{Changes: cmp.Or(j.claimed.Changes, &state.Changes{}), InState: j.claimed.InState}, w.For == state.WaitApproval && w.Guards())
}

// based returns the task's record with what the guards count from after a run that has succeeded.
func (c *claim) based(next state.Task, before []state.Count, run state.Run) state.Task {
	b := run.Begun
	if run.Kind != state.KindApply || b == nil || run.State != state.RunSucceeded {
		return next
	}
	at, since := c.endedAt(run.Ended), c.judgedAt().Add(-b.Window) // by the earlier clock, as that judges
	if b.Window == 0 {
		next.Applied.Sizes = state.Sizes{}
	}
	next.Applied.Counts = slices.Clone(next.Applied.Counts)
	for i := range next.Applied.Counts {
		now := &next.Applied.Counts[i]
		if now.Peaks = nil; b.Window == 0 {
			continue
		}
		for _, was := range before {
			if was.Of == now.Of {
				now.Peaks = was.Peaks.Replaced(was.Applied, now.Applied, at, since)
			}
		}
	}
	return next
}
