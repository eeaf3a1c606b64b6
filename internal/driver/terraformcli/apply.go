package terraformcli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Apply makes the infrastructure what the root module says, in one step without
// a saved plan. It initialises the directory if Terraform requires that, and waits
// for a state lock for Options.LockTimeout. A state that an earlier apply could not
// save is saved first. If the backend does not accept the state of this apply,
// Apply retries for savingFor.
//
// When ctx ends, Terraform is interrupted and waited for, and its state is saved
// within Options.StopSaving. Then the error is an *InterruptedError, unless
// Terraform succeeded all the same.
func (d *Dir) Apply(ctx context.Context) (*state.Changes, error) {
	return d.change(ctx, "apply", nil, func(ctx context.Context, lock, varFile string) error {
		return d.tf.Apply(ctx, append(options[tfexec.ApplyOption](true, lock, varFile), tfexec.Reattach(d.attached))...)
	})
}

// Destroy deletes everything that is in the state of the root module. In all else
// it works as Apply does.
func (d *Dir) Destroy(ctx context.Context) (*state.Changes, error) {
	return d.change(ctx, "destroy", nil, func(ctx context.Context, lock, varFile string) error {
		return d.tf.Destroy(ctx, append(options[tfexec.DestroyOption](true, lock, varFile), tfexec.Reattach(d.attached))...)
	})
}

// options returns the options of a plan, an apply or a destroy.
func options[T any](lock bool, timeout, varFile string) []T {
	all := []any{tfexec.Lock(lock), tfexec.Parallelism(10), tfexec.Refresh(true), tfexec.LockTimeout(timeout)}
	if varFile != "" {
		all = append(all, tfexec.VarFile(varFile))
	}
	return list.Map(all, func(o any) T { return o.(T) })
}

// change runs a command that changes the infrastructure and its state. from is the
// mark of that state; nil to read it.
func (d *Dir) change(ctx context.Context, command string, from *StateMark, f func(ctx context.Context, lock, varFile string) error) (*state.Changes, error) {
	saving, stop := delay.Outlive(ctx, d.opts.StopSaving)
	defer stop()
	if _, err := d.saveUnsaved(ctx); err != nil {
		return nil, err
	}
	d.notSaved, d.printed = false, nil
	var r *reader
	var found *inventory
	err := d.attempt(ctx, command, func(lock, varFile string) error {
		if err := d.noteBegin(ctx, from); err != nil {
			return err
		}
		defer d.privateState()()
		r = &reader{planned: d.opts.Planned}
		if found = d.planned; from == nil {
			found = newInventory()
		}
		seen := func(line string) { r.line(line); found.line(line) }
		return d.run(ctx, command, seen, func(ctx context.Context) error { return f(ctx, lock, varFile) })
	})
	var failed *Error
	var interrupted *InterruptedError
	switch unsaved := exists(d.unsaved()) || d.notSaved; {
	case errors.As(err, &interrupted) && unsaved:
		interrupted.Hint, interrupted.Unsaved = d.saveAfter(saving)
	case errors.As(err, &interrupted) && interrupted.Succeeded && interrupted.Name == command:
		err = nil
	case errors.As(err, &failed) && unsaved:
		failed.Hint, failed.Unsaved = d.saveAfter(saving)
	}
	if !exists(d.unsaved()) {
		err = errors.Join(err, d.forgetBegin())
	}
	if r != nil && (r.complete || from != nil) {
		d.made = found
	}
	if err != nil {
		return nil, err
	}
	d.warned = r.warned
	return &r.Changes, nil
}

// lockPause is the time between two attempts to get a state lock.
const lockPause = 2 * time.Second

