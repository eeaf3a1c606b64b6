package terraformcli

import (
	"cmp"
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

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Options say how Terraform is run in a directory.
type Options struct {
	Task      string // name, for messages
	Workspace string // if empty, the task's name as in CTS, if the backend has workspaces
	Backend   config.Backend
	Consul    config.Consul     // how a Consul backend connects; not used by others
	Env       map[string]string // task_env of the task's providers: secret
	// Credentials are variables that replace those of this process; one with an empty
	// value is not passed on.
	Credentials map[string]string
	Trace       string   // value of TRACEPARENT; "" if there is none
	Providers   []string // names of the providers that the task lists, without aliases
	VarJSON     []byte   // a variable file with the values of provider blocks: secret; nil for none
	Secrets     []string // parts of those values that may occur by themselves

	// Log receives what Terraform prints, a whole line at a time, without the secrets
	// of Env, VarJSON, Secrets, Backend and Consul. Nil for none.
	Log io.Writer
	// Planned, if set, is called when an Apply or Destroy that is not judged has
	// planned.
	Planned func()
	// HasState says that the task should have a state: Apply and Destroy return ErrNoState if there is none.
	HasState bool
	// WithoutModule says that the root module does not call the task's module: then
	// only the state says which providers are needed.
	WithoutModule bool
	// Shared has providers that several directories share. Nil to share none.
	Shared *Shared
	// Parallel is how many runs at a time share the memory; 1 if zero.
	Parallel int
	// PersistLog writes Terraform's trace to terraform.log in the directory, as
	// persist_log of CTS does, up to traceLimit.
	PersistLog bool
	// LockTimeout is how long to wait for a state lock. 60 s if zero: a lock of the
	// Consul backend expires about 33 s after its holder was killed.
	LockTimeout time.Duration
	// Orphaned, if set, is called once for each state lock of another holder. It
	// returns why that holder is dead: then the lock is released. For "", the run waits
	// for the lock. A wrong answer lets two Terraforms change one state.
	Orphaned func(ctx context.Context, task string, lock *LockError) (why string)
	// ChecksRequired says that Checks is called with required.
	ChecksRequired bool
	// Unlocked makes Plan take no lock of the state, so that it delays no other
	// Terraform. The plan may be of a state that is being changed.
	Unlocked bool
	// Grace is how long an interrupted Terraform may take to save its state and
	// release its lock before it is killed. 60 s if zero.
	Grace time.Duration
	// StopSaving is how long, after the context has ended, the write of a state that
	// the backend did not accept is retried. 70 s if zero.
	StopSaving time.Duration
	// Keep, if set, stores a state that could not be written to its backend, and
	// returns where: for a directory that is lost with the run. The state holds
	// secrets.
	Keep func(ctx context.Context, task, name string, state []byte) (place string, err error)
	// ReadS3, if set, reads a state in S3 with the credentials that Terraform has, too; nil for an
	// object that does not exist. After an error, Terraform reads it.
	ReadS3 func(ctx context.Context, object S3Object) ([]byte, error)
	// Logger receives what a person must act on, besides Log. Nil for none.
	Logger *slog.Logger
}

// Dir is a task's directory in which Terraform can be run, by one goroutine at
// a time.
type Dir struct {
	path  string
	bin   *Binary
	opts  Options
	tf    *tfexec.Terraform
	scrub *redact.Scrubber

	attached tfexec.ReattachInfo // the providers that the next command of Terraform connects to
	cache    string              // the plugin cache of an init; "" for the one that a user has configured
	warned   bool                // the latest plan or apply printed a warning
	checked  *Checks             // by a plan without changes, which is not applied; nil if there is none
	checkErr error               // why that is not known

	notSaved bool   // an apply has said that it could not save the state
	printed  []byte // that state, if Terraform could write it nowhere

	planned *inventory // by the latest plan; nil if there is none
	made    *inventory // by an apply that has begun; nil if there is none
}

// Environment variables of the processes of Terraform.
const (
	markVariable    = "TERRAPULSE_TASK_DIR" // the directory for which a process was started
	commandVariable = "TERRAPULSE_COMMAND"  // the ID of the command
)

// legacyPipes is the first version that closes its output when interrupted.
var legacyPipes = version.Must(version.NewVersion("1.1.0"))

// Open prepares a directory that holds a root module. It ends processes that a
// killed Terraform has left behind there.
func (b *Binary) Open(dir string, opts Options) (*Dir, error) {
	opts.Workspace = cmp.Or(opts.Workspace, workspaceOf(opts.Backend, opts.Task))
	opts.LockTimeout = cmp.Or(opts.LockTimeout, time.Minute)
	opts.Grace = cmp.Or(opts.Grace, time.Minute)
	opts.StopSaving = cmp.Or(opts.StopSaving, stopSaving)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Log == nil {
		opts.Log = io.Discard
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of task %s: %w", opts.Task, err)
	}
	if exists(filepath.Join(path, ownProviders)) {
		opts.Shared = nil
	}
	env, err := opts.environment()
	if err != nil {
		return nil, err
	}
	if !opts.Shared.usable(env) {
		opts.Shared = nil
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
	d := &Dir{path: path, bin: b, opts: opts, tf: tf, scrub: newScrubber(opts)}
	if err := d.endLeftovers(); err != nil {
		return nil, err
	}
	return d, nil
}

// run runs one command: f calls terraform-exec. seen is called with each line of
// standard output.
func (d *Dir) run(ctx context.Context, command string, seen func(line string), f func(context.Context) error) error {
	return d.runTo(ctx, command, &output{seen: seen}, f)
}

// runTo is run with an output that reads what the command prints.
func (d *Dir) runTo(ctx context.Context, command string, out *output, f func(context.Context) error) (err error) {
	env, id, release, err := d.guard()
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
	out.log, out.scrub = d.opts.Log, d.scrub
	stdout, stderr := out.stdout(), out.stderr()
	d.tf.SetStdout(stdout)
	d.tf.SetStderr(stderr)

	// On Linux, Terraform and its providers are killed when the thread that started them
	// ends, so that they never outlive this process. Hence the thread must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	detach := d.attach(ctx, command, env)
	defer func() { detach(err != nil) }()
	err = f(ctx)
	stdout.flush()
	stderr.flush()
	out.end()
	if err != nil && !d.notSaved && causesOf(undecorated(out.errors()))&notSaved != 0 {
		d.notSaved, d.printed = true, out.state
	}

	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		awaitEnd(d.path, d.opts.Grace)
		_ = d.endCommand(id) // such as a git that waits for a server
		// err itself must not be printed: terraform-exec's has no text if Terraform
		// succeeded in spite of the interrupt.
		return &InterruptedError{Command: d.command(command), Cause: context.Cause(ctx),
			Succeeded: out.any && !errors.As(err, new(*exec.ExitError))}
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && !exit.Exited() { // for lack of memory, say
		_ = d.endCommand(id)
	}
	return d.explain(command, out.errors(), err)
}

// data returns a path in Terraform's data directory.
func (d *Dir) data(elem ...string) string {
	return filepath.Join(append([]string{d.path, ".terraform"}, elem...)...)
}

// selectWorkspace does what `terraform workspace select` does, without a process
// and without checking that the workspace exists: backends create it when they open
// its state.
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
	if err := os.RemoveAll(d.data("environment")); err != nil {
		return fmt.Errorf("leave the workspace of task %s: %w", d.opts.Task, err)
	}
	return nil
}
