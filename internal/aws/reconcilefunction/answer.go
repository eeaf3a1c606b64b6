package reconcilefunction

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/engine/inforce"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// answer returns the result of a tick, and writes its metrics.
func (i *invocation) answer(req invoke.Request, report reconcile.Report, err error) (invoke.Answer, error) {
	now := i.now()
	i.ends.expect(report)
	answer := invoke.Answer{Mode: req.Mode, Idle: report.Idle, Problem: cmp.Or(report.Record.ConsulError, i.bundles.Problem), Paused: report.Record.Paused}
	answer.Launches, answer.Runs = started(report.Launches)
	answer.Decisions = decisions(report)
	values := measure(report, now)
	if current := i.engine.current; current != nil {
		answer.Bundle = current.Digest
		if current.Refused != nil {
			answer.Problem = current.Refused.Error
			values[metrics.BundleRefused] = 1
		}
	}
	if report.Stalled != nil {
		answer.Problem = report.Stalled.Error()
	}
	if err != nil {
		delete(values, metrics.FailuresInARow) // the tick may not have read the tasks
	}
	held := new(lease.HeldError)
	switch {
	case errors.As(err, &held):
		// Another tick has the lease, and does the work.
		values[metrics.LeaseRefused] = 1
		answer.Skipped = held.Error()
		i.log.Info("tick skipped", "reason", answer.Skipped)
		err = nil
	case errors.Is(err, inforce.ErrNotPushed) && req.Mode == invoke.Reconcile:
		// There is nothing to watch yet, and nothing is wrong.
		answer.Skipped, err = err.Error(), nil
		values[metrics.GoodTicks], values[metrics.LastGoodTickAge] = 1, 0
		i.log.Info("tick skipped", "reason", answer.Skipped)
	case fault.IsTransient(err), errors.Is(err, context.DeadlineExceeded) && req.Mode == invoke.Reconcile:
		answer.Skipped = err.Error()
		i.log.Error("tick skipped, the next one tries again", "error", err)
		err = nil
	case err != nil:
		i.log.Error("tick failed", "error", err)
		if errors.Is(err, inforce.ErrNone) {
			values[metrics.BundleRefused] = 1
			if req.Mode == invoke.Reconcile { // nothing failed that a dead letter or a second try could help with
				answer.Problem, err = err.Error(), nil
			}
		}
	case report.Record.ConsulError == "" && report.Stalled == nil:
		values[metrics.GoodTicks], values[metrics.LastGoodTickAge] = 1, 0
	}
	if err := i.metrics.Write(now, values); err != nil {
		i.log.Warn("metrics not written", "error", err)
	}
	return answer, err
}

// decisions returns what a tick has decided about each task.
func decisions(report reconcile.Report) []invoke.Decision {
	postponed := make(map[string]bool, len(report.Postponed))
	for _, task := range report.Postponed {
		postponed[task] = true
	}
	return list.Map(report.Decisions, func(d decide.Decision) invoke.Decision {
		runs := d.Action == decide.Run || d.Action == decide.Resume
		return invoke.Decision{Task: d.Task.Name, Run: runs && !postponed[d.Task.Name], Reason: d.Reason}
	})
}

// measure returns the metrics of a tick.
func measure(report reconcile.Report, now time.Time) metrics.Values {
	record := report.Record
	values := metrics.Values{metrics.Ticks: 1, metrics.FailuresInARow: float64(record.Failing)}
	add := func(m metrics.Metric, n int) {
		if n > 0 {
			values[m] += float64(n)
		}
	}
	count := func(m metrics.Metric, is bool) {
		if is {
			add(m, 1)
		}
	}
	if !record.LastSuccess.IsZero() {
		values[metrics.LastGoodTickAge] = max(now.Sub(record.LastSuccess).Seconds(), 0)
	}
	if record.Unreadable != nil {
		add(metrics.TasksUnreadable, record.Unreadable.Count)
	}
	if record.Unpolled != nil {
		add(metrics.TasksUnpolled, record.Unpolled.Count)
	}
	for phase, n := range record.Tasks.Phases {
		add(metrics.TasksIn(lifecycle.Phase(phase)), n)
	}
	add(metrics.TasksApproval, record.Tasks.Approval)
	add(metrics.LaunchesTaken, report.Taken)
	add(metrics.OffersWithdrawn, report.Withdrawn)
	count(metrics.IdleTicks, report.Idle)
	count(metrics.Paused, record.Paused != nil)
	count(metrics.ConsulErrors, record.ConsulError != "")
	for _, d := range report.Decisions {
		count(metrics.ChangesSeen, d.Reason.Code == state.ReasonChanged && d.Action == decide.Run)
		count(metrics.ConsulErrors, d.Reason.Code == state.ReasonUnreadable)
		count(metrics.RunsLost, d.Lost != nil)
	}
	return values
}

// started returns the launches and their runs.
func started(launches []state.Launch) (ids []string, runs []invoke.Run) {
	for _, launch := range launches {
		ids = append(ids, launch.ID)
		for _, run := range launch.Runs {
			runs = append(runs, invoke.Run{Task: run.Task, Run: run.ID, Launch: launch.ID, State: state.RunIntended})
		}
	}
	return ids, runs
}

// merge adds the answer of a later tick of a window.
func merge(all, next invoke.Answer) invoke.Answer {
	if all.Mode == "" {
		return next
	}
	next.Idle, next.WhatIf = all.Idle && next.Idle, cmp.Or(next.WhatIf, all.WhatIf)
	next.Launches = append(all.Launches, next.Launches...)
	next.Runs = append(all.Runs, next.Runs...)
	if len(next.Decisions) == 0 {
		next.Decisions = all.Decisions
	}
	return next
}