// attempt runs a command, and again after each problem that it can solve: a missing
// init, a missing workspace, and a lock whose holder is dead. It also waits for a
// lock: the Consul backend ignores -lock-timeout when it opens a workspace.
func (d *Dir) attempt(ctx context.Context, command string, f func(lock, varFile string) error) error {
	if err := d.selectWorkspace(); err != nil {
		return err
	}
	patience := time.Now().Add(d.opts.LockTimeout)
	initialised, created := false, false
	// A lock of the Consul backend expires by itself; force-unlock does not work.
	mayUnlock := d.opts.Orphaned != nil && d.opts.Backend.Type != "consul"
	checked, dead := "", "" // the lock that Orphaned was called for, and its answer
	for {
		err := d.withValues(func(varFile string) error {
			left := max(time.Until(patience), 0)
			if mayUnlock && checked == "" {
				left = 0 // Terraform names the holder of a lock when it gives up
			}
			return f(fmt.Sprintf("%ds", int(left.Round(time.Second).Seconds())), varFile)
		})
		var failed *Error
		var locked *LockError
		switch {
		case errors.As(err, &locked) && mayUnlock && locked.ID != checked:
			checked = locked.ID
			if dead = d.opts.Orphaned(ctx, d.opts.Task, locked); dead != "" {
				if err := d.unlock(ctx, locked, dead); err != nil {
					return err
				}
			}
		case errors.As(err, &locked):
			left := time.Until(patience)
			if left < lockPause {
				if locked.ID == checked {
					locked.Dead = dead
				}
				return err
			}
			fmt.Fprintf(d.opts.Log, "The state is locked. Trying again for %v.\n", left.Round(time.Second))
			if !delay.For(ctx, lockPause) {
				return &InterruptedError{Command: d.command(command), Cause: context.Cause(ctx)}
			}
		case !errors.As(err, &failed):
			return err
		case failed.has(wantsWorkspace) && !created:
			created = true
			if err := d.createWorkspace(ctx); err != nil {
				return err
			}
		case failed.has(wantsInit) && failed.Name != "init" && !initialised:
			initialised = true
			if err := d.initialise(ctx); err != nil {
				return err
			}
			if err := d.selectWorkspace(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// unlock releases a state lock, if it still has this id. If Terraform refuses, the
// run waits for the lock like for any other: it was released already, a right is
// missing, or the state does not exist yet (see Terraform's output).
func (d *Dir) unlock(ctx context.Context, lock *LockError, why string) error {
	fmt.Fprintf(d.opts.Log, "The state is locked by %s (%s) since %s: %s. Releasing this lock.\n", lock.Who, lock.Operation, lock.Created, why)
	err := d.run(ctx, "force-unlock", nil, func(ctx context.Context) error { return d.tf.ForceUnlock(ctx, lock.ID) })
	if interrupted := (*InterruptedError)(nil); errors.As(err, &interrupted) {
		return err
	}
	log := d.opts.Logger.With("task", d.opts.Task, "lock", lock.ID, "who", lock.Who, "operation", lock.Operation, "created", lock.Created, "cause", why)
	if err != nil {
		fmt.Fprintln(d.opts.Log, "The lock could not be released.")
		log.Warn("a state lock was not released whose holder is dead: if runs fail because of it, remove it from the backend", "path", lock.Path, "error", err)
		return nil
	}
	fmt.Fprintln(d.opts.Log, "The lock is released.")
	log.Warn("a state lock was released whose holder is dead")
	return nil
}

// withValues makes the secret values readable for Terraform while f runs.
func (d *Dir) withValues(f func(varFile string) error) error {
	if len(d.opts.VarJSON) == 0 {
		return f("")
	}
	path, stop, err := serve(d.opts.VarJSON, nil)
	if err != nil {
		return fmt.Errorf("hand the provider values of task %s to Terraform: %w", d.opts.Task, err)
	}
	defer stop()
	return f(path)
}

func (d *Dir) createWorkspace(ctx context.Context) error {
	if err := d.leaveWorkspace(); err != nil {
		return err
	}
	d.askVersion(ctx)
	err := d.run(ctx, "workspace new", nil, func(ctx context.Context) error {
		return d.tf.WorkspaceNew(ctx, d.opts.Workspace)
	})
	if err != nil {
		return err
	}
	return d.selectWorkspace()
}
