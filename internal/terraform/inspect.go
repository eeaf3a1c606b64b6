package terraform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/hashicorp/terraform-exec/tfexec"
	"github.com/zclconf/go-cty/cty"
)

// overrideFile takes the place of the backend block of main.tf.
const overrideFile = "terrapulse_override.tf"

// Inspect says what Apply would do in a task's directory, and leaves nothing
// behind: it works in a temporary directory, into which render writes the root
// module, and plans against an empty state where the task has no workspace
// yet, as opening the state would create one. (remote and cloud create the one
// workspace that they name all the same.) The task's directory need not
// exist; what a person or the module has put there can be read under the same
// relative names. render is called once more after init if that has
// fetched the module, with the types that it declares.
func (b *Binary) Inspect(ctx context.Context, dir string, render func(dir string, installed map[string]string) error, opts Options) (Summary, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Summary{}, fmt.Errorf("directory of task %s: %w", opts.Task, err)
	}
	tmp, remove, err := scratch("inspect-")
	if err != nil {
		return Summary{}, fmt.Errorf("create a directory to inspect task %s in: %w", opts.Task, err)
	}
	defer remove()
	if err := render(tmp, nil); err != nil {
		return Summary{}, err
	}
	if err := mirror(dir, tmp); err != nil {
		return Summary{}, fmt.Errorf("prepare the directory to inspect task %s in: %w", opts.Task, err)
	}
	opts.PersistLog = false
	d, err := b.Open(tmp, opts)
	if err != nil {
		return Summary{}, err
	}
	var fresh bool
	if d.opts.Backend.Type == "" || d.opts.Backend.Type == "local" {
		workspaces := existingState(dir, d.opts)
		fresh = workspaces == ""
		if err = d.useLocalState(workspaces); err == nil {
			err = d.runInit(ctx)
		}
	} else {
		fresh, err = d.useRemoteState(ctx)
	}
	if err != nil {
		return Summary{}, err
	}
	if installed := d.InstalledTypes(); installed != nil {
		if err := render(tmp, installed); err != nil {
			return Summary{}, err
		}
	}
	s, err := d.Plan(ctx)
	s.Fresh = fresh
	return s, err
}

// mirror links the visible files of a task's directory into tmp, but for those
// that tmp already has and for states, and copies the lock file.
func mirror(dir, tmp string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "terraform.tfstate") || strings.HasPrefix(name, traceFile) {
			continue
		}
		// One that is there stays; where links cannot be made (Windows), only
		// what relative names would find is missing.
		_ = os.Symlink(filepath.Join(dir, name), filepath.Join(tmp, name))
	}
	lock, err := os.ReadFile(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(tmp, lockFile), lock, 0o600)
}

// existingState returns the directory of workspaces of a local backend, or ""
// if the task has no state in it.
func existingState(dir string, opts Options) string {
	workspaces := "terraform.tfstate.d"
	if v, ok := opts.Backend.Body.Attributes["workspace_dir"]; ok && v.Type() == cty.String && !v.IsNull() && v.AsString() != "" {
		workspaces = v.AsString()
	}
	if !filepath.IsAbs(workspaces) {
		workspaces = filepath.Join(dir, workspaces)
	}
	if exists(filepath.Join(workspaces, opts.Workspace, "terraform.tfstate")) {
		return workspaces
	}
	return ""
}

// useLocalState overrides the backend by a local one, with its workspaces in
// this directory; "" is a new one, in the directory of the inspection.
func (d *Dir) useLocalState(workspaces string) error {
	f := hclwrite.NewEmptyFile()
	backend := f.Body().AppendNewBlock("terraform", nil).Body().AppendNewBlock("backend", []string{"local"}).Body()
	if workspaces != "" {
		backend.SetAttributeValue("workspace_dir", cty.StringVal(workspaces))
	}
	if err := os.WriteFile(filepath.Join(d.path, overrideFile), f.Bytes(), 0o600); err != nil {
		return fmt.Errorf("prepare the inspection of task %s: %w", d.opts.Task, err)
	}
	return nil
}

// useRemoteState opens the task's own backend, and turns to an empty local
// state if that has no workspace of the task: then it is fresh.
func (d *Dir) useRemoteState(ctx context.Context) (fresh bool, err error) {
	var opts []tfexec.InitOption
	if d.opts.Unlocked && d.opts.Backend.Type == "consul" {
		opts = append(opts, tfexec.BackendConfig("lock=false")) // it takes the lock when it opens a state, too
	}
	err = d.runInit(ctx, opts...)
	var failed *Error
	switch {
	case errors.As(err, &failed) && failed.needsWorkspace():
		// There is none yet, of any task.
	case err != nil:
		return false, err
	case !hasWorkspaces(d.opts.Backend):
		return false, nil
	default:
		there, err := d.hasWorkspace(ctx)
		if there || err != nil {
			return false, err
		}
	}
	if err := d.useLocalState(""); err != nil {
		return true, err
	}
	return true, d.runInit(ctx, tfexec.Reconfigure(true))
}

// hasWorkspace asks the backend whether it has the workspace.
func (d *Dir) hasWorkspace(ctx context.Context) (bool, error) {
	var workspaces []string
	err := d.run(ctx, "workspace list", nil, func(ctx context.Context) (err error) {
		d.tf.SetStdout(io.Discard) // the names of all other tasks
		workspaces, _, err = d.tf.WorkspaceList(ctx)
		return err
	})
	return slices.Contains(workspaces, d.opts.Workspace), err
}
