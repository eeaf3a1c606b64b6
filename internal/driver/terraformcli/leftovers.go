package terraformcli

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// scratchPrefix begins the name of every temporary directory.
	scratchPrefix = "terrapulse-"

	// scratchMark is a file in each temporary directory, which the process that uses
	// the directory keeps locked.
	scratchMark = ".terrapulse"

	// abandonedAfter is how long a temporary directory must be unchanged before Sweep
	// removes it: a Terraform that does not die with its process may run on for a while.
	abandonedAfter = time.Hour

	// runningPrefix begins the name of a file in the data directory while a command runs, which the
	// process that has started the command keeps locked. The ID of the command follows.
	runningPrefix = "terrapulse-running-"
)

// scratch makes a private temporary directory, and returns what removes it. Sweep
// removes the directories of killed processes.
func scratch(kind string) (dir string, remove func(), err error) { return scratchIn("", kind) }

// scratchIn is scratch in another directory than that for temporary files.
func scratchIn(parent, kind string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(parent, scratchPrefix+kind) // mode 0700
	if err != nil {
		return "", nil, err
	}
	let := hold(filepath.Join(dir, scratchMark))
	return dir, func() { os.RemoveAll(dir); let() }, nil
}

// Sweep removes the temporary directories of killed processes of this user, as far
// as it can. On Windows it does nothing.
func Sweep(log *slog.Logger) {
	for _, parent := range slices.Compact([]string{os.TempDir(), socketsParent()}) {
		sweep(parent, func(dir string, err error) {
			log.Debug("a temporary directory that a killed process left behind was not removed", "path", dir, "error", err)
		})
	}
}

// sweep removes the directories in parent that scratchIn has made in killed processes.
func sweep(parent string, left func(dir string, err error)) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	before := time.Now().Add(-abandonedAfter)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		let, ok := abandoned(dir, before)
		if !ok {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			left(dir, err)
		}
		let()
	}
}

// markCommand marks the processes of the next command in its environment, so that they can be told from those
// of others if it is killed. end removes the mark.
func (d *Dir) markCommand(env map[string]string) (id string, end func()) {
	id = rand.Text()
	env[commandVariable] = id
	file := d.data(runningPrefix + id)
	_ = os.MkdirAll(filepath.Dir(file), 0o750) // without it, what a killed command has left runs on
	let := hold(file)
	return id, func() { os.Remove(file); let() }
}

// endLeftovers ends what commands have left behind that were killed with their Terrapulse. What a
// command that has ended by itself has left runs on.
func (d *Dir) endLeftovers() error {
	files, _ := filepath.Glob(d.data(runningPrefix + "*")) // no error: the pattern is valid
	for _, file := range files {
		let, ok := seize(file)
		if !ok {
			continue // it runs
		}
		_, id, _ := strings.Cut(filepath.Base(file), runningPrefix)
		err := d.endCommand(id)
		if err == nil {
			err = os.Remove(file)
		}
		let()
		if err != nil {
			return fmt.Errorf("end what a killed Terraform left behind for task %s: %w", d.opts.Task, err)
		}
	}
	return nil
}

// endCommand ends what a killed command has left behind, and says so.
func (d *Dir) endCommand(id string) error {
	return endCommand(id, func(pid int, name string) {
		fmt.Fprintf(d.opts.Log, "Process %d (%s) of a Terraform that was killed is ended.\n", pid, name)
		d.opts.Logger.Warn("a process of a Terraform that was killed is ended", "task", d.opts.Task, "pid", pid, "name", name)
	})
}
