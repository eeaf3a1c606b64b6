package terraformcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/terrapulse/terrapulse/internal/base/atomicfile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// unsavedFile is the file in the directory in which Terraform leaves the state
	// of an apply that the backend did not accept. If it stayed there, the next
	// run would create everything a second time.
	unsavedFile = "errored.tfstate"

	// beganFile is the file in the directory that holds the mark of the state from
	// which the latest apply began. A later process may read it.
	beganFile = ".terrapulse-began.json"

	// savingFor is how long a run retries to save its state: a container's
	// directory is lost with the run.
	savingFor = 5 * time.Minute

	// stopSaving is the default of Options.StopSaving. ECS kills a container 120
	// seconds after SIGTERM, of which the run's outcome may need 45; systemd kills
	// after 90 seconds.
	stopSaving = 70 * time.Second

	// keepingFor is how long Options.Keep may take.
	keepingFor = 10 * time.Second
)

// saveUnsaved saves the state that an apply has left in the directory, if there is
// one. It does so only if the backend still has the state from which that apply
// began. Otherwise the backend's state is right, and the other one is kept aside
// for a person; aside is its place.
func (d *Dir) saveUnsaved(ctx context.Context) (aside string, err error) {
	mended, err := d.mendLocal()
	if err != nil {
		return "", err
	}
	raw, err := d.leftState()
	switch {
	case err != nil:
		return "", err
	case raw == nil && !mended && !d.notSaved:
		return "", nil
	case !isState(raw):
		return "", d.lost(ctx, raw)
	case isEncrypted(raw):
		return "", d.encrypted(raw)
	}
	now, err := d.current(ctx)
	if err != nil {
		return "", d.stillUnsaved(err)
	}
	if why := d.notFollowed(now, raw); why != "" {
		return d.setAside(ctx, raw, why)
	}
	path := d.unsaved()
	if d.printed != nil {
		pipe, stop, err := serve(raw, nil)
		if err != nil {
			return "", d.stillUnsaved(err)
		}
		defer stop()
		path = pipe
	}
	err = d.pushFile(ctx, path)
	failed := (*Error)(nil)
	switch {
	case err == nil:
		return "", d.isSaved()
	case errors.As(err, &failed) && failed.has(newerState|unrelatedState|sameSerialState):
		return d.setAside(ctx, raw, "the backend's state has changed meanwhile")
	default:
		return "", d.stillUnsaved(err)
	}
}

// leftState returns the state that an apply has left; nil if there is none.
func (d *Dir) leftState() ([]byte, error) {
	raw, err := readIfThere(d.unsaved())
	if err != nil || isState(raw) || d.printed == nil {
		_ = os.Chmod(d.unsaved(), 0o600) // it holds what a state holds
		return raw, err
	}
	_ = d.writePrinted() // saveAfter reports the error
	return d.printed, nil
}

// writePrinted writes the state that Terraform could write nowhere, for the next run.
func (d *Dir) writePrinted() error { return atomicfile.WriteText(d.unsaved(), string(d.printed)) }

// lost returns the error of a run after an apply whose state is not whole anywhere. raw is what is left
// of it.
func (d *Dir) lost(ctx context.Context, raw []byte) error {
	why := "it could not be written as a whole"
	if len(raw) > 0 {
		aside, err := d.keepState(ctx, "errored", raw)
		if err != nil {
			return fmt.Errorf("keep aside what is left of the state of task %s: %w", d.opts.Task, err)
		}
		why += "; what is left of it is in " + aside
	}
	if err := d.forgetLeft(); err != nil {
		return fmt.Errorf("remove what is left of the state of task %s: %w", d.opts.Task, err)
	}
	return &LostError{d.opts.Task, why}
}

// forgetLeft forgets the state that an apply has left.
func (d *Dir) forgetLeft() error {
	d.notSaved, d.printed = false, nil
	return errors.Join(os.RemoveAll(d.unsaved()), d.forgetBegin())
}

