package simulate

import (
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Some tasks are checked for drift. The judge checks that a check plans with what was
// applied last, and that what it finds counts only if nothing was applied since. At the
// end, all that somebody has changed by hand must be applied again, or be shown.

// checked are rules with checks for drift.
func checked(rules config.Rules, action drift.Action) config.Rules {
	rules.Drift = drift.Spec{Enabled: true, Every: 10 * time.Minute, Action: action}
	return rules
}

// check is what Terraform shows in a check for drift.
func (h *hand) check(job driver.Job, run string) driver.Plan {
	it, r := h.plan(job), &h.judge.rules
	applied := r.bases(job.Task.Name, run)
	if !slices.ContainsFunc(applied, func(a attempt) bool { return maps.Equal(a.entries, it.holds.entries) }) {
		h.violated("a check for drift plans with what was applied: %s plans %s with %s in check %s", h.name, job.Task.Name, it.input, run)
	}
	r.checks[run] = r.counted(job.Task.Name)
	changes := &state.Changes{}
	if !it.changes {
		return driver.Plan{Resources: []driver.ResourceChange{}, Changes: changes}
	}
	changes.Change = 1
	return driver.Plan{Changes: changes, Resources: []driver.ResourceChange{{Address: it.plan, Action: driver.Update}}}
}

// drifted looks at what a write says of the latest check of a task.
func (j *judge) drifted(v view, task string, before, now state.Task) {
	if now.Drift == nil || before.Drift != nil && before.Drift.Last == now.Drift.Last {
		return
	}
	if before.Drift != nil && now.Drift.Checked.Equal(before.Drift.Checked) {
		return // the check failed, was lost or interrupted: it has no outcome
	}
	planned, known := j.rules.checks[now.Drift.Last]
	if known && (planned != j.rules.counted(task) || before.Run != nil) {
		v.violated("the outcome of a check counts if no run began since: %s writes that of check %s of %s", v.name, now.Drift.Last, task)
	}
}

// unseen reports whether somebody has changed by hand what a task has made, and nobody
// is told.
func (w *world) unseen(t *config.Task) bool {
	s := w.tfstate(t.Name)
	return t.Drift.Enabled && s.outside != s.holds.outside && w.judge.tasks[t.Name].Drifted() == nil
}
