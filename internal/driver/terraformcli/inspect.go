package terraformcli

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
	tfjson "github.com/hashicorp/terraform-json"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// overrideFile takes the place of the backend block of main.tf.
const overrideFile = "terrapulse_override.tf"

// Plan is what Apply would change. Its JSON holds secrets, its Text none.
type Plan struct {
	// JSON is the plan as data. It is nil if the backend runs the plan: then the
	// Summary is read from the text. It is also nil if Show returns it.
	JSON    *tfjson.Plan
	Summary state.Changes
	Changes bool   // there is something to apply, by Terraform's exit code
	New     bool   // the task has no state yet
	Text    string // for people
	// Show returns JSON and Print returns Text, each with another start of Terraform.
	// They are nil if the plan has both. They work until the plan was applied.
	Show  func(ctx context.Context) (*tfjson.Plan, error)
	Print func(ctx context.Context) (string, error)
	// Clean removes from a text the secrets that Terraform was given.
	Clean func(text string) string
}

// Inspect finds what Apply would change in a task's directory, which need not exist.
// It works in a temporary directory with links to the files of that one. render
// writes the root module, also after init, which may have installed a module that
// declares other types. A task without a workspace is
// planned against an empty state, as opening its state would create a workspace.
// (The backends remote and cloud create the one that they name all the same.)
func (b *Binary) Inspect(ctx context.Context, dir string, render func(dir string) error, opts Options) (Plan, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Plan{}, fmt.Errorf("directory of task %s: %w", opts.Task, err)
	}
	tmp, remove, err := scratch("inspect-")
	if err != nil {
		return Plan{}, fmt.Errorf("create a directory to inspect task %s in: %w", opts.Task, err)
	}
	defer remove()
	if err := render(tmp); err != nil {
		return Plan{}, err
	}
	if err := mirror(dir, tmp); err != nil {
		return Plan{}, fmt.Errorf("prepare the directory to inspect task %s in: %w", opts.Task, err)
	}
	opts.PersistLog = false
	d, err := b.Open(tmp, opts)
	if err != nil {
		return Plan{}, err
	}
	var fresh bool
	if d.opts.Backend.Type == "" || d.opts.Backend.Type == "local" {
		workspaces := workspaceDir(dir, d.opts.Backend)
		if fresh = !exists(filepath.Join(workspaces, d.opts.Workspace, "terraform.tfstate")); fresh {
			workspaces = ""
		}
		if err = d.useLocalState(workspaces); err == nil {
			err = d.runInit(ctx)
		}
	} else {
		fresh, err = d.useRemoteState(ctx)
	}
	if err != nil {
		return Plan{}, err
	}
	if err := render(tmp); err != nil {
		return Plan{}, err
	}
	plan, err := d.Plan(ctx)
	plan.New = fresh
	return plan, err
}

// Plan finds what Apply would change. Unlike Inspect, it creates the workspace if
// there is none.
func (d *Dir) Plan(ctx context.Context) (Plan, error) {
	scratchDir, remove, err := scratch("plan-")
	if err != nil {
		return Plan{}, fmt.Errorf("create a directory for the plan of task %s: %w", d.opts.Task, err)
	}
	defer remove()
	return d.plan(ctx, filepath.Join(scratchDir, "plan"))
}

// plan is Plan, which leaves the plan in a file, unless the backend runs it.
func (d *Dir) plan(ctx context.Context, file string, more ...tfexec.PlanOption) (Plan, error) {
	var plan Plan
	err := d.attempt(ctx, "plan", func(lock, varFile string) error {
		opts := append(options[tfexec.PlanOption](!d.opts.Unlocked, lock, varFile), more...)
		if !d.opts.Backend.PlansRemotely() {
			opts = append(opts, tfexec.Out(file))
		}
		var r reader
		var text strings.Builder
		d.planned = newInventory()
		seen := func(line string) { r.line(line); d.planned.line(line); text.WriteString(line + "\n") }
		plan = Plan{Clean: d.scrub.Clean}
		err := d.run(ctx, "plan", seen, func(ctx context.Context) (err error) {
			plan.Changes, err = d.tf.Plan(ctx, append(opts, tfexec.Reattach(d.attached))...)
			return err
		})
		plan.Summary, plan.Text = r.Changes, strings.TrimSpace(text.String())
		plan.Summary.Unknown = !r.complete
		return err
	})
	if err != nil || d.opts.Backend.PlansRemotely() {
		return plan, err
	}
	plan.JSON, err = d.show(ctx, file)
	return plan, err
}

// show returns a plan file as data, which holds secrets.
func (d *Dir) show(ctx context.Context, file string) (plan *tfjson.Plan, err error) {
	d.askVersion(ctx)
	err = d.run(ctx, "show", nil, func(ctx context.Context) (err error) {
		d.tf.SetStdout(io.Discard)
		plan, err = d.tf.ShowPlanFile(ctx, file, tfexec.JSONNumber(true), tfexec.Reattach(d.attached))
		return err
	})
	return plan, err
}

// print returns a plan file for people, and writes it to the log.
func (d *Dir) print(ctx context.Context, file string) (string, error) {
	d.askVersion(ctx)
	var text strings.Builder
	err := d.run(ctx, "show", func(line string) { text.WriteString(line + "\n") }, func(ctx context.Context) error {
		_, err := d.tf.ShowPlanFileRaw(ctx, file, tfexec.Reattach(d.attached))
		return err
	})
	return strings.TrimSpace(text.String()), err
}

// mirror links the visible files of a task's directory into tmp, except states and
// files that tmp already has, and copies the lock file.
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
		// A file that exists stays. Without links (Windows), only files with
		// relative names are missing.
		_ = os.Symlink(filepath.Join(dir, name), filepath.Join(tmp, name))
	}
	lock, err := readIfThere(filepath.Join(dir, lockFile))
	if lock == nil {
		return err
	}
	return os.WriteFile(filepath.Join(tmp, lockFile), lock, 0o600)
}

// useLocalState overrides the backend with a local one that has its workspaces in
// this directory; "" for a new one in the directory of the plan.
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

// useRemoteState opens the task's own backend. If that has no workspace of the
// task, it uses an empty local state and returns fresh.
func (d *Dir) useRemoteState(ctx context.Context) (fresh bool, err error) {
	var opts []tfexec.InitOption
	if d.opts.Unlocked && d.opts.Backend.Type == "consul" {
		opts = append(opts, tfexec.BackendConfig("lock=false")) // it also takes the lock when it opens a state
	}
	err = d.runInit(ctx, opts...)
	var failed *Error
	switch {
	case errors.As(err, &failed) && failed.has(wantsWorkspace):
		// No task has a workspace yet.
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

// hasWorkspace reports whether the backend has the workspace.
func (d *Dir) hasWorkspace(ctx context.Context) (bool, error) {
	var workspaces []string
	err := d.run(ctx, "workspace list", nil, func(ctx context.Context) (err error) {
		d.tf.SetStdout(io.Discard) // the names of all other tasks
		workspaces, _, err = d.tf.WorkspaceList(ctx)
		return err
	})
	return slices.Contains(workspaces, d.opts.Workspace), err
}
