package terraformcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Former is where the state of a task was under a former name.
type Former struct {
	Task    string
	Backend config.Backend // for that name
	Dirs    []string       // the directories that it may have had: a local backend is below one of them
}

// TakeAlong moves the state that the task had under other names, the latest first, to its
// workspace, and the resources in it to its module: nothing is made anew. Then it removes
// the state there. A move that did not get to its end is taken up by the next one. Expected
// says that there must be a state, as the task was applied.
func (d *Dir) TakeAlong(ctx context.Context, expected bool, formers ...Former) error {
	var names []string
	for _, former := range formers {
		found, err := d.takeAlong(ctx, former)
		if err != nil {
			return fmt.Errorf("take the Terraform state of task %s along to task %s, its new name: %w", former.Task, d.opts.Task, err)
		}
		expected = expected && !found
		names = append(names, former.Task)
	}
	if expected {
		return fmt.Errorf("take the Terraform state of task %s along to task %s, its new name: there is no state under either name: "+
			"if it is in another place, move it to the new name by hand; to begin without one, remove moved_from", strings.Join(names, " or "), d.opts.Task)
	}
	return nil
}

// takeAlong takes up the state under one former name. It reports whether there is a state
// under that name or the new one.
func (d *Dir) takeAlong(ctx context.Context, former Former) (found bool, err error) {
	from, err := d.former(former)
	if err != nil {
		return false, err
	}
	was, err := from.stateIn(ctx, former.Backend)
	if err != nil {
		return false, err
	}
	now, err := d.current(ctx)
	if err != nil {
		return false, err
	}
	shared := d.sharesState(former.Backend)
	if shared {
		was = now
	}
	unsaved, was, err := d.takeUnsaved(ctx, from, former, was)
	if err != nil || len(was) == 0 {
		return len(now) > 0, err
	}
	if shared {
		if next, err := d.renamed(ctx, former.Task, was); err != nil || next == nil {
			return true, err
		} else if _, err = d.push(ctx, next); err != nil {
			return true, err
		}
		return true, unsaved.isSaved()
	}
	if done, err := d.takeState(ctx, former, was, now); !done || err != nil {
		return true, err
	}
	if err := unsaved.isSaved(); err != nil {
		return true, err
	}
	fmt.Fprintf(d.opts.Log, "The state of task %s was taken along: it is the state of task %s now.\n", former.Task, d.opts.Task)
	if err := d.removeFormer(ctx, from, former); err != nil {
		return true, fmt.Errorf("it was copied, but the state before was not removed (the next run tries again): %w", err)
	}
	return true, nil
}

// takeState copies a state of a former name to the workspace of the task, unless it is there
// already. It is not done if nothing is managed under the former name.
func (d *Dir) takeState(ctx context.Context, former Former, was, now []byte) (done bool, err error) {
	there, err := markOf(now)
	if err != nil {
		return false, err
	}
	before, err := markOf(was)
	if err != nil {
		return false, err
	}
	if len(there.Objects) > 0 && there.Lineage != before.Lineage {
		if len(before.Objects) == 0 {
			return false, nil
		}
		return false, fmt.Errorf("both names have a state, and Terrapulse overwrites neither: the state of task %s has %d resources, the state of task %s has %d. "+
			"Find out which one is right, and remove the other one (terraform workspace delete), or remove moved_from", d.opts.Task, len(there.Objects), former.Task, len(before.Objects))
	}
	if there.Lineage == before.Lineage && there.Serial > before.Serial {
		return true, nil
	}
	next, err := d.renamed(ctx, former.Task, was)
	if err != nil {
		return false, err
	}
	if next == nil {
		next = was // it has nothing of the module
	}
	if err := d.receive(ctx, next, d); err != nil {
		return false, err
	}
	if now, err = d.current(ctx); err == nil {
		there, err = markOf(now)
	}
	if err == nil && (there.Lineage != before.Lineage || len(there.Objects) != len(before.Objects)) {
		err = errors.New("the backend did not take all of it: the state before stays, and the next run tries again")
	}
	return err == nil, err
}

