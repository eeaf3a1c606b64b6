package terraformcli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// endLeftovers kills the processes that a killed Terraform has left behind for the
// directory: commands of provisioners, and providers in the middle of a request. It
// finds them by the mark in their environment, and by the death of Terraform, the
// leader of their process group. A process that has left the group may run on.
func endLeftovers(dir string) error {
	alive := map[int]bool{syscall.Getpgrp(): true} // groups whose leader runs
	for _, p := range processes() {
		group, err := syscall.Getpgid(p.PID)
		if err != nil {
			continue
		}
		if _, known := alive[group]; !known {
			alive[group] = runs(group)
		}
		if alive[group] || !startedFor(p, dir) {
			continue
		}
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d: %w", p.PID, err)
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
		if !slices.ContainsFunc(processes(), func(p procfs.Proc) bool {
			return isChild(p) && startedFor(p, dir) && !isProvider(p)
		}) {
			return
		}
	}
}

// processes lists all visible processes; none without /proc.
func processes() procfs.Procs {
	all, _ := procfs.AllProcs()
	return all
}

// startedFor reports whether a process was started for the directory, runs, and
// is this user's.
func startedFor(p procfs.Proc, dir string) bool {
	env, err := p.Environ()
	return err == nil && slices.Contains(env, markVariable+"="+dir)
}

// isChild reports whether this process has started the other one.
func isChild(p procfs.Proc) bool {
	stat, err := p.Stat()
	return err == nil && stat.PPID == os.Getpid()
}

// isProvider reports whether a process was started as a provider.
func isProvider(p procfs.Proc) bool {
	env, err := p.Environ()
	return err == nil && slices.Contains(env, cookieVariable+"="+handshake[cookieVariable])
}

// runs reports whether a process exists and is no zombie, which has no arguments.
// In many containers, nothing removes the zombies of orphans.
func runs(pid int) bool {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	argv, err := p.CmdLine()
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	return len(argv) > 0
}
