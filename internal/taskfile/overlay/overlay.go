// Package overlay applies the changes made through the API to the configuration of the task files.
// The changes are overrides in the store, one record per task, so that they survive every process
// and are the same on every instance.
package overlay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Effective is the effective configuration.
type Effective struct {
	// Unknown is why the configuration of the files is not known, with what to do about it; nil if it is known.
	// Config then has no tasks, although there may be some.
	Unknown   error
	Config    *config.Config
	Base      *config.Config            // of the task files
	Overrides map[string]state.Override // by task
	// Problems are the reasons why overrides have no effect, by task: for example, a task created
	// through the API may clash with a task that was added to a file later.
	Problems map[string]error
	// Corrupt are the errors of overrides that cannot be decoded, by task. Such a task must not
	// run: it may have been disabled.
	Corrupt map[string]error
}

// load reads the overrides and applies them to base.
func load(ctx context.Context, store state.Store, base *config.Config) (*Effective, error) {
	stored, wrong, err := state.ReadEach[state.Override](ctx, store, state.OverridePrefix)
	if err != nil {
		return nil, fmt.Errorf("read the changes made through the API: %w", err)
	}
	e := Compose(base, list.Map(stored, func(o state.Stored[state.Override]) state.Override { return o.Data }))
	e.Corrupt = map[string]error{}
	for _, err := range wrong {
		e.Corrupt[state.OverrideTask(err.Record.Key)] = err
	}
	return e, nil
}

// Unconfigured reads the overrides where the configuration of the files is not known.
func Unconfigured(ctx context.Context, store state.Store, why error) (*Effective, error) {
	e, err := load(ctx, store, &config.Config{})
	if err != nil {
		return nil, err
	}
	e.Unknown, e.Config, e.Problems = why, e.Base, nil // an override alone is no task
	return e, nil
}

// Compose applies overrides to base, in the order in which the tasks were created.
func Compose(base *config.Config, overrides []state.Override) *Effective {
	e := &Effective{Base: base, Overrides: map[string]state.Override{}}
	list.Sort(overrides, func(a, b state.Override) int { return a.Made.Compare(b.Made) })
	changes := make([]config.Change, len(overrides))
	for i, o := range overrides {
		e.Overrides[o.Task] = o
		changes[i] = config.Change{Task: o.Task, Definition: o.Definition, Enabled: o.Enabled, Deleted: o.Deleted}
	}
	e.Config, e.Problems = base.With(changes)
	return e
}

// Draft adds a task that is only to be planned and is not stored.
func (e *Effective) Draft(definition json.RawMessage) (*config.Config, *config.Task, error) {
	with := *e.Config
	t, err := with.Parse(definition)
	if err != nil {
		return nil, nil, fmt.Errorf("the definition of the task: %w", err)
	}
	with.Tasks = append(slices.Clone(e.Config.Tasks), *t)
	return &with, &with.Tasks[len(with.Tasks)-1], nil
}

// Replacing is Draft for a definition that may be another one of a task that there is.
func (e *Effective) Replacing(definition json.RawMessage) (*config.Config, *config.Task, error) {
	var named struct{ Name string }
	_ = json.Unmarshal(definition, &named) // Draft says what is wrong
	without := *e.Config
	without.Tasks = slices.DeleteFunc(slices.Clone(e.Config.Tasks), func(t config.Task) bool { return t.Name == named.Name })
	return (&Effective{Config: &without}).Draft(definition)
}

// Redundant reports whether an override says the same as the files. It is not kept, so
// that later changes of the files take effect.
func Redundant(o state.Override, base *config.Config) bool {
	t, ok := base.Task(o.Task)
	return ok && o.Provisional == nil && len(o.Definition) == 0 && o.Deleted == "" && o.Enabled != nil && *o.Enabled == t.Enabled
}
