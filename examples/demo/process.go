package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// stopTimeout is enough for Terraform to end after an interrupt.
const stopTimeout = 15 * time.Second

// process is a program that runs beside the demo and ends with it.
type process struct {
	log   string // file with its output
	stop  func() // interrupts the program, kills it if necessary, and waits for its end
	ended chan struct{}
}

// startProcess starts a program in a folder. The name of the log is the name of the program.
func startProcess(log, dir string, env []string, program string, args ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, file, file
	cmd.WaitDelay = stopTimeout
	cmd.Cancel = func() error {
		if cmd.Process.Signal(os.Interrupt) != nil { // Windows has no interrupt for a program without a window
			return cmd.Process.Kill()
		}
		return nil
	}
	// The demo passes Ctrl-C on itself, once and in order.
	separate(cmd)
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	p := &process{log: log, ended: make(chan struct{})}
	p.stop = func() {
		cancel()
		<-p.ended
	}
	go func() {
		_ = cmd.Wait() // its log says how it ended
		close(p.ended)
	}()
	return p, nil
}

// await polls until there is no error, the program ends by itself, or the time is over.
func (p *process) await(ctx context.Context, limit time.Duration, poll func() error) error {
	deadline := time.After(limit)
	for {
		err := poll()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return p.failure("it ended by itself")
		case <-deadline:
			return p.failure(fmt.Sprintf("after %s: %v", limit, err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// failure returns an error with the last output of the program.
func (p *process) failure(what string) error {
	const most = 20
	name := strings.TrimSuffix(filepath.Base(p.log), ".log")
	content, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Errorf("%s: %s", name, what)
	}
	said := lines(string(content))
	return fmt.Errorf("%s: %s; the end of its log:\n%s", name, what, strings.Join(said[max(0, len(said)-most):], "\n"))
}
