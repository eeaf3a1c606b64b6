package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/guard"
	"github.com/terrapulse/terrapulse/internal/state"
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
func (t *tick) observe(ctx context.Context, rec state.Reconcile, states map[string]state.Stored[state.Task]) ([]Input, error) {
	now := t.Now()
	// After an outage Consul may be another one, whose index happens to be the
	// same: everything is read then.
	recovered := rec.ConsulError != "" && t.problem() == ""
	all := t.everything || t.opts.Leads || recovered || rec.Config != t.digest || passed(rec.Refreshed, refreshEvery, now, t.Skew)
	t.everything = all
	moved := t.moved(rec)
	// If no gate can be read, no view can either: tasks that need one wait.
	unreachable := t.opts.GatesErr != nil && !t.sighted()
	t.leftOut.partial = !all || unreachable
	if unreachable {
		moved = func(consul.Query) bool { return false }
	}

	var blocked map[string]error
	if t.Blocked != nil {
		blocked = t.Blocked()
	}
	names := t.renames(states, now)
	inputs := make([]Input, len(t.tasks))
	for i, task := range t.tasks {
		s := states[task.Name].Data
		inputs[i] = Input{Task: task.Task, Definition: task.definition, State: s, Force: t.opts.Force[task.Name], All: t.opts.All, Datacenters: task.datacenters, Blocked: blocked[task.Name], Skew: t.Skew,
			Shape: task.shape, Unconfirmed: s.Unconfirmed, Renamed: names.before[task.Name], Unmoved: t.unmoved(task.Task, states)}
		if len(inputs[i].Renamed) == 0 {
			inputs[i].Unmoved = cmp.Or(inputs[i].Unmoved, t.occupied(task.Task, states))
		}
		if err := t.corrupt[task.Name]; err != nil {
			inputs[i] = Input{Task: task.Task, Corrupt: err}
			continue
		}
		o := t.effective.Overrides[task.Name]
		inputs[i].ChangedBy = o.ChangedBy()
		if o.Provisional != nil && s.Run == nil && s.Forced == "" && !hadRun(o, s) {
			inputs[i].Force, inputs[i].All = o.By, false // what was asked for is forgotten where the task was not there for a while
		}
	}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if _, ok := t.effective.Config.Task(name); !ok {
			in := Input{Task: &config.Task{Name: name}, Removed: true, Blocked: t.effective.Problems[name], State: states[name].Data,
				Corrupt: t.corrupt[name], Keep: t.Config.KeepRemoved, Skew: t.Skew, Unconfirmed: states[name].Data.Unconfirmed,
				MovedTo: names.moved[name], NotMovedTo: t.late[name], RenamedTo: names.after[name]}
			if in.MovedTo == "" {
				if err := t.restore(ctx, &in); err != nil {
					return nil, err
				}
			}
			inputs = append(inputs, in)
		}
	}
	if err := t.findLostRuns(ctx, inputs, states); err != nil {
		return nil, err
	}
	if err := t.findLostChecks(ctx, inputs); err != nil {
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

	var queries []consul.Query
	var asked, whole []int // which input each query is for; whose module inputs are read as well
	for i, task := range t.tasks {
		in := &inputs[i]
		s := in.State
		if !task.Enabled || in.Corrupt != nil {
			continue
		}
		modules := t.readsModules(task, s)
		reads := all || s.ObservedAt.IsZero() || s.Recheck || s.Unconfirmed || !s.UnreadableSince.IsZero() || in.Lost != nil || reached(s.Due, now) ||
			in.Check || appliesDrift(task.Task, &s) || in.Force != "" || s.Forced != "" || s.HoldNext || s.Definition != task.definition ||
			task.query != nil && moved(*task.query) ||
			modules && slices.ContainsFunc(task.inputs, func(q consul.InputQuery) bool { return moved(q.Query) })
		switch {
		case task.query == nil:
			in.Observed = &Observed{}
		case reads:
			queries, asked = append(queries, *task.query), append(asked, i)
		}
		if modules && reads {
			whole = append(whole, i)
		}
	}
	for _, i := range whole {
		for _, q := range t.tasks[i].inputs {
			queries = append(queries, q.Query)
		}
	}

	if unreachable {
		for _, i := range asked {
			inputs[i].Unreadable, inputs[i].ConsulUnreachable = t.opts.GatesErr, true
		}
	} else {
		answers := t.Consul.Observe(ctx, queries)
		if t.unanswered = outage(answers); t.unanswered && t.opts.GatesErr == nil {
			t.opts.GatesErr = answers[0].Err // the gates show it later
		}
		for n, i := range asked {
			in, answer := &inputs[i], answers[n]
			t.leftOut.note(in.Task.Name, answer)
			if answer.Err != nil {
				in.Unreadable = answer.Err
				in.ConsulUnreachable = t.unanswered
				continue
			}
			in.Observed, in.Unreadable = t.observed(ctx, in, answer)
			t.warnHidden(in.Task.Name, answer.Visibility.Hidden())
		}
		answers = answers[len(asked):]
		for _, i := range whole {
			n := len(t.tasks[i].inputs)
			for _, answer := range answers[:n] {
				t.leftOut.note(inputs[i].Task.Name, answer)
			}
			t.observedInputs(ctx, &inputs[i], t.tasks[i].inputs, answers[:n])
			answers = answers[n:]
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return inputs, nil
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
func (t *tick) observed(ctx context.Context, in *Input, answer consul.Answer) (*Observed, error) {
	o := &Observed{Digest: answer.Digest}
	if answer.Digest == in.State.Applied {
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
		o.Lost = &loss{text: unknownLoss}
		t.Log.Debug("what changed cannot be said in detail", "task", in.Task.Name, "error", err)
		return o, nil
	}
	source := consul.Diff(in.Task.Condition.Kind().Entries, before.Elements, before.Details, answer.Observation).Source()
	o.Entries = &source.Changes
	if n := o.Entries.Removed; n > 0 {
		o.Lost = &loss{entries: n, text: guard.Removed(source)}
	}
	return o, nil
}
