package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// readStates returns the records of all tasks by name, also of tasks that are no
// longer in the configuration, and the errors of tasks with records that cannot be
// decoded.
func (r *Reconciler) readStates(ctx context.Context) (states map[string]state.Stored[state.Task], corrupt map[string]error, err error) {
	all, undecoded, err := state.ReadEach[state.Task](ctx, r.Store, state.TaskPrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("read the tasks' records: %w", err)
	}
	states, corrupt = make(map[string]state.Stored[state.Task], len(all)), map[string]error{}
	maps.Copy(corrupt, r.effective.Corrupt)
	for _, s := range all {
		states[state.TaskName(s.Key)] = s
	}
	for _, err := range undecoded {
		name := state.TaskName(err.Record.Key)
		states[name], corrupt[name] = state.Stored[state.Task]{Record: err.Record}, err
	}
	for _, task := range r.tasks {
		if _, ok := states[task.Name]; !ok {
			states[task.Name] = state.Stored[state.Task]{Record: state.Record{Key: state.TaskKey(task.Name)}}
		}
	}
	return states, corrupt, nil
}

// observe collects the input of the decision: it reads the conditions that may
// have changed or that a decision needs, and finds the runs that were lost.
func (t *tick) observe(ctx context.Context, rec state.Reconcile, states map[string]state.Stored[state.Task]) ([]decide.Input, error) {
	now := t.Now()
	// If no gate can be read, no view can either: tasks that need one wait.
	unreachable := t.unreachable()
	// After an outage Consul may be another one, whose index happens to be the
	// same: everything is read then.
	recovered := rec.ConsulError != "" && t.opts.GatesErr == nil || rec.ConsulUnreachable && !unreachable
	t.everything = t.everything || t.opts.Leads || recovered || rec.Config != t.digest || clock.Passed(rec.Refreshed, refreshEvery, now, t.Skew)
	t.leftOut.partial = !t.everything || unreachable

	inputs, err := t.stored(ctx, states, now)
	if err != nil {
		return nil, err
	}
	for i := range inputs {
		if inputs[i].State, err = credentials.ProveTask(ctx, t.Store, inputs[i].Task.Name, inputs[i].State); err != nil {
			return nil, err
		}
	}
	if err := t.findLostRuns(ctx, inputs, states); err != nil {
		return nil, err
	}
	if err := t.findEndedChecks(ctx, inputs); err != nil {
		return nil, err
	}
	if !unreachable {
		t.chooseChecks(inputs, now)
	}
	t.live = map[string]bool{}
	for _, in := range inputs {
		if in.State.Run != nil && in.Lost == nil && in.State.Waits() == nil {
			t.live[in.State.Run.Launch] = true
		}
	}

	if !unreachable {
		return t.readConsul(ctx, inputs, states, t.toRead(inputs, t.moved(rec), now))
	}
	for i, task := range t.tasks {
		switch in := &inputs[i]; {
		case !task.Enabled || in.Corrupt != nil:
		case task.query == nil:
			in.Observed = &decide.Observed{}
		default:
			in.Unreadable, in.ConsulUnreachable = t.opts.GatesErr, true
		}
	}
	return inputs, nil
}

