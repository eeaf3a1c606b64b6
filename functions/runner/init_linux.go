package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// workerCommand is the first argument with which process 1 starts this program again as its worker.
const workerCommand = "worker"

// workerEnv is the file descriptor from which the worker reads its environment. It is not passed as
// an environment: other processes of the container could read that in /proc until the worker has
// made itself unreadable.
const workerEnv = 3

// forwarded are the signals that process 1 passes on to its worker.
var forwarded = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// isInit reports whether this is process 1 of a container. Nobody else collects the processes that
// providers leave behind, and the kernel shows process 1's environment to all processes of the same
// user. ECS's own init process would stay readable.
func isInit() bool { return os.Getpid() == 1 }

// supervise starts this program as its worker, passes signals on to it, collects every process
// that ends, and returns the exit code of the worker.
func supervise() (int, error) {
	// Signals that arrive before the worker runs wait in the channel.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	worker, err := startWorker()
	if err != nil {
		return 1, fmt.Errorf("start the worker of the container: %w", err)
	}
	go func() {
		for s := range signals {
			_ = worker.Signal(s) // fails only if it has ended
		}
	}()
	return collect(worker.Pid)
}

// startWorker starts the worker, and sends it this process's environment through a pipe.
func startWorker() (*os.Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	worker, err := os.StartProcess(program, []string{program, workerCommand}, &os.ProcAttr{
		// Without HOME, the SDK of AWS looks the user up before it has the name that prepareEnvironment sets.
		Env: []string{"HOME=" + cmp.Or(os.Getenv("HOME"), "/")}, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, read},
	})
	read.Close()
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(write).Encode(os.Environ()); err != nil {
		return nil, fmt.Errorf("pass on the environment: %w", err)
	}
	return worker, nil
}

// collect waits for every child of this process until the worker has ended, and returns its exit
// code.
func collect(worker int) (int, error) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for the worker of the container: %w", err)
		case pid != worker:
		case status.Signaled():
			return 128 + int(status.Signal()), nil // as a shell does: 137 after SIGKILL
		default:
			return status.ExitStatus(), nil
		}
	}
}

// takeEnvironment sets the environment that process 1 has sent. The worker must be unreadable
// before.
func takeEnvironment() error {
	syscall.CloseOnExec(workerEnv)
	pipe := os.NewFile(workerEnv, "environment")
	defer pipe.Close()
	var environ []string
	if err := json.NewDecoder(pipe).Decode(&environ); err != nil {
		return fmt.Errorf("read the environment from process 1: %w", err)
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set the environment variable %s: %w", name, err)
		}
	}
	return nil
}
