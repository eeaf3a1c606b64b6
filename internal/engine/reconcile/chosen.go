package reconcile

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// A tick reads the records of the tasks that concern it: of those that are not at rest, that are due,
// or that are in no configuration. Of the others, which rest, it knows their rows of the summary. If
// the condition of one of them has changed, its record is read, too.

// If more records are needed than readByKey, and more than one of readOneIn records, all are listed. With 10,000
// tasks, 1,000 keys are 10 requests to DynamoDB, and a list has 12 to 30 pages. Consul's KV reads keys one by one:
// that many take about as long as its list.
const (
	readByKey = 20
	readOneIn = 10
)

// listed reports whether the records of some of all tasks are read by listing all.
func listed(some, all int) bool { return some > max(readByKey, all/readOneIn) }

// readChosen returns the records of the tasks that concern the tick, and the errors of
// those that cannot be decoded. It sets tasks and resting.
func (t *tick) readChosen(ctx context.Context, rec state.Reconcile) (map[string]state.Stored[state.Task], map[string]error, error) {
	known, err := t.summary.Read(ctx, t.Store)
	if err != nil {
		return nil, nil, err
	}
	now := t.Now()
	if !known || t.opts.Leads || t.opts.All || t.opts.Only != nil || rec.Config != t.digest || rec.Replaced.HoldsAll() {
		return t.readEvery(ctx)
	}
	chosen := t.choose(now)
	states, corrupt, err := t.readNames(ctx, chosen)
	if err != nil {
		return nil, nil, err
	}
	named := t.named(chosen, states)
	more, wrong, err := t.readNames(ctx, named)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(chosen, named)
	maps.Copy(states, more)
	maps.Copy(corrupt, wrong)
	t.tasks, t.resting = nil, nil
	for i, task := range t.Reconciler.tasks {
		if chosen[task.Name] {
			t.tasks = append(t.tasks, task)
		} else {
			t.resting = append(t.resting, i)
		}
	}
	return states, corrupt, nil
}

// readEvery is readChosen for a tick that every task concerns. It puts the summary right.
func (t *tick) readEvery(ctx context.Context) (map[string]state.Stored[state.Task], map[string]error, error) {
	states, corrupt, err := t.readStates(ctx)
	if err != nil {
		return nil, nil, err
	}
	t.tasks, t.resting = t.Reconciler.tasks, nil
	wrong, err := t.summary.Rebuild(ctx, t.opts.Lease.Apply, states, corrupt)
	if err != nil {
		return nil, nil, err
	}
	if len(wrong) > 0 {
		t.Log.Debug("rows of the summary were made anew", "tasks", len(wrong))
	}
	return states, corrupt, nil
}

// widen makes every task concern a tick that has begun with some.
func (t *tick) widen(ctx context.Context, states map[string]state.Stored[state.Task]) error {
	if len(t.resting) == 0 {
		return nil
	}
	all, corrupt, err := t.readEvery(ctx)
	if err != nil {
		return err
	}
	maps.Copy(states, all)
	maps.Copy(t.corrupt, corrupt)
	return nil
}

// choose returns the tasks that concern the tick, whatever their conditions show.
func (t *tick) choose(now time.Time) map[string]bool {
	chosen := map[string]bool{}
	add := func(names iter.Seq[string]) {
		for name := range names {
			chosen[name] = true
		}
	}
	add(maps.Keys(t.effective.Corrupt))
	add(maps.Keys(t.effective.Problems))
	add(maps.Keys(t.opts.Force))
	add(maps.Keys(t.rereads))
	if t.Blocked != nil {
		add(maps.Keys(t.Blocked()))
	}
	for name, o := range t.effective.Overrides {
		if o.Provisional != nil {
			chosen[name] = true
		}
	}
	var checks []dueCheck
	for _, task := range t.Reconciler.tasks {
		row, ok := t.summary.Row(task.Name)
		switch {
		case !ok || concerns(row, task, now, t.Skew):
			chosen[task.Name] = true
		default:
			if at := t.checkDue(row, task, now); clock.Reached(at, now) {
				checks = append(checks, dueCheck{task.Name, at})
			}
		}
	}
	for row := range t.summary.Rows() {
		if !t.configured(row.Task) {
			chosen[row.Task] = true
		}
	}
	list.Sort(checks, func(a, b dueCheck) int { return a.at.Compare(b.at) })
	for _, check := range checks[:min(len(checks), runsPerLaunch)] {
		chosen[check.task] = true
	}
	return chosen
}

// named returns the tasks at rest that the names of others concern: those that have a name which a task of the tick had
// before, because the Terraform state under it may be theirs, and those whose moved_from names a removed task
// which has something.
func (t *tick) named(chosen map[string]bool, states map[string]state.Stored[state.Task]) map[string]bool {
	named := map[string]bool{}
	for _, record := range states {
		for _, name := range record.Data.Former.Moving {
			if !chosen[name] && t.configured(name) {
				named[name] = true
			}
		}
	}
	for _, task := range t.Reconciler.tasks {
		if !chosen[task.Name] && slices.ContainsFunc(task.MovedFrom, func(name string) bool { return states[name].Exists() && states[name].Data.Gone.MovedTo == "" }) {
			named[task.Name] = true
		}
	}
	return named
}

// dueCheck is a task that is due for a check of its drift.
type dueCheck struct {
	task string
	at   time.Time
}

