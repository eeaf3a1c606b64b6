package terraform

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
		for _, pid := range processes() {
			if !startedFor(pid, d.path) || !holdsOpen(pid, path) {
				continue
			}
			exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			return parent(pid) == os.Getpid() || filepath.Base(exe) == d.bin.Program()
		}
	}
	return false
}

// holdsOpen reports whether a process of this user has the file open.
func holdsOpen(pid int, path string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, f := range files {
		if target, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && target == path {
			return true
		}
	}
	return false
}
