package ecstest

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"time"
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
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, append(append([]string{}, c.Env...), p.Env...)
	cmd.Stdout, cmd.Stderr = p.Output, p.Output
	cmd.WaitDelay = time.Second // for children that keep the output open
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
	kill(cmd) // children end with the container
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
