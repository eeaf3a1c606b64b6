package policycheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// maxOutput is how much of a check's output is kept, in bytes.
	maxOutput = 64 << 10
	// maxShown is how much of it the reason has, in characters. The run's log has all
	// that is kept.
	maxShown = 500
	// killWait is how long is waited for the output of a program that has ended or was
	// killed: a process that it has started may keep it open.
	killWait = 2 * time.Second
)

var errTimeout = errors.New("timeout")

// run runs one check, and returns why it refuses the plan and what it printed.
func run(ctx context.Context, c Spec, dir string, env []string, input []byte, clean func(string) string) (refused, output string) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
	defer cancel()
	said := &head{}
	cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, killWait
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), said, said
	group(cmd)
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		killGroup(cmd) // what the program has left behind
	}
	output = clean(printable(said.String()))
	shown := shorten(output)
	exit := new(exec.ExitError)
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil:
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
	program := c.Command[0]
	if filepath.Base(program) != program && !filepath.IsAbs(program) {
		program = filepath.Join(dir, program) // a path is relative to the folder, a name is searched on PATH
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Sprintf("check %s cannot be run on this machine: %s", c.Name, err)
	}
	return ""
}

// head keeps the beginning of what is written. Both streams of a program write to it.
type head struct {
	mu sync.Mutex
	b  []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b = append(h.b, p[:min(len(p), maxOutput-len(h.b))]...)
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.b)
}

// colours are the codes by which programs colour what they print.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// printable is the output of a program without what would change a terminal.
func printable(text string) string {
	text = colours.ReplaceAllString(text, "")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', unicode.IsPrint(r):
			return r
		case r == '\r':
			return -1
		}
		return '\ufffd'
	}, strings.ToValidUTF8(text, "\ufffd"))
	return strings.TrimSpace(text)
}

// shorten is an output on one line.
func shorten(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	text = strings.Join(lines, "; ")
	if runes := []rune(text); len(runes) > maxShown {
		text = string(runes[:maxShown]) + "…"
	}
	return strings.TrimRight(text, ".")
}