// concerns reports whether the record of a task says that there is something to do, or may do so.
// A time of a schedule that is dealt with and still to come was written by a clock that was ahead.
func concerns(row summary.Row, task task, now time.Time, skew time.Duration) bool {
	switch {
	case row.Rest == state.RestDisabled:
		return task.Enabled
	case row.Rest != state.RestApplied, !task.Enabled, !row.Has(task.definition), row.Checked != task.Drift.Enabled:
		return true
	}
	return clock.Reached(row.Due, now) || row.Scheduled.After(now.Add(skew))
}

// checkDue is when a task at rest is due for a check of its drift; zero if it is not to be checked.
func (t *tick) checkDue(row summary.Row, task task, now time.Time) time.Time {
	if row.Rest != state.RestApplied || !row.Checked || t.rec.Data.Paused != nil { // a tick follows the resume
		return time.Time{}
	}
	return task.Drift.Next(task.Name, row.CheckAfter, now, t.Skew)
}

// readNames reads the records of tasks.
func (t *tick) readNames(ctx context.Context, names map[string]bool) (map[string]state.Stored[state.Task], map[string]error, error) {
	if listed(len(names), len(t.Reconciler.tasks)) {
		states, corrupt, err := t.readStates(ctx)
		maps.DeleteFunc(states, func(name string, _ state.Stored[state.Task]) bool { return !names[name] })
		return states, corrupt, err
	}
	states, corrupt := make(map[string]state.Stored[state.Task], len(names)), maps.Clone(t.effective.Corrupt)
	if corrupt == nil {
		corrupt = map[string]error{}
	}
	keys := list.Map(slices.Collect(maps.Keys(names)), state.TaskKey)
	records, undecoded, err := state.ReadSeveral[state.Task](ctx, t.Store, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("read the records of the tasks that concern the tick: %w", err)
	}
	for key, record := range records {
		if name := state.TaskName(key); record.Exists() || t.configured(name) {
			states[name] = record
		}
	}
	for key, wrong := range undecoded {
		corrupt[state.TaskName(key)] = wrong
	}
	return states, corrupt, nil
}

// bystanders returns the tasks at rest whose conditions may have changed.
func (t *tick) bystanders(moved func(consul.Query) bool) []int {
	var all []int
	for _, i := range t.resting {
		if task := t.Reconciler.tasks[i]; task.Enabled && task.query != nil && (t.everything || moved(*task.query)) {
			all = append(all, i)
		}
	}
	return all
}

// disturb returns the inputs with those of the tasks at rest whose conditions do not show what was
// applied, in the order of the configuration. Those tasks concern the tick from now on.
func (t *tick) disturb(ctx context.Context, inputs []decide.Input, states map[string]state.Stored[state.Task], bystanders []int, answers []consul.Answer) ([]decide.Input, error) {
	disturbed := map[string]consul.Answer{}
	for n, i := range bystanders {
		task, answer := t.Reconciler.tasks[i], answers[n]
		if row, _ := t.summary.Row(task.Name); answer.Err != nil || !row.Shows(answer.Digest) {
			disturbed[task.Name] = answer
			continue
		}
		t.leftOut.note(task.Name, answer)
		t.warnHidden(task.Name, answer.Visibility.Hidden())
		for _, dc := range task.datacenters {
			t.shown[dc] = true
		}
	}
	if len(disturbed) == 0 {
		return inputs, ctx.Err()
	}
	names := make(map[string]bool, len(disturbed))
	for name := range disturbed {
		names[name] = true
	}
	read, corrupt, err := t.readNames(ctx, names)
	if err != nil {
		return nil, err
	}
	maps.Copy(states, read)
	maps.Copy(t.corrupt, corrupt)
	known := make(map[string]decide.Input, len(inputs))
	for _, in := range inputs {
		known[in.Task.Name] = in
	}
	removed := inputs[len(t.tasks):]
	t.tasks, t.resting, inputs = nil, nil, nil
	for i, task := range t.Reconciler.tasks {
		in, ok := known[task.Name]
		answer, now := disturbed[task.Name]
		switch {
		case now:
			in = t.input(task, states, nil, nil)
			if in.Corrupt == nil {
				t.answered(ctx, &in, answer)
			}
		case !ok:
			t.resting = append(t.resting, i)
			continue
		}
		t.tasks, inputs = append(t.tasks, task), append(inputs, in)
	}
	return append(inputs, removed...), ctx.Err()
}

// restDue is when the first of the tasks at rest is due; zero if none will be.
func (t *tick) restDue(now time.Time) (due time.Time) {
	for _, i := range t.resting {
		task := t.Reconciler.tasks[i]
		row, _ := t.summary.Row(task.Name)
		check := t.checkDue(row, task, now)
		if clock.Reached(check, now) {
			check = now.Add(liveCheck) // other checks come first
		}
		due = clock.Earlier(due, clock.Earlier(row.Due, check))
	}
	return due
}

// leaveAlone replaces the decisions about tasks that are not in TickOptions.Only, and about those that are
// left to the next tick: nothing is done about them.
func (t *tick) leaveAlone(states map[string]state.Stored[state.Task]) {
	t.report.Left = slices.Sorted(maps.Keys(t.left))
	for i, d := range t.report.Decisions {
		if was := states[d.Task.Name].Data; t.left[d.Task.Name] || t.opts.Only != nil && !t.opts.Only[d.Task.Name] {
			was.Unconfirmed = d.State.Unconfirmed
			t.report.Decisions[i] = decide.Decision{Task: d.Task, Definition: d.Definition, Removed: d.Removed, Reason: was.Reason, State: was, Kind: d.Kind}
		}
	}
}
