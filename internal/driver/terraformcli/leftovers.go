package terraformcli

import (
	"log/slog"
	"os"
	"path/filepath"
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
	sweep(os.TempDir(), func(dir string, err error) {
		log.Debug("a temporary directory that a killed process left behind was not removed", "path", dir, "error", err)
	})
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
