package ecstest

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Process is a container that is a process of this machine.
type Process struct {
	Path   string
	Args   []string
	Dir    string
	Env    []string // beside that of the container, which comes first
	Output io.Writer
}

// Run runs the process in the environment of the container, for Options.Run.
// When the container is killed, so is everything that the process has started.
func (p Process) Run(ctx context.Context, c Container) int {
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, append(append([]string{}, c.Env...), p.Env...)
	cmd.Stdout, cmd.Stderr = p.Output, p.Output
	cmd.WaitDelay = time.Second // for output that what it left behind holds open
	contain(cmd)
	if err := cmd.Start(); err != nil {
		if p.Output != nil {
			io.WriteString(p.Output, err.Error()+"\n")
		}
		return 127
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-c.Terminated:
			cmd.Process.Signal(syscall.SIGTERM)
		case <-ctx.Done():
		case <-ended:
			return
		}
		select {
		case <-ctx.Done():
			kill(cmd)
		case <-ended:
		}
	}()
	err := cmd.Wait()
	close(ended)
	kill(cmd) // what a container leaves behind ends with it
	exit := new(exec.ExitError)
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return 0
	case !errors.As(err, &exit):
		return 1
	case exit.ExitCode() >= 0:
		return exit.ExitCode()
	case ctx.Err() != nil:
		return 137
	}
	return 143
}