// stillUnsaved adds the place of the state to the error of a command.
func (d *Dir) stillUnsaved(err error) error {
	if failed := (*Error)(nil); errors.As(err, &failed) {
		raw, _ := os.ReadFile(d.unsaved())
		failed.Hint, failed.Unsaved = d.unsavedHint(raw), leftIn(d.unsaved(), raw)
	}
	return err
}

// errEncrypted means that only a person can save a state that an apply has left.
var errEncrypted = errors.New("OpenTofu pushes no state that it has encrypted")

// encrypted returns the error of a run in whose directory an apply has left an encrypted state.
func (d *Dir) encrypted(raw []byte) error {
	return fmt.Errorf("%s (%w)", d.unsavedHint(raw), errEncrypted)
}

// leftIn describes the state that an apply has left, and its place.
func leftIn(place string, raw []byte) *state.Unsaved {
	left := &state.Unsaved{Place: place}
	left.State, _ = StateID(raw) // empty if it cannot be read
	return left
}

// SaveUnsaved saves the state that an earlier apply has left in the directory, if there is one.
func (d *Dir) SaveUnsaved(ctx context.Context) error {
	_, err := d.saveUnsaved(ctx)
	return err
}

// KeepsUnsaved reports whether an apply has left a whole state in the directory, or in one of a former name.
func (d *Dir) KeepsUnsaved(formers ...Former) bool {
	paths := []string{d.unsaved()}
	for _, former := range formers {
		for _, dir := range former.Dirs {
			paths = append(paths, filepath.Join(dir, unsavedFile))
		}
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		raw, _ := os.ReadFile(path)
		return isState(raw)
	})
}

// notFollowed returns why the state of an earlier apply must not replace the one
// in the backend; "" if it may.
func (d *Dir) notFollowed(now, left []byte) string {
	began, known := d.begin()
	if !known {
		return "it is not known which state that run began from"
	}
	shown, err := markOf(now)
	if err != nil {
		return "the backend's state cannot be read"
	}
	mark, err := markOf(left)
	if err != nil {
		return "it cannot be read"
	}
	if !Replaceable(began, shown, mark) {
		return fmt.Sprintf("the backend's state has changed since that run began (serial %d then, %d now)", began.Serial, shown.Serial)
	}
	return ""
}

// setAside keeps a state under a name of its own and reports it.
func (d *Dir) setAside(ctx context.Context, left []byte, why string) (aside string, err error) {
	aside, err = d.keepState(ctx, "errored", left)
	if err != nil {
		return "", fmt.Errorf("keep the state aside that task %s could not save (%s): %w", d.opts.Task, why, err)
	}
	if err := d.forgetLeft(); err != nil {
		return "", fmt.Errorf("keep the state aside that task %s could not save: %w", d.opts.Task, err)
	}
	fmt.Fprintf(d.opts.Log, "Warning: the state that an earlier apply could not save is not written to the backend: %s. It is kept in %s: "+
		"see whether it has resources that the backend's state lacks.\n", why, aside)
	d.opts.Logger.Warn("a state that an apply could not save is kept aside: see whether it has resources that the backend's state lacks",
		"task", d.opts.Task, "file", aside, "cause", why)
	return aside, nil
}

// keepState writes a state to a new file in the directory that only this user can
// read; if the directory is lost with the run, it is stored elsewhere. It returns the
// place.
func (d *Dir) keepState(ctx context.Context, kind string, state []byte) (place string, err error) {
	name := kind + ".tfstate." + time.Now().UTC().Format("20060102T150405Z")
	if d.opts.Keep != nil {
		return d.opts.Keep(ctx, d.opts.Task, name, state)
	}
	path := filepath.Join(d.path, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	for n := 2; errors.Is(err, os.ErrExist); n++ {
		path = filepath.Join(d.path, fmt.Sprintf("%s-%d", name, n))
		f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(state)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path)
		return "", err
	}
	return path, nil
}

