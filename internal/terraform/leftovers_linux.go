package terraform

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endLeftovers kills the processes that a killed Terraform has left behind for the
// directory: commands of provisioners, and providers in the middle of a request. It
// finds them by the mark in their environment, and by the death of Terraform, the
// leader of their process group. A process that has left the group may run on.
func endLeftovers(dir string) error {
	own := syscall.Getpgrp()
	for _, pid := range processes() {
		group, err := syscall.Getpgid(pid)
		if err != nil || group == own || runs(group) || !startedFor(pid, dir) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return nil
}

// awaitEnd waits until no Terraform of this process runs in the directory any more.
// terraform-exec does not wait for one that is interrupted during its start, but
// kills it after the grace.
func awaitEnd(dir string, grace time.Duration) {
	const killed = 5 * time.Second // until the death of a killed process shows
	for deadline := time.Now().Add(grace + killed); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if !slices.ContainsFunc(processes(), func(pid int) bool { return parent(pid) == os.Getpid() && startedFor(pid, dir) }) {
			return
		}
	}
}

// processes lists all visible processes; none without /proc.
func processes() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// startedFor reports whether a process was started for the directory, runs, and
// is this user's.
func startedFor(pid int, dir string) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && slices.Contains(strings.Split(string(env), "\x00"), markVariable+"="+dir)
}

// parent returns the process that started another one; 0 if that has ended.
func parent(pid int) int {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	// After the name, which is in parentheses and may hold anything: state, parent.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(string(fields[1]))
	return ppid
}

// runs reports whether a process exists and is no zombie, which has no arguments.
// In many containers, nothing removes the zombies of orphans.
func runs(pid int) bool {
	argv, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	return len(argv) > 0
}
