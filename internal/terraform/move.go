package terraform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/terrapulse/terrapulse/internal/config"
)

// If the configuration names another backend than before, the next run of each
// task moves its state there. `terraform init -force-copy` cannot do that: it copies
// the states of all tasks each time, over newer states of tasks that have moved
// already; and between backends of which only one has workspaces it copies the
// default one.

// backendFile is the file in the data directory in which Terraform notes the
// backend that the directory was initialised for.
const backendFile = "terraform.tfstate"

// usedBackend is the backend that a directory was initialised for.
type usedBackend struct {
	Type   string         `json:"type"`
	Config map[string]any `json:"config"` // its arguments; nil for those that are not set
}

// backendBefore returns the backend that the directory was initialised for; not ok
// if it was not.
func (d *Dir) backendBefore() (before usedBackend, ok bool) {
	raw, err := os.ReadFile(d.data(backendFile))
	var note struct{ Backend *usedBackend }
	if err != nil || json.Unmarshal(raw, &note) != nil || note.Backend == nil || note.Backend.Type == "" {
		return usedBackend{}, false
	}
	return *note.Backend, d.opts.Backend.Type != ""
}

// move copies the state of the task to the configured backend and marks the
// directory as initialised for that one. A move that fails starts again from the
// beginning.
func (d *Dir) move(ctx context.Context, from usedBackend) error {
	fmt.Fprintf(d.opts.Log, "The backend was %q and is %q: the state of this task is taken along.\n", from.Type, d.opts.Backend.Type)
	err := d.moveState(ctx, from)
	if interrupted := (*InterruptedError)(nil); err == nil || errors.As(err, &interrupted) {
		return err
	}
	return fmt.Errorf("move the state of task %s from the backend %q that it was in before (to leave it there, and begin without one, remove %s): %w",
		d.opts.Task, from.Type, d.data(), err)
}

func (d *Dir) moveState(ctx context.Context, from usedBackend) error {
	state, err := d.stateIn(ctx, from)
	if err != nil {
		return err
	}
	present, err := valuesOf(d.opts.Backend.Body)
	if err != nil {
		return err
	}
	place := present["workspace_dir"]
	if d.opts.Backend.Type == "local" {
		present["workspace_dir"] = workspaceDir(d.path, place)
	}
	to, remove, err := d.beside(ctx, usedBackend{d.opts.Backend.Type, present}, d.opts.Backend)
	if err != nil {
		return err
	}
	defer remove()
	if d.opts.Backend.Type == "local" {
		to.opts.Backend.Body = bodyOf(present)
	}
	if len(state) > 0 {
		if err := to.receive(ctx, state, d); err != nil {
			return err
		}
	}
	raw, err := os.ReadFile(to.data(backendFile))
	if err != nil {
		return err
	}
	if d.opts.Backend.Type == "local" {
		var note map[string]any
		if err := json.Unmarshal(raw, &note); err != nil {
			return err
		}
		if backend, ok := note["backend"].(map[string]any); ok {
			if used, ok := backend["config"].(map[string]any); ok {
				used["workspace_dir"] = place
			}
		}
		if raw, err = json.Marshal(note); err != nil {
			return err
		}
	}
	next := d.data(backendFile + ".next")
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(next, d.data(backendFile))
}

// workspaceDir returns the directory of a local backend's workspaces for the task
// in dir, by its argument workspace_dir.
func workspaceDir(dir string, argument any) string {
	workspaces, _ := argument.(string)
	if workspaces = cmp.Or(workspaces, "terraform.tfstate.d"); filepath.IsAbs(workspaces) {
		return workspaces
	}
	return filepath.Join(dir, workspaces)
}

// beside opens a temporary directory that is initialised for a backend and has
// nothing else.
func (d *Dir) beside(ctx context.Context, used usedBackend, backend config.Backend) (*Dir, func(), error) {
	dir, remove, err := scratch("")
	if err != nil {
		return nil, nil, err
	}
	block := map[string]any{"backend": map[string]any{used.Type: arguments(used.Config)}}
	if used.Type == "cloud" {
		block = map[string]any{"cloud": arguments(used.Config)}
	}
	module, err := json.Marshal(map[string]any{"terraform": block})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "main.tf.json"), module, 0o600)
	}
	opts := d.opts
	opts.PersistLog, opts.VarJSON, opts.Backend = false, nil, backend
	opts.Workspace = workspaceOf(backend, opts.Task)
	var other *Dir
	if err == nil {
		other, err = d.bin.Open(dir, opts)
	}
	if err == nil {
		err = other.initialise(ctx)
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return other, remove, nil
}

// stateIn returns the task's state in a backend; nil if there is none.
func (d *Dir) stateIn(ctx context.Context, from usedBackend) ([]byte, error) {
	if from.Type == "local" {
		return readState(filepath.Join(workspaceDir(d.path, from.Config["workspace_dir"]), d.opts.Task, "terraform.tfstate"))
	}
	old, remove, err := d.beside(ctx, from, config.Backend{Type: from.Type, Body: bodyOf(from.Config)})
	if err != nil {
		return nil, err
	}
	defer remove()
	if hasWorkspaces(old.opts.Backend) {
		if there, err := old.hasWorkspace(ctx); !there || err != nil {
			return nil, err
		}
	}
	if err := old.selectWorkspace(); err != nil {
		return nil, err
	}
	return old.pull(ctx)
}

