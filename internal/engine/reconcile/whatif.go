package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/verdict"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Supposer reads what tasks read, and what they would read under a what-if.
type Supposer interface {
	Suppose(ctx context.Context, tasks []*config.Task, w condition.WhatIf) (*consul.Supposed, error)
}

// NewQuestion returns the id of a new question.
func NewQuestion() string { return newID() }

// ErrDisabledTask is the error of a what-if that names a task that is disabled.
var ErrDisabledTask = errors.New("the task is disabled: nothing would happen to it")

// WhatIf launches a plan run for each task whose data would differ under a what-if, and
// writes the question under the given id: which runs answer it. Without names, it is about
// all enabled tasks. No record of a task changes.
func (p Planner) WhatIf(ctx context.Context, w condition.WhatIf, names []string, id, who string) (state.Question, []state.Launch, error) {
	q, cfg, tasks, err := p.question(ctx, w, names, id, who)
	if err != nil {
		return q, nil, err
	}
	if p.Consul == nil {
		return q, nil, errors.New("this process cannot read Consul for a what-if")
	}
	s, err := p.Consul.Suppose(ctx, tasks, w)
	if err != nil {
		return q, nil, err
	}
	launches, err := p.ask(ctx, &q, cfg, w, s.Sort(&q, tasks, nil), runsPerLaunch)
	return q, launches, err
}

// allPerLaunch is how many runs a launch of WhatIfAll has as a rule: they are written together with its record.
const allPerLaunch = state.MaxChanges - 1

// WhatIfAll is WhatIf where this process does not read Consul: the runs find out themselves
// whether their tasks are concerned.
func (p Planner) WhatIfAll(ctx context.Context, w condition.WhatIf, names []string, id, who string) (state.Question, []state.Launch, error) {
	q, cfg, tasks, err := p.question(ctx, w, names, id, who)
	if err != nil {
		return q, nil, err
	}
	launches, err := p.ask(ctx, &q, cfg, w, tasks, allPerLaunch)
	return q, launches, err
}

// question returns a question without its answers, and the tasks that it is about.
func (p Planner) question(ctx context.Context, w condition.WhatIf, names []string, id, who string) (state.Question, *config.Config, []*config.Task, error) {
	q := state.Question{ID: id, Supposed: w.String(), By: who, Created: p.Now()}
	effective, err := p.Source.Read(ctx, p.Store, p.Config)
	if err != nil {
		return q, nil, nil, err
	}
	tasks, err := supposable(effective.Config, names)
	q.Tasks = len(tasks)
	if raw, wrong := json.Marshal(w); wrong == nil {
		q = q.Asked(raw, names)
	}
	if err == nil {
		q.Order, err = Places(ctx, p.Store, effective.Config, tasks, p.Now())
	}
	return q, effective.Config, tasks, err
}

// Places returns the places of tasks in the order, and of those that come before them, as they are now. Without
// a store, nothing is known of what the tasks have applied.
func Places(ctx context.Context, store state.Store, cfg *config.Config, tasks []*config.Task, now time.Time) ([]state.Place, error) {
	return verdict.Places(cfg, tasks, func(names []string) (verdict.Records, error) {
		known := verdict.Records{Tasks: map[string]state.Task{}, Corrupt: map[string]error{}}
		if store == nil {
			return known, nil
		}
		records, corrupt, err := readTasks(ctx, store, names, len(cfg.Tasks))
		if err != nil {
			return known, fmt.Errorf("read the tasks that come before others: %w", err)
		}
		for key, r := range records {
			if r.Exists() {
				known.Tasks[state.TaskName(key)] = r.Data
			}
		}
		for key, wrong := range corrupt {
			known.Corrupt[state.TaskName(key)] = wrong
		}
		return known, nil
	}, now)
}

// readTasks reads the records of some of all tasks by their keys or, if they are many, those of all tasks.
func readTasks(ctx context.Context, store state.Store, names []string, all int) (map[string]state.Stored[state.Task], map[string]*state.CorruptError, error) {
	if !listed(len(names), all) {
		return state.ReadSeveral[state.Task](ctx, store, list.Map(names, state.TaskKey))
	}
	every, wrong, err := state.ReadEach[state.Task](ctx, store, state.TaskPrefix)
	records, corrupt := map[string]state.Stored[state.Task]{}, map[string]*state.CorruptError{}
	for _, r := range every {
		records[r.Key] = r
	}
	for _, w := range wrong {
		corrupt[w.Record.Key] = w
	}
	return records, corrupt, err
}

// ask launches the runs that answer a question, and writes it.
func (p Planner) ask(ctx context.Context, q *state.Question, cfg *config.Config, w condition.WhatIf, tasks []*config.Task, perLaunch int) ([]state.Launch, error) {
	raw, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode what is supposed: %w", err)
	}
	names := list.Map(tasks, func(t *config.Task) string { return t.Name })
	return p.launch(ctx, cfg, names, perLaunch, state.Launch{WhatIf: raw}, state.Run{
		WhatIf: &state.WhatIf{ID: q.ID, Supposed: q.Supposed},
		Reason: state.Reason{Code: state.ReasonForced, Text: fmt.Sprintf("what if, %s: plan requested by %s", q.Supposed, q.By)},
	}, p.writeQuestion(q))
}

// writeQuestion returns what writes a question before its runs start.
func (p Planner) writeQuestion(q *state.Question) func(context.Context, []state.Launch) error {
	return func(ctx context.Context, launches []state.Launch) error {
		for _, l := range launches {
			for _, run := range l.Runs {
				q.Runs = append(q.Runs, state.Answering{Task: run.Task, Run: run.ID})
			}
		}
		return SaveQuestion(ctx, p.Store, *q)
	}
}

// SaveQuestion writes a question that was not there.
func SaveQuestion(ctx context.Context, s state.Store, q state.Question) error {
	_, err := s.Apply(ctx, state.Create(state.QuestionKey(q.ID), state.Encode(q)).Until(q.KeptUntil()))
	if err != nil {
		return fmt.Errorf("write the what-if: %w", err)
	}
	return nil
}

// supposable are the enabled tasks, or the named ones.
func supposable(cfg *config.Config, names []string) ([]*config.Task, error) {
	var tasks []*config.Task
	if len(names) == 0 {
		for i := range cfg.Tasks {
			if cfg.Tasks[i].Enabled {
				tasks = append(tasks, &cfg.Tasks[i])
			}
		}
		return tasks, nil
	}
	for _, name := range names {
		t, ok := cfg.Task(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("task %s: there is no such task", name)
		case !t.Enabled:
			return nil, fmt.Errorf("task %s: %w", name, ErrDisabledTask)
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}
