package terraformcli

import (
	"bytes"
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

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// If the configuration names another backend than before, the next run of each
// task moves its state there. `terraform init -force-copy` cannot do that: it copies
// the states of all tasks each time, over newer states of tasks that have moved
// already; and between backends of which only one has workspaces it copies the
// default one.

// backendFile is the file in the data directory in which Terraform notes the
// backend that the directory was initialised for.
const backendFile = "terraform.tfstate"

// backendBefore returns the backend that the directory was initialised for; not ok
// if it was not.
func (d *Dir) backendBefore() (before config.Backend, ok bool) {
	raw, err := os.ReadFile(d.data(backendFile))
	var note struct {
		Backend struct {
			Type   string
			Config ctyjson.SimpleJSONValue
		}
	}
	if err != nil || json.Unmarshal(raw, &note) != nil || note.Backend.Type == "" || note.Backend.Config.IsNull() {
		return config.Backend{}, false
	}
	return config.Backend{Type: note.Backend.Type, Body: bodyOf(note.Backend.Config.Value)}, d.opts.Backend.Type != ""
}

// move copies the state of the task to the configured backend and marks the
// directory as initialised for that one. A move that fails starts again from the
// beginning.
func (d *Dir) move(ctx context.Context, from config.Backend) error {
	fmt.Fprintf(d.opts.Log, "The backend was %q and is %q: the state of this task is taken along.\n", from.Type, d.opts.Backend.Type)
	err := d.moveState(ctx, from)
	if interrupted := (*InterruptedError)(nil); err == nil || errors.As(err, &interrupted) {
		return err
	}
	return fmt.Errorf("move the state of task %s from the backend %q that it was in before (to leave it there, and begin without one, remove %s): %w",
		d.opts.Task, from.Type, d.data(), err)
}

func (d *Dir) moveState(ctx context.Context, from config.Backend) error {
	state, err := d.stateIn(ctx, from)
	if err != nil {
		return err
	}
	backend, workspaces := d.opts.Backend, ""
	if backend.Type == "local" {
		workspaces = workspaceDir(d.path, backend)
		backend.Body = config.Body{Attributes: map[string]cty.Value{"workspace_dir": cty.StringVal(workspaces)}}
	}
	to, remove, err := d.beside(ctx, backend)
	if err != nil {
		return err
	}
	defer remove()
	if len(state) > 0 {
		if err := to.receive(ctx, state, d); err != nil {
			return err
		}
	}
	raw, err := os.ReadFile(to.data(backendFile))
	if err != nil {
		return err
	}
	if backend.Type == "local" {
		there, _ := json.Marshal(workspaces)
		here := []byte("null")
		if place := argument(d.opts.Backend.Body, "workspace_dir"); place != "" {
			here, _ = json.Marshal(place)
		}
		raw = bytes.Replace(raw, there, here, 1)
	}
	next := d.data(backendFile + ".next")
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(next, d.data(backendFile))
}

// workspaceDir returns the directory of a local backend's workspaces for the task
// in dir.
func workspaceDir(dir string, local config.Backend) string {
	workspaces := cmp.Or(argument(local.Body, "workspace_dir"), "terraform.tfstate.d")
	if filepath.IsAbs(workspaces) {
		return workspaces
	}
	return filepath.Join(dir, workspaces)
}

// beside opens a temporary directory that is initialised for a backend and has
// nothing else.
func (d *Dir) beside(ctx context.Context, backend config.Backend) (*Dir, func(), error) {
	dir, remove, err := scratch("")
	if err != nil {
		return nil, nil, err
	}
	// In JSON, arguments and blocks look the same, and ${ begins an expression.
	escape := strings.NewReplacer("${", "$${", "%{", "%%{").Replace
	arguments := ctyjson.SimpleJSONValue{Value: backend.Body.Map(func(_, text string) string { return escape(text) }).Value()}
	block := map[string]any{"backend": map[string]any{backend.Type: arguments}}
	if backend.Type == "cloud" {
		block = map[string]any{"cloud": arguments}
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
func (d *Dir) stateIn(ctx context.Context, from config.Backend) ([]byte, error) {
	if local(from) {
		return readIfThere(filepath.Join(workspaceDir(d.path, from), d.opts.Task, "terraform.tfstate"))
	}
	old, remove, err := d.beside(ctx, from)
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
	path, stop, err := serve(state, nil)
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

// bodyOf returns the arguments that are set and the blocks in an object. Objects are
// taken for blocks.
func bodyOf(object cty.Value) config.Body {
	body := config.Body{Attributes: map[string]cty.Value{}, Blocks: map[string][]config.Body{}}
	for name, v := range object.AsValueMap() {
		items := []cty.Value{v}
		if v.Type().IsTupleType() {
			items = v.AsValueSlice()
		}
		switch {
		case v.IsNull():
		case len(items) > 0 && items[0].Type().IsObjectType():
			for _, item := range items {
				body.Blocks[name] = append(body.Blocks[name], bodyOf(item))
			}
		default:
			body.Attributes[name] = v
		}
	}
	return body
}
