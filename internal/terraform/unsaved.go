package terraform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/terraform-exec/tfexec"
)

// unsavedFile is where Terraform leaves, in the directory, the state that an
// apply has come to and that the backend did not take. If it stayed there, the
// next run would make everything a second time.
const unsavedFile = "errored.tfstate"

// savingFor is how long a run goes on trying to save its state: a container's
// directory goes with the run.
const savingFor = 5 * time.Minute

// outdatedState is what Terraform says of a state that does not follow the one
// in the backend.
var outdatedState = regexp.MustCompile(`over\s+(?:newer|unrelated)\s+state|that\s+has\s+the\s+same\s+serial`)

// saveUnsaved saves the state that an apply has left in the directory, if there
// is one. Where the backend's state has gone on without it, that one counts, and
// what was left is kept beside it for a person.
func (d *Dir) saveUnsaved(ctx context.Context) error {
	path := d.unsaved()
	if !exists(path) {
		return nil
	}
	err := d.pushFile(ctx, path)
	failed := (*Error)(nil)
	switch {
	case err == nil:
		fmt.Fprintln(d.opts.Log, "The state that could not be saved before is saved now.")
		err = os.Remove(path)
	case errors.As(err, &failed) && outdatedState.MatchString(failed.stderr):
		aside := path + ".outdated"
		fmt.Fprintf(d.opts.Log, "Warning: the backend's state has gone on without the one that an earlier run could not save. "+
			"That is kept in %s: see whether it has resources that the backend's lacks.\n", aside)
		err = os.Rename(path, aside)
	case failed != nil:
		failed.Hint = d.unsavedHint()
	}
	return err
}

// saveAfter goes on trying to save the state that a failed apply has come to, and
// returns the apply's error with what has become of it.
func (d *Dir) saveAfter(ctx context.Context, failed *Error) error {
	fmt.Fprintf(d.opts.Log, "The state is not saved. That is tried again for up to %v.\n", savingFor)
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, d.saveUnsaved(ctx) }, backoff.WithMaxElapsedTime(savingFor))
	failed.Hint = "the state could not be saved at first, and is saved now: the next run goes on from it"
	if err != nil {
		failed.Hint = d.unsavedHint()
	}
	return failed
}

// unsaved is the path of unsavedFile.
func (d *Dir) unsaved() string { return filepath.Join(d.path, unsavedFile) }

func (d *Dir) unsavedHint() string {
	return fmt.Sprintf("what was applied is not in the state, which could not be saved: it is kept in %s, and the next run in that directory saves it first",
		d.unsaved())
}

// pushFile writes a file to the backend as the state of the selected workspace.
func (d *Dir) pushFile(ctx context.Context, path string, opts ...tfexec.StatePushCmdOption) error {
	return d.attempt(ctx, "state push", func(lock, _ string) error {
		return d.run(ctx, "state push", nil, func(ctx context.Context) error {
			return d.tf.StatePush(ctx, path, append(opts, tfexec.Lock(true), tfexec.LockTimeout(lock))...)
		})
	})
}