// takeUnsaved returns the state that a task had under its former name: the one in the backend, or
// the one that its last apply has left in its directory because the backend did not accept it.
// Without that one, what the apply has made would be made again. Left is where it is; nil if there
// is none.
func (d *Dir) takeUnsaved(ctx context.Context, from *Dir, former Former, was []byte) (left *Dir, state []byte, err error) {
	for _, path := range former.Dirs {
		there := *from
		if there.path, err = filepath.Abs(path); err != nil {
			return nil, nil, err
		}
		raw, err := readIfThere(there.unsaved())
		if err != nil {
			return nil, nil, err
		}
		if raw == nil || there.path == d.path && !hasModule(raw, former.Task) { // or an apply of the new name has left it
			continue
		}
		_ = os.Chmod(there.unsaved(), 0o600) // it holds what a state holds
		if !isState(raw) {
			return nil, nil, there.lost(ctx, raw)
		}
		if isEncrypted(raw) {
			return nil, nil, there.encrypted(raw)
		}
		why := there.notFollowed(was, raw)
		if why == "" {
			return &there, raw, nil
		}
		if _, err := there.setAside(ctx, raw, why); err != nil {
			return nil, nil, err
		}
	}
	return nil, was, nil
}

// isSaved forgets the state that an apply has left in the directory: the backend has it now.
func (d *Dir) isSaved() error {
	if d == nil {
		return nil
	}
	fmt.Fprintln(d.opts.Log, "The state that could not be saved before is saved now.")
	return d.forgetLeft()
}

// former returns a directory that stands for the one under the name before.
func (d *Dir) former(former Former) (*Dir, error) {
	from := *d
	from.opts.Task, from.opts.Workspace, from.opts.Backend = former.Task, workspaceOf(former.Backend, former.Task), former.Backend
	if !local(former.Backend) {
		return &from, nil
	}
	for _, dir := range former.Dirs {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		from.path = path
		if exists(from.localState()) {
			break
		}
	}
	return &from, nil
}

func local(b config.Backend) bool { return b.Type == "" || b.Type == "local" }

// sharesState reports whether the backend has one state for both names.
func (d *Dir) sharesState(before config.Backend) bool {
	if hasWorkspaces(before) || hasWorkspaces(d.opts.Backend) {
		return false
	}
	return before.Body.Value().GoString() == d.opts.Backend.Body.Value().GoString()
}

// renamed returns a state with the resources of a task's module below the module of
// this task; nil if it has none. Terraform does that in a temporary directory.
func (d *Dir) renamed(ctx context.Context, before string, state []byte) ([]byte, error) {
	if !hasModule(state, before) {
		return nil, nil
	}
	dir, remove, err := scratch("")
	if err != nil {
		return nil, err
	}
	defer remove()
	path := filepath.Join(dir, "terraform.tfstate")
	if err := os.WriteFile(path, state, 0o600); err != nil {
		return nil, err
	}
	opts := d.opts
	opts.PersistLog, opts.VarJSON, opts.Backend, opts.Workspace = false, nil, config.Backend{}, defaultWorkspace
	scratched, err := d.bin.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	err = scratched.run(ctx, "state mv", nil, func(ctx context.Context) error {
		return scratched.tf.StateMv(ctx, "module."+before, "module."+d.opts.Task)
	})
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// hasModule reports whether a state has resources in a module of the root module.
func hasModule(state []byte, name string) bool {
	var s struct{ Resources []struct{ Module string } }
	_ = json.Unmarshal(state, &s) // Terraform says what is wrong with it
	return slices.ContainsFunc(s.Resources, func(r struct{ Module string }) bool {
		return r.Module == "module."+name || strings.HasPrefix(r.Module, "module."+name+".")
	})
}

// removeFormer removes the state under the name before, and its workspace if the
// backend has one for it.
func (d *Dir) removeFormer(ctx context.Context, from *Dir, former Former) error {
	switch {
	case local(former.Backend):
		file := from.localState()
		if err := os.RemoveAll(file); err != nil {
			return err
		}
		_ = os.Remove(file + ".backup")
		_ = os.Remove(filepath.Dir(file)) // unless something else is in it
		return nil
	case hasWorkspaces(former.Backend):
		// The workspace that is selected is that of this task.
		return d.attempt(ctx, "workspace delete", func(lock, _ string) error {
			return d.run(ctx, "workspace delete", nil, func(ctx context.Context) error {
				return d.tf.WorkspaceDelete(ctx, former.Task, tfexec.Force(true), tfexec.LockTimeout(lock))
			})
		})
	}
	old, remove, err := from.beside(ctx, former.Backend)
	if err != nil {
		return err
	}
	defer remove()
	return old.attempt(ctx, "state rm", func(lock, _ string) error {
		return old.run(ctx, "state rm", nil, func(ctx context.Context) error {
			return old.tf.StateRm(ctx, "module."+former.Task, tfexec.LockTimeout(lock))
		})
	})
}
