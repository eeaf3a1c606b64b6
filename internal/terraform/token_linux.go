package terraform

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tokenPipes says that it can be found out who reads a pipe.
const tokenPipes = true

// readByTerraform reports whether the process that has just opened the pipe at
// path is a Terraform that this process has started for the directory: a child of
// this process or, where that is a script, a process with the program's name. A
// provider that reads the file gets nothing from it.
//
// This keeps the token from code that looks around. It is no wall: all of these
// processes are the same user's.
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
