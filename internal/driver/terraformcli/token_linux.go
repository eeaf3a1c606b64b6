package terraformcli

import (
	"path/filepath"
	"slices"
	"time"
)

// tokenPipes is set if the reader of a pipe can be identified.
const tokenPipes = true

// readByTerraform reports whether the process that has just opened the pipe at path
// is a Terraform of this directory: a child of this process or, if that is a script,
// a process with the program's name. Other processes, such as providers, get nothing
// from the pipe. This is no strict protection: all of them run as the same user.
func (d *Dir) readByTerraform(path string) bool {
	const opening = time.Second // the file is open a moment before that can be seen
	for deadline := time.Now().Add(opening); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, p := range processes() {
			if !startedFor(p, d.path) {
				continue
			}
			if open, err := p.FileDescriptorTargets(); err == nil && slices.Contains(open, path) {
				exe, _ := p.Executable()
				return isChild(p) && !isProvider(p) || filepath.Base(exe) == d.bin.Program()
			}
		}
	}
	return false
}
