package terraform

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

	// scratchMark is the file in it by which it is known as one, and which the
	// process that uses it keeps locked.
	scratchMark = ".terrapulse"

	// abandonedAfter is how long nothing must have been put into a temporary
	// directory before it is taken for left behind. Long after its process has
	// died: where Terraform does not die with it, it may go on for a while.
	abandonedAfter = time.Hour
)

// scratch makes a temporary directory, which only this user can enter, and
// returns what removes it. What a process that is killed leaves behind, Sweep
// of a later one removes.
func scratch(kind string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", scratchPrefix+kind) // mode 0700
	if err != nil {
		return "", nil, err
	}
	let := hold(filepath.Join(dir, scratchMark))
	return dir, func() { os.RemoveAll(dir); let() }, nil
}

// Sweep removes the temporary directories that processes of this user have left
// behind because they were killed. What it cannot remove stays. On Windows it
// does nothing.
func Sweep(log *slog.Logger) {
	temp := os.TempDir()
	entries, err := os.ReadDir(temp)
	if err != nil {
		return
	}
	before := time.Now().Add(-abandonedAfter)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		dir := filepath.Join(temp, e.Name())
		let, ok := abandoned(dir, before)
		if !ok {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			log.Debug("a temporary directory that a killed process left behind was not removed", "path", dir, "error", err)
		}
		let()
	}
}
