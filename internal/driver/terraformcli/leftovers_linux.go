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

// endingFor is how long killed processes may take to end.
const endingFor = 10 * time.Second

// endCommand kills the processes that a killed command of Terraform has left behind: commands of
// provisioners, and providers in the middle of a request. It finds them by the mark in their
// environment, and calls ended for each.
func endCommand(id string, ended func(pid int, name string)) error {
	seen := map[int]bool{}
	for deadline := time.Now().Add(endingFor); ; time.Sleep(10 * time.Millisecond) {
		running := slices.DeleteFunc(processes(), func(p procfs.Proc) bool { return !hasVariable(p, commandVariable, id) })
		if len(running) == 0 {
			return nil
		}
		for _, p := range running {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d, which a killed Terraform has left behind, does not end", p.PID)
			}
			name, _ := p.Comm() // "" if it has ended
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d: %w", p.PID, err)
			}
			if !seen[p.PID] {
				seen[p.PID] = true
				ended(p.PID, name)
			}
		}
	}
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

// hasVariable reports whether a process runs, is this user's, and has a variable of this value in its
// environment. That of a zombie is empty.
func hasVariable(p procfs.Proc, name, value string) bool {
	env, err := p.Environ()
	return err == nil && slices.Contains(env, name+"="+value)
}

// startedFor reports whether a process was started for the directory.
func startedFor(p procfs.Proc, dir string) bool { return hasVariable(p, markVariable, dir) }

// isChild reports whether this process has started the other one.
func isChild(p procfs.Proc) bool {
	stat, err := p.Stat()
	return err == nil && stat.PPID == os.Getpid()
}

// isProvider reports whether a process was started as a provider.
func isProvider(p procfs.Proc) bool { return hasVariable(p, cookieVariable, handshake[cookieVariable]) }