// noteBegin writes to the directory the mark of the state from which the next
// apply begins; nil to read it.
func (d *Dir) noteBegin(ctx context.Context, mark *StateMark) error {
	if mark == nil {
		state, err := d.current(ctx)
		if err != nil {
			return err
		}
		now, err := markOf(state)
		if err != nil {
			return d.forgetBegin() // a state that Terraform may be able to read
		}
		if d.opts.HasState && now.None() {
			return ErrNoState
		}
		mark = &now
	}
	raw, err := json.Marshal(mark)
	if err == nil {
		err = os.WriteFile(d.begun(), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("note the state that the apply of task %s begins from: %w", d.opts.Task, err)
	}
	return nil
}

// begin returns the mark of the state that the latest apply began from.
func (d *Dir) begin() (mark StateMark, known bool) {
	raw, err := os.ReadFile(d.begun())
	return mark, err == nil && json.Unmarshal(raw, &mark) == nil
}

func (d *Dir) forgetBegin() error { return os.RemoveAll(d.begun()) }

// begun is the path of beganFile.
func (d *Dir) begun() string { return filepath.Join(d.path, beganFile) }

// saveAfter retries to save the state of an apply that failed or was interrupted.
// It returns what happened to that state, for people, and the state if it is still not saved.
func (d *Dir) saveAfter(ctx context.Context) (hint string, left *state.Unsaved) {
	fmt.Fprintln(d.opts.Log, "The state is not saved. That is tried again.")
	var lost *LostError
	aside, err := backoff.Retry(ctx, func() (string, error) {
		aside, err := d.saveUnsaved(ctx)
		if errors.As(err, &lost) || errors.Is(err, errEncrypted) {
			err = backoff.Permanent(err)
		}
		return aside, err
	}, backoff.WithMaxElapsedTime(savingFor))
	if err != nil && lost == nil {
		hint, left, err = d.keepUnsaved()
		if err == nil {
			return hint, left
		}
		lost = &LostError{d.opts.Task, err.Error()}
	}
	switch {
	case lost != nil:
		return lost.Error(), Unsaved(lost)
	case aside != "":
		return fmt.Sprintf("what was applied is not in the state: the backend's state has changed since this run began, and this run's is kept in %s: "+
			"see whether it has resources that the backend's lacks", aside), left
	default:
		return "the state could not be saved at first, and is saved now: the next run goes on from it", left
	}
}

// keepUnsaved keeps a state that the backend does not accept: in the directory, or elsewhere if that is
// lost with the run.
func (d *Dir) keepUnsaved() (hint string, left *state.Unsaved, err error) {
	raw, err := d.leftState()
	if err != nil {
		return "", left, err
	}
	if d.opts.Keep == nil {
		if d.printed != nil {
			err = d.writePrinted()
		}
		return d.unsavedHint(raw), leftIn(d.unsaved(), raw), err
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepingFor)
	defer cancel()
	place, err := d.keepState(ctx, "errored", raw)
	if err != nil {
		return "", left, err
	}
	d.opts.Logger.Warn("a state that an apply could not save is kept aside: write it to the backend with `terraform state push` before the task runs again",
		"task", d.opts.Task, "file", place)
	return fmt.Sprintf("what was applied is not in the state, which could not be saved: it is kept in %s: "+
		"write it to the backend with `%s state push` before the task runs again", place, d.bin.Program()), leftIn(place, raw), nil
}

// unsaved is the path of unsavedFile.
func (d *Dir) unsaved() string { return filepath.Join(d.path, unsavedFile) }

func (d *Dir) unsavedHint(raw []byte) string {
	then := "the next run in that directory saves it first"
	if isEncrypted(raw) {
		then = "is encrypted: save it by hand, and remove the file, before the task runs again"
	}
	return fmt.Sprintf("what was applied is not in the state, which could not be saved: it is kept in %s, and %s", d.unsaved(), then)
}

// pushFile writes a file to the backend as the state of the selected workspace.
func (d *Dir) pushFile(ctx context.Context, path string, opts ...tfexec.StatePushCmdOption) error {
	return d.attempt(ctx, "state push", func(lock, _ string) error {
		defer d.privateState()()
		return d.run(ctx, "state push", nil, func(ctx context.Context) error {
			return d.tf.StatePush(ctx, path, append(opts, tfexec.Lock(true), tfexec.LockTimeout(lock))...)
		})
	})
}
