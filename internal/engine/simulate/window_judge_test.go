package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// This file judges what a guard holds and permits by what was applied within its window. The judge
// knows when that really was. What the engine knows of it may be up to clocksApart older or
// younger, and a run that was given up may have read the record before another one has written it.
// So each question has two answers: what is certainly so, and what is perhaps so.

// base says how a run becomes the base of later ones.
type base struct {
	perhaps   bool // nothing that was applied before it counts any more
	certainly bool
	judged    time.Time // by the earlier of the clocks of the leader and the runner
}

// losing is what a run takes away.
type losing struct {
	task     *config.Task
	run      string
	entries  int // that are left
	destroys int
	replaces int
	had      int  // resources
	unknown  bool // nobody can read how many
}

// within calls visit with what a run has replaced in the window of the guard of a task that ends at
// a time, if the apply with that index in last counts as the last one. The latest is visited first.
func (r *rules) within(t *config.Task, k int, at time.Time, certainly bool, visit func(replaced, by attempt)) {
	var horizon time.Time // what ended before it has left the window of a later run
	last, did, span := r.last[t.Name], r.did[t.Name], t.Guard.Window()
	for m := k; m > 0 && span > 0; m-- {
		by := did[last[m]]
		if by.at.IsZero() || by.base.certainly || certainly && by.base.perhaps {
			return
		}
		counts := at.Before(by.recorded.Add(span+clocksApart)) && by.recorded.Add(clocksApart).After(horizon)
		if certainly {
			counts = at.Before(by.at.Add(span-clocksApart)) && by.at.After(horizon.Add(clocksApart))
		}
		if counts {
			visit(did[last[m-1]], by)
		}
		ended := by.at
		if certainly && by.base.judged.After(ended) {
			ended = by.base.judged // all clocks were ahead: what seemed to be older was dropped
		}
		if h := ended.Add(-by.window); h.After(horizon) {
			horizon = h
		}
	}
}

// sinceClaim calls look with the index in last of each apply that may count as the last one of a run,
// until that returns false. It reports whether all returned true.
func (r *rules) sinceClaim(task, run string, look func(k int) bool) bool {
	last := r.last[task]
	for k := min(r.since[run], len(last)-1); k < len(last); k++ {
		if !look(k) {
			return false
		}
	}
	return true
}

// exceeds reports whether so many entries are too few after the last apply and a base. It is the
// default of the guard, which all tasks have that have one.
func exceeds(g guard.Spec, left, last, base int) bool {
	return g.MaxRemovedPercent < 100 && left < last && base >= 10 && 2*(base-left) > base
}

// takes reports whether a run certainly takes too much away of the most that was applied in the
// window of the guard.
func (r *rules) takes(l losing, at time.Time) (most int, exceeded bool) {
	exceeded = r.sinceClaim(l.task.Name, l.run, func(k int) bool {
		last := len(r.did[l.task.Name][r.last[l.task.Name][k]].entries)
		most = last
		r.within(l.task, k, at, true, func(replaced, _ attempt) { most = max(most, len(replaced.entries)) })
		return exceeds(l.task.Guard, l.entries, last, most)
	})
	return most, exceeded
}

// perhapsTakes reports whether the last apply, or what was perhaps applied in the window,
// justifies that a guard holds a run.
func (r *rules) perhapsTakes(l losing, at time.Time) bool {
	return !r.sinceClaim(l.task.Name, l.run, func(k int) bool {
		last := len(r.did[l.task.Name][r.last[l.task.Name][k]].entries)
		most, replaced := last, 0
		r.within(l.task, k, at.Add(-clocksApart), false, func(before, _ attempt) {
			most, replaced = max(most, len(before.entries)), replaced+1
		})
		full := replaced >= state.MaxPeaks && l.entries < last // some of them count for longer
		return !full && !exceeds(l.task.Guard, l.entries, last, most)
	})
}

// destroys reports whether a run certainly destroys more than is permitted, together with what is gone of the most
// that the state had in the window, and what was replaced in it: whatever the runs that did it have said.
func (r *rules) destroys(l losing, at time.Time) (all int, exceeded bool) {
	if l.task.Guard.MaxDestroy == nil || l.destroys == 0 || l.unknown {
		return 0, false
	}
	most, replaced := l.had, 0
	for _, b := range r.begun[l.task.Name] {
		if b.counts && at.Before(b.began.Add(l.task.Guard.Window()-clocksApart)) {
			most, replaced = max(most, b.had), replaced+b.replaced
		}
	}
	all = l.destroys + replaced + most - l.had
	return all, all > *l.task.Guard.MaxDestroy
}

// perhapsDestroys reports whether the plan of a run, or what was perhaps destroyed in the window,
// justifies that a guard holds the plan.
func (r *rules) perhapsDestroys(l losing, at time.Time) bool {
	most := l.task.Guard.MaxDestroy
	if l.unknown || most == nil || l.destroys == 0 {
		return l.unknown && most != nil
	}
	from := at.Add(-l.task.Guard.Window() - 2*clocksApart)
	for _, b := range r.begun[l.task.Name] { // also what has failed, and may be the rest of it
		if b.at.Before(from) {
			continue
		}
		l.destroys += b.destroys + b.replaces
	}
	return l.destroys > *most
}