// pull returns the state of the selected workspace; empty if there is none.
func (d *Dir) pull(ctx context.Context) ([]byte, error) {
	var state string
	err := d.run(ctx, "state pull", nil, func(ctx context.Context) (err error) {
		d.tf.SetStdout(io.Discard)
		state, err = d.tf.StatePull(ctx)
		return err
	})
	return []byte(state), err
}

// receive writes the task's state to the backend and keeps its lineage: some
// backends give a new one to the first state. Otherwise, another instance that has
// not moved yet, or a move back, would find an unrelated state.
//
// An older state of the same lineage is replaced. It may have other changes, so that
// the task's directory keeps a copy.
func (d *Dir) receive(ctx context.Context, state []byte, task *Dir) error {
	old, err := d.current(ctx)
	if err != nil {
		return err
	}
	copied := ""
	if replaces(state, old) {
		if copied, err = task.keepState(ctx, "replaced", old); err != nil {
			return fmt.Errorf("keep a copy of the state that is replaced: %w", err)
		}
	}
	taken, err := d.push(ctx, state)
	switch {
	case copied == "":
	case taken:
		fmt.Fprintf(d.opts.Log, "Warning: the new backend held an older state of this task already, which is replaced. A copy is kept in %s: "+
			"see whether it has resources that the new state lacks.\n", copied)
		d.opts.Logger.Warn("a state was moved over an older one of the same task: see whether the copy of that one has resources that the new state lacks",
			"task", d.opts.Task, "copy", copied)
	default:
		os.Remove(copied) // it is still in the backend
	}
	if err != nil || !taken {
		return err
	}
	there, err := d.pull(ctx)
	if err == nil && lineageOf(there) != lineageOf(state) {
		_, err = d.push(ctx, state, tfexec.Force(true)) // over what was just written
	}
	return err
}

// replaces reports whether writing a state over an older one of the same lineage
// loses known objects or attributes.
func replaces(state, old []byte) bool {
	next, err := markOf(state)
	if err != nil {
		return false // Terraform will say what is wrong with it
	}
	was, err := markOf(old)
	return err == nil && was.Lineage == next.Lineage && was.Serial < next.Serial &&
		slices.ContainsFunc(was.Objects, func(object string) bool { return !next.has(object) })
}

func lineageOf(state []byte) string {
	var s struct{ Lineage string }
	_ = json.Unmarshal(state, &s) // none if it cannot be read
	return s.Lineage
}

// push writes the task's state to the backend. Terraform refuses if the backend
// has a newer state, which stays, or one that is unrelated or has the same serial,
// which a person must check.
func (d *Dir) push(ctx context.Context, state []byte, opts ...tfexec.StatePushCmdOption) (taken bool, err error) {
	path, stop, err := serve(state)
	if err != nil {
		return false, err
	}
	defer stop()
	err = d.pushFile(ctx, path, opts...)
	failed := (*Error)(nil)
	switch {
	case !errors.As(err, &failed):
	case failed.has(newerState):
		fmt.Fprintln(d.opts.Log, "Warning: the state in the new backend is newer than that in the old one, and stays. The old one is left where it is.")
		d.opts.Logger.Warn("a state was not moved, as the new backend has a newer one of the same task: see whether the old one has resources that this one lacks",
			"task", d.opts.Task)
		return false, nil
	case failed.has(unrelatedState | sameSerialState):
		failed.Hint = fmt.Sprintf("the backend %q holds another state under the same name already: find out which one is right, and remove the other", d.opts.Backend.Type)
	}
	return err == nil, err
}

// arguments returns the arguments of a backend that are set, as a configuration in
// JSON has them: there, ${ begins an expression.
func arguments(v any) any {
	switch v := v.(type) {
	case string:
		return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(v)
	case []any:
		var items []any
		for _, e := range v {
			items = append(items, arguments(e))
		}
		return items
	case map[string]any:
		set := map[string]any{}
		for name, e := range v {
			if e != nil {
				set[name] = arguments(e)
			}
		}
		return set
	}
	return v
}

// bodyOf returns the arguments of a backend that are texts, and those in its
// blocks.
func bodyOf(values map[string]any) config.Body {
	body := config.Body{Attributes: map[string]cty.Value{}, Blocks: map[string][]config.Body{}}
	for name, v := range values {
		switch v := v.(type) {
		case string:
			body.Attributes[name] = cty.StringVal(v)
		case map[string]any:
			body.Blocks[name] = append(body.Blocks[name], bodyOf(v))
		case []any:
			for _, item := range v {
				if block, ok := item.(map[string]any); ok {
					body.Blocks[name] = append(body.Blocks[name], bodyOf(block))
				}
			}
		}
	}
	return body
}

// valuesOf returns the arguments of a backend as JSON has them.
func valuesOf(b config.Body) (map[string]any, error) {
	values := map[string]any{}
	for name, v := range b.Attributes {
		raw, err := ctyjson.Marshal(v, v.Type())
		if err != nil {
			return nil, err
		}
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, err
		}
		values[name] = value
	}
	for name, blocks := range b.Blocks {
		var items []any
		for _, block := range blocks {
			item, err := valuesOf(block)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		values[name] = items
	}
	return values, nil
}
