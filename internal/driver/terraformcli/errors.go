package terraformcli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Command is a command of Terraform for a task.
type Command struct {
	Task    string
	Program string // "terraform" or "tofu"
	Name    string // such as "init" or "apply"
}

func (c Command) String() string {
	return fmt.Sprintf("%s %s of task %s", cmp.Or(c.Program, config.EngineTerraform), c.Name, c.Task)
}

// Error is a Terraform command that failed.
type Error struct {
	Command
	Message string // Terraform's errors, without decoration and secrets
	Hint    string // what it means and what to do, if that is known
	Unsaved *state.Unsaved

	causes   causes
	outdated []string // sources of the providers whose locked versions no longer suit the configuration
}

// Unsaved returns the state that a command with this error has left, because the backend did not take it; nil if
// there is none. Of it, Place and State are set; neither if nothing has kept the state.
func Unsaved(err error) *state.Unsaved {
	failed, interrupted := new(Error), new(InterruptedError)
	switch {
	case errors.As(err, &failed):
		return failed.Unsaved
	case errors.As(err, &interrupted):
		return interrupted.Unsaved
	case errors.As(err, new(*LostError)):
		return new(state.Unsaved)
	}
	return nil
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.String() + ": " + e.Message
	}
	return e.String() + ": " + e.Hint + "\n" + e.Message
}

// has reports whether the error has one of the causes.
func (e *Error) has(c causes) bool { return e.causes&c != 0 }

// LostError is a state that nothing has kept as a whole after an apply.
type LostError struct{ Task, Why string }

func (e *LostError) Error() string {
	return fmt.Sprintf("what task %s has applied is not in its state, and that state is lost: %s. Import what was made, or remove it: "+
		"the next plan is made from the older state, and waits for an approval", e.Task, e.Why)
}

// ErrNoState says that an apply or a destroy has not begun, because the backend does not have the state that the
// task should have.
var ErrNoState = errors.New("the backend has no state of the task, which was applied before")

// LockError is a state that is locked by another process.
type LockError struct {
	Command
	Workspace string
	// Terraform's description of the lock; may be empty.
	ID, Path, Operation, Who, Created string
	// Dead says why its holder is dead; "" if that is not certain. The lock could not
	// be released then.
	Dead string
}

// CreatedAt returns when the lock was taken, by its holder's clock; zero if that
// is not known.
func (e *LockError) CreatedAt() time.Time {
	at, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", e.Created)
	if err != nil {
		return time.Time{}
	}
	return at
}

func (e *LockError) Error() string {
	s := e.String() + ": the state is locked"
	if e.Who != "" {
		s += " by " + e.Who
	}
	if e.Operation != "" {
		s += " (" + e.Operation + ")"
	}
	if e.Created != "" {
		s += " since " + e.Created
	}
	s += ": it is tried again with the next run"
	switch {
	case e.Dead != "":
		s += fmt.Sprintf("; %s, but Terraform could not release the lock (S3 releases none of a state that was never written): remove the lock %s from the backend by hand", e.Dead, e.Path)
	case e.ID != "":
		s += fmt.Sprintf("; if you are sure that its holder is dead, run `%s force-unlock %s` in the task's directory, "+
			"or in any with the same backend and the workspace %s", cmp.Or(e.Program, config.EngineTerraform), e.ID, e.Workspace)
	}
	return s
}

// InterruptedError is a Terraform command that was interrupted and has ended.
type InterruptedError struct {
	Command
	Cause   error  // why
	Hint    string // what happened to a state that was not saved; may be empty
	Unsaved *state.Unsaved
	// Succeeded is set if the command had started and ended with exit code 0 all
	// the same.
	Succeeded bool
}

func (e *InterruptedError) Error() string {
	s := fmt.Sprintf("%s was interrupted: %v", e.Command, e.Cause)
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

func (e *InterruptedError) Unwrap() error { return e.Cause }

func (d *Dir) command(name string) Command { return Command{d.opts.Task, d.bin.Program(), name} }

// explain returns an error for what Terraform printed, which holds secrets.
func (d *Dir) explain(command, stderr string, err error) error {
	plain := undecorated(stderr)
	causes := causesOf(plain)
	if causes&locked != 0 {
		e := &LockError{Command: d.command(command), Workspace: d.opts.Workspace}
		e.read(plain)
		return e
	}
	e := &Error{Command: d.command(command), Message: messages(d.scrub.Clean(plain)), Hint: d.hint(plain), causes: causes, outdated: outdatedIn(plain)}
	if e.Message == "" {
		// Nothing on standard error: it was killed, or could not be started.
		first, _, _ := strings.Cut(err.Error(), "\n")
		e.Message = d.scrub.Clean(first)
	}
	return e
}