// begun is an apply that has begun.
type begun struct {
	run                string
	began              time.Time
	at                 time.Time // when its outcome was recorded, if it was
	destroys, replaces int       // by its plan
	had                int       // resources before it
	replaced           int       // what it has replaced, as far as it has come
	counts             bool      // a plan guard has certainly permitted it without a person, and no base came after it
}

// recorded notes that the outcome of a run was recorded. A runner that ends between the plan and the
// apply counts what it was permitted to destroy, because nobody knows whether that has begun. What seemed to be
// older than the window was dropped, if all clocks that the run has met were ahead.
func (r *rules) recorded(before state.RunState, run state.Run) {
	it, planned := r.planned[run.ID]
	stopped := before == state.RunRunning && (run.State == state.RunInterrupted || run.State == state.RunFailed || run.State == state.RunCancelled)
	all := r.begun[run.Task]
	if stopped && planned && it.task != nil && !slices.ContainsFunc(all, func(b begun) bool { return b.run == run.ID }) {
		l := losingBy(run.ID, it)
		all = append(all, begun{run: run.ID, destroys: l.destroys, replaces: l.replaces})
		r.begun[run.Task] = all
	}
	judged := run.Intended()
	if run.Ended.Before(judged) {
		judged = run.Ended
	}
	for i := range all {
		switch b := &all[i]; {
		case b.run == run.ID:
			b.at = time.Now()
		case run.Begun != nil && run.Begun.InState != nil && !b.at.After(judged.Add(clocksApart-run.Begun.Window)):
			b.counts = false
		}
	}
}

// startsAnew notes that nothing that was begun until now certainly counts any more.
func (r *rules) startsAnew(task string) {
	for i := range r.begun[task] {
		r.begun[task][i].counts = false
	}
}

// losingBy is what a run takes away by what it has planned.
func losingBy(run string, it planned) losing {
	l := losing{task: it.task, run: run, entries: len(it.holds.entries), had: it.had, unknown: it.unknown}
	if it.changes {
		l.destroys, l.replaces = it.destroys, min(it.destroys, it.adds)
	}
	return l
}

// becomesBase notes how a run becomes the base of later ones if it succeeds. needs says that what it
// applies certainly needs an approval.
func (j *judge) becomesBase(p *process, run string, it planned, lost, needs bool) {
	l, at := losingBy(run, it), j.runs[it.task.Name][run].Intended()
	off := it.task.Guard.Window() == 0
	_, takes := j.rules.takes(l, at)
	_, destroys := j.rules.destroys(l, at)
	b := base{perhaps: off || lost || j.accepted(it), certainly: off, judged: at}
	if now := p.now(); now.Before(at) {
		b.judged = now
	}
	if approved := len(j.rules.approvals[run])+len(j.rules.inputs[it.task.Name]) > 0; needs || approved {
		b.perhaps = b.perhaps || j.rules.perhapsTakes(l, at) || j.rules.perhapsDestroys(l, at)
	}
	b.certainly = b.certainly || needs && (takes || destroys)
	j.rules.base[run] = b
	j.rules.begun[it.task.Name] = append(j.rules.begun[it.task.Name], begun{run: run, began: time.Now(), at: time.Now(), destroys: l.destroys, replaces: l.replaces,
		had: l.had, counts: it.judged && it.task.Guard.PlanLimited() && l.destroys > 0 && !b.perhaps})
}

// unjustified says why the guard must not hold a run any more, or never had to; "" if it may. at is
// when it was judged.
func (j *judge) unjustified(w *world, run string, wait *state.Wait, at time.Time) string {
	it, known := j.rules.planned[run]
	if !known || it.task == nil || wait.For != state.WaitApproval || w.consul.docs != nil {
		return ""
	}
	l := losingBy(run, it)
	for _, c := range wait.Causes {
		switch {
		case c.Rule == state.RuleInputGuard && strings.HasPrefix(c.Text, "there is no plan to show"):
		case c.Rule == state.RuleInputGuard && strings.Contains(c.Text, "is incomplete"):
		case c.Rule == state.RuleInputGuard && !j.rules.perhapsTakes(l, at):
			return fmt.Sprintf("%d entries are left, and %s", l.entries, c.Text)
		case c.Rule == state.RulePlanGuard && w.cloud.zero && strings.Contains(c.Text, "it is not known how many resources the state has"):
		case c.Rule == state.RulePlanGuard && !j.rules.perhapsDestroys(l, at):
			return fmt.Sprintf("the plan destroys %d, and %s", l.destroys, c.Text)
		}
	}
	return ""
}

// holds looks at a run that begins to wait.
func (j *judge) holds(v view, before, run state.Run) {
	if v.jumped || run.Kind != state.KindApply {
		return
	}
	at := before.Intended()
	if now := time.Now(); now.Before(at) {
		at = now
	}
	if why := j.unjustified(v.world, run.ID, run.Wait, at); why != "" {
		v.violated("what a guard holds is justified by the last apply or by its window: %s holds run %s of %s: %s", v.name, run.ID, run.Task, why)
	}
}

// heldByTime reports whether only guards hold the run of a task, and time has permitted or will permit
// what it does.
func (j *judge) heldByTime(w *world, record state.Task) bool {
	wait := record.Waits()
	for _, c := range wait.Causes {
		if c.Rule != state.RuleInputGuard && c.Rule != state.RulePlanGuard {
			return false
		}
	}
	return !wait.Again.IsZero() || j.unjustified(w, record.Run.ID, wait, time.Now().Add(-5*time.Minute)) != ""
}
