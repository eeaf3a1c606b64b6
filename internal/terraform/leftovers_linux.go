package terraform

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// endLeftovers kills what a killed Terraform has left behind for the directory.
// Terraform itself dies with Terrapulse, but the commands of a provisioner, and
// a provider in the middle of a request, do not die with Terraform. They are
// known by the mark in their environment, and by the death of the leader of
// their process group, which Terraform was. A process that has left the group
// means to live on, and may.
func endLeftovers(dir string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // no /proc, no leftovers that could be found
	}
	mark := []byte(markVariable + "=" + dir)
	own := syscall.Getpgrp()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		group, err := syscall.Getpgid(pid)
		if err != nil || group == own || runs(group) {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil || !containsEntry(env, mark) {
			continue // it has ended, or is another user's
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return nil
}

// runs reports whether a process is there and has not ended. What is left of
// one that has ended shows no arguments: it stays where nobody takes note of the
// death of orphans, as in many containers.
func runs(pid int) bool {
	argv, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	return len(argv) > 0
}

func containsEntry(environ, entry []byte) bool {
	for _, e := range bytes.Split(environ, []byte{0}) {
		if bytes.Equal(e, entry) {
			return true
		}
	}
	return false
}
