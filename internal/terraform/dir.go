package terraform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/terrapulse/terrapulse/internal/config"
)

// Options are what Terraform is run with, beside the files of a directory.
type Options struct {
	Task      string // name, for messages
	Workspace string // the task's name, as CTS has it, where there are workspaces, if empty
	Backend   config.Backend
	Consul    config.Consul     // how a Consul backend connects; not used by others
	Env       map[string]string // task_env of the task's providers: secret
	Providers []string          // names of the providers that the task lists, without aliases
	VarJSON   []byte            // a variable file with the values of provider blocks: secret; nil for none
	Secrets   []string          // parts of those values that may be seen by themselves

	// Log receives what Terraform prints, a whole line at a time, with the
	// secrets of Env, VarJSON, Secrets, Backend and Consul made unreadable. Nil for
	// nowhere.
	Log io.Writer
	// Parallel is how many runs share the memory at a time; 1 if zero.
	Parallel int
	// PersistLog has Terraform's trace written to terraform.log in the directory,
	// as persist_log of CTS does, up to traceLimit.
	PersistLog bool
	// LockTimeout is how long a state lock that somebody else holds is waited
	// for. 60 s if zero: a lock on the Consul backend frees itself in about
	// 33 s when its holder was killed.
	LockTimeout time.Duration
	// Orphaned, if set, is asked once about each state lock that is met. It says
	// in words why the lock's holder is dead, and then the lock is released; ""
	// has it waited for. A wrong answer lets two Terraforms change one state.
	Orphaned func(ctx context.Context, lock *LockError) (why string)
	// Unlocked has Plan take no lock of the state, and so disturb nobody who works
	// on it. The plan may be of a state that is being changed.
	Unlocked bool
	// Grace is how long an interrupted Terraform may take to end, before it is
	// killed. 60 s if zero. Terraform saves its state and releases its lock in it.
	Grace time.Duration
	// StopSaving is how long, after Apply's context has ended, a state that the
	// backend did not take is offered again. 70 s if zero.
	StopSaving time.Duration
	// Keep, if set, keeps a state that could not be written to its backend under a
	// name, and returns where: for a directory that does not outlive the run. The
	// state holds secrets.
	Keep func(ctx context.Context, name string, state []byte) (place string, err error)
	// Logger receives what a person must see to, beside Log. Nil for nowhere.
	Logger *slog.Logger
}

// Dir is a task's directory in which Terraform can be run, by one goroutine at
// a time.
type Dir struct {
	path  string
	bin   *Binary
	opts  Options
	tf    *tfexec.Terraform
	scrub *scrubber
}

// markVariable names, in the environment of every process that Terraform
// starts, the directory for which it was started.
const markVariable = "TERRAPULSE_TASK_DIR"

// legacyPipes is the first Terraform that ends its output when interrupted.
var legacyPipes = version.Must(version.NewVersion("1.1.0"))

// Open prepares a directory that holds a root module. Processes that were left
// behind there by a Terraform that was killed are ended.
func (b *Binary) Open(dir string, opts Options) (*Dir, error) {
	if opts.Workspace == "" {
		opts.Workspace = workspaceOf(opts.Backend, opts.Task)
	}
	if opts.LockTimeout == 0 {
		opts.LockTimeout = time.Minute
	}
	if opts.Grace == 0 {
		opts.Grace = time.Minute
	}
	if opts.StopSaving == 0 {
		opts.StopSaving = stopSaving
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Log == nil {
		opts.Log = io.Discard
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of task %s: %w", opts.Task, err)
	}
	env, err := opts.environment()
	if err != nil {
		return nil, err
	}
	env[markVariable] = path
	tf, err := tfexec.NewTerraform(path, b.Path)
	if err != nil {
		return nil, fmt.Errorf("open the directory of task %s: %w", opts.Task, err)
	}
	if err := tf.SetEnv(env); err != nil {
		return nil, fmt.Errorf("environment of Terraform for task %s: %w", opts.Task, err)
	}
	if runtime.GOOS != "windows" {
		if err := tf.SetWaitDelay(opts.Grace); err != nil {
			return nil, fmt.Errorf("run Terraform for task %s: %w", opts.Task, err)
		}
	}
	tf.SetEnableLegacyPipeClosing(b.Version.Core().LessThan(legacyPipes))
	if err := endLeftovers(path); err != nil {
		return nil, fmt.Errorf("end what a killed Terraform left behind for task %s: %w", opts.Task, err)
	}
	return &Dir{path: path, bin: b, opts: opts, tf: tf, scrub: newScrubber(opts)}, nil
}

// run runs one command: f calls terraform-exec. Each line of standard output
// is shown to seen.
func (d *Dir) run(ctx context.Context, command string, seen func(line string), f func(context.Context) error) error {
	release, err := d.guard()
	if err != nil {
		return err
	}
	defer release()
	if d.opts.PersistLog {
		end, err := d.trace()
		if err != nil {
			return err
		}
		defer end()
	}
	out := output{log: d.opts.Log, scrub: d.scrub, seen: seen}
	stdout, stderr := out.stdout(), out.stderr()
	d.tf.SetStdout(stdout)
	d.tf.SetStderr(stderr)

	// On Linux Terraform is killed when the thread that started it ends, so
	// that it never outlives this process. The thread must last as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = f(ctx)
	stdout.flush()
	stderr.flush()
	out.end()

	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		awaitEnd(d.path, d.opts.Grace)
		_ = endLeftovers(d.path) // such as a git that waits for a server; the next Open tells what is in the way
		// err itself must not be printed: terraform-exec's has no text if Terraform
		// succeeded in spite of the interrupt.
		return &InterruptedError{Task: d.opts.Task, Program: d.bin.Program(), Command: command, Cause: context.Cause(ctx),
			Succeeded: out.any && !errors.As(err, new(*exec.ExitError))}
	default:
		return d.explain(command, out.errors(), err)
	}
}

// data is a path in Terraform's data directory.
func (d *Dir) data(elem ...string) string {
	return filepath.Join(append([]string{d.path, ".terraform"}, elem...)...)
}

// selectWorkspace does what `terraform workspace select` does, without a
// process and without asking whether there is such a workspace: backends
// create it when its state is opened.
func (d *Dir) selectWorkspace() error {
	file := d.data("environment")
	if now, err := os.ReadFile(file); err == nil && string(now) == d.opts.Workspace {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(file), 0o750)
	if err == nil {
		err = os.WriteFile(file, []byte(d.opts.Workspace), 0o600)
	}
	if err != nil {
		return fmt.Errorf("select the workspace of task %s: %w", d.opts.Task, err)
	}
	return nil
}

// leaveWorkspace selects the default workspace, which every backend has.
func (d *Dir) leaveWorkspace() error {
	if err := os.Remove(d.data("environment")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("leave the workspace of task %s: %w", d.opts.Task, err)
	}
	return nil
}
