package ecstest

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Process is a container that runs as a process on this machine.
type Process struct {
	Path   string
	Args   []string
	Dir    string
	Env    []string // in addition to the environment of the container, which comes first
	Output io.Writer
}

// Run runs the process in the environment of the container, for Options.Run. If the container is
// killed, all processes that it started are killed, too.
func (p Process) Run(ctx context.Context, c Container) int {
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, slices.Concat(c.Env, p.Env)
	cmd.Stdout, cmd.Stderr = p.Output, p.Output
	cmd.WaitDelay = time.Second // for children that keep the output open
	cmd.Cancel = func() error { kill(cmd); return nil }
	// The leader of a session: kill finds its children by the session, even in other process groups.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(p.Output, err)
		return 127
	}
	defer context.AfterFunc(c.Terminated, func() {
		if ctx.Err() == nil { // else it is killed, and must not hear of it first
			cmd.Process.Signal(syscall.SIGTERM)
		}
	})()
	_ = cmd.Wait() // its exit code tells everything
	kill(cmd)      // children end with the container
	switch code := cmd.ProcessState.ExitCode(); {
	case code >= 0:
		return code
	case ctx.Err() != nil:
		return 137
	}
	return 143
}

// kill ends every process of the container's session.
func kill(cmd *exec.Cmd) {
	processes, _ := procfs.AllProcs()
	for _, p := range processes {
		if stat, err := p.Stat(); err == nil && stat.Session == cmd.Process.Pid { // an error: it has just ended
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
}
