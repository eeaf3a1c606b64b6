package policycheck

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/terrapulse/terrapulse/internal/base/program"
)

var errTimeout = errors.New("timeout")

// run runs one check, and returns why it refuses the plan and what it printed.
func run(ctx context.Context, c Spec, dir string, env []string, input []byte, clean func(string) string) (refused, output string) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
	defer cancel()
	output, err := program.Program{Command: c.Command, Dir: dir, Env: env, Input: input}.Run(ctx)
	output = clean(output)
	shown := program.Line(output)
	exit := new(exec.ExitError)
	switch {
	case err == nil:
		return "", output
	case errors.Is(context.Cause(ctx), errTimeout):
		refused = fmt.Sprintf("check %s did not end within %s", c.Name, c.Timeout)
	case errors.As(err, &exit) && exit.Exited():
		refused = fmt.Sprintf("check %s refused the plan", c.Name)
		if shown == "" {
			refused += fmt.Sprintf(" with exit code %d", exit.ExitCode())
		}
	case errors.As(err, &exit):
		refused = fmt.Sprintf("check %s did not end by itself: %s", c.Name, exit)
	case errors.Is(err, exec.ErrNotFound):
		refused = fmt.Sprintf("check %s cannot be run: there is no program %s on PATH; install it where runs are carried out", c.Name, c.Command[0])
	default:
		refused = fmt.Sprintf("check %s cannot be run: %s", c.Name, clean(err.Error()))
	}
	if shown != "" {
		refused += ": " + shown
	}
	return refused, output
}

// Missing says why the program of a check cannot be found on this machine; "" if it can.
func (c Spec) Missing(dir string) string {
	if err := program.Missing(c.Command, dir); err != nil {
		return fmt.Sprintf("check %s cannot be run on this machine: %s", c.Name, err)
	}
	return ""
}