// stored returns the input of the decision as far as it is known without Consul and without
// the launcher: of the tasks of the configuration in their order, and then of the removed ones.
func (t *tick) stored(ctx context.Context, states map[string]state.Stored[state.Task], now time.Time) ([]decide.Input, error) {
	var blocked map[string]error
	if t.Blocked != nil {
		blocked = t.Blocked()
	}
	t.noteStates(states)
	moved, kept := t.renames(states)
	removed := slices.DeleteFunc(slices.Sorted(maps.Keys(states)), t.configured)
	gone := t.vanished(removed, states, moved, now)
	inputs := make([]decide.Input, len(t.tasks))
	for i, task := range t.tasks {
		inputs[i] = t.input(task, states, t.perhaps(task, states, gone), blocked[task.Name])
	}
	suspects := suspectsOf(inputs)
	for _, name := range removed {
		s := states[name].Data
		in := decide.Input{Task: &config.Task{Name: name, After: s.Follows}, State: s, Corrupt: t.corrupt[name], Blocked: t.effective.Problems[name], Skew: t.Skew,
			Removal:     decide.Removal{Removed: true, Keep: t.Config.KeepRemoved},
			Renaming:    decide.Renaming{MovedTo: moved[name], Kept: kept[name]},
			Replacement: decide.Replacement{Unconfirmed: s.Unconfirmed}}
		if in.MovedTo == "" {
			in.Kept = cmp.Or(suspects.keep(name, s), in.Kept)
			if err := t.restore(ctx, &in); err != nil {
				return nil, err
			}
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

// input is the input about a task of the configuration, as far as its record says. perhaps are the
// removed tasks of which it is perhaps one.
func (t *tick) input(task task, states map[string]state.Stored[state.Task], perhaps []string, blocked error) decide.Input {
	if err := t.corrupt[task.Name]; err != nil {
		return decide.Input{Task: task.Task, Corrupt: err}
	}
	s, o := states[task.Name].Data, t.effective.Overrides[task.Name]
	if len(s.Renamed) == 0 || s.Gone.MovedTo != "" { // else it has the shape by which it was found
		s.Shape = task.shape
	}
	s.Renamed = perhaps
	in := decide.Input{Task: task.Task, Definition: task.definition, State: s, Blocked: blocked, Skew: t.Skew, Repaired: t.repaired(task.Task, &s),
		Request:     decide.Request{Force: t.opts.Force[task.Name], All: t.opts.All},
		Reading:     decide.Reading{Datacenters: task.datacenters},
		Renaming:    decide.Renaming{Unmoved: t.unmoved(task.Task, states)},
		Replacement: decide.Replacement{Unconfirmed: s.Unconfirmed, ChangedBy: o.ChangedBy()}}
	if len(s.Unclear(task.MovedFrom)) == 0 {
		in.Unmoved = cmp.Or(in.Unmoved, t.occupied(task.Task, states))
	}
	if o.Provisional != nil && s.Run == nil && s.Forced.By == "" && !hadRun(o, s) {
		in.Force, in.All = o.By, false // what was asked for is forgotten where the task was not there for a while
	}
	return in
}

// reading is what a tick reads of Consul.
type reading struct {
	queries    []consul.Query // the conditions, then the module inputs, then the conditions of tasks at rest
	asked      []int          // which input each condition is for
	whole      []int          // the inputs whose module inputs are read as well
	bystanders []int          // the tasks at rest, by their places in the configuration
}

// toRead returns what has to be read: what may have changed, and what a decision needs.
func (t *tick) toRead(inputs []decide.Input, moved func(consul.Query) bool, now time.Time) (r reading) {
	for i, task := range t.tasks {
		in := &inputs[i]
		s := in.State
		if !task.Enabled || in.Corrupt != nil {
			continue
		}
		if in.EndedCheck != nil {
			s = s.EndCheck(*in.EndedCheck)
		}
		modules := t.readsModules(task, s)
		reads := t.everything || !s.Observed.Current() || s.Unconfirmed || !s.Observed.UnreadableSince.IsZero() || in.Lost != nil || clock.Reached(s.Due, now) || t.rereads[task.Name] ||
			in.Repaired || in.Check || decide.AppliesDrift(task.Task, &s) || in.Force != "" || s.Forced.By != "" || s.Stop.TakesNext() || s.Applied.Definition != task.definition ||
			task.query != nil && moved(*task.query) ||
			modules && slices.ContainsFunc(task.inputs, func(q consul.InputQuery) bool { return moved(q.Query) })
		switch {
		case task.query == nil:
			in.Observed = &decide.Observed{}
		case reads:
			r.queries, r.asked = append(r.queries, *task.query), append(r.asked, i)
		}
		if modules && reads {
			r.whole = append(r.whole, i)
		}
	}
	for _, i := range r.whole {
		for _, q := range t.tasks[i].inputs {
			r.queries = append(r.queries, q.Query)
		}
	}
	r.bystanders = t.bystanders(moved)
	for _, i := range r.bystanders {
		r.queries = append(r.queries, *t.Reconciler.tasks[i].query)
	}
	return r
}

// readConsul reads from Consul, and adds to the inputs what it shows, or why it cannot be read. Tasks
// at rest whose conditions show something else get an input, too.
func (t *tick) readConsul(ctx context.Context, inputs []decide.Input, states map[string]state.Stored[state.Task], r reading) ([]decide.Input, error) {
	answers := t.Consul.Observe(ctx, r.queries)
	if t.unanswered = outage(answers); t.unanswered && t.opts.GatesErr == nil {
		t.opts.GatesErr = answers[0].Err // the gates show it later
	}
	for n, i := range r.asked {
		t.answered(ctx, &inputs[i], answers[n])
	}
	answers = answers[len(r.asked):]
	for _, i := range r.whole {
		n := len(t.tasks[i].inputs)
		for _, answer := range answers[:n] {
			t.leftOut.note(inputs[i].Task.Name, answer)
		}
		t.observedInputs(ctx, &inputs[i], t.tasks[i].inputs, answers[:n])
		answers = answers[n:]
	}
	if err := ctx.Err(); err != nil || t.unanswered {
		return inputs, err
	}
	return t.disturb(ctx, inputs, states, r.bystanders, answers)
}

// answered adds to an input what the condition of its task showed.
func (t *tick) answered(ctx context.Context, in *decide.Input, answer consul.Answer) {
	t.leftOut.note(in.Task.Name, answer)
	if answer.Err != nil {
		in.Unreadable = answer.Err
		in.ConsulUnreachable = t.unanswered
		return
	}
	in.Observed, in.Unreadable = t.observed(ctx, in, answer)
	t.warnHidden(in.Task.Name, answer.Visibility.Hidden())
}

// warnHidden logs, once in this process, that a task works with a part of what
// it selects.
func (r *Reconciler) warnHidden(task, hidden string) {
	if hidden != "" && !r.hidden[task] {
		r.Log.Warn(hidden, "task", task)
	}
	if r.hidden == nil { // made here, so that copies of a prepared Reconciler do not share it
		r.hidden = map[string]bool{}
	}
	r.hidden[task] = hidden != ""
}

// unknownLoss says that a task may have lost entries.
const unknownLoss = "it is not known which entries are gone, because the record of what was applied last is incomplete"

// observed returns what the condition showed, and how that differs from what was
// last applied; or why what is missing may only be hidden.
func (t *tick) observed(ctx context.Context, in *decide.Input, answer consul.Answer) (*decide.Observed, error) {
	o := &decide.Observed{Digest: answer.Digest}
	if answer.Digest == in.State.Applied.Digest {
		return o, nil
	}
	before, err := state.LoadInputs(ctx, t.Store, in.Task.Name)
	if err != nil && !errors.Is(err, state.ErrTorn) {
		return nil, fmt.Errorf("read what the task was applied with: %w", err)
	}
	if err := answer.Visibility.Confirm(ctx, before.Sources); err != nil {
		return nil, err
	}
	if err != nil {
		o.Lost = &decide.Loss{Text: unknownLoss}
		t.Log.Debug("what changed cannot be said in detail", "task", in.Task.Name, "error", err)
		return o, nil
	}
	diff := consul.Diff(in.Task.Condition.Kind().Entries, before.Elements, before.Details, answer.Observation)
	source := guard.Source{Count: diff.Count(), Changes: diff.Changes()}
	o.Entries = &source.Changes
	if n := o.Entries.Removed; n > 0 {
		o.Lost = &decide.Loss{Entries: n, Text: guard.Removed(source)}
	}
	return o, nil
}
