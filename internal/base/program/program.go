// Package program runs programs of other people, such as those that judge a plan: without a
// shell, for a limited time, and with limited output.
package program

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// MaxOutput is how much of a program's output is kept, in bytes.
	MaxOutput = 64 << 10
	// MaxLine is how much of it Line returns, in characters.
	MaxLine = 500
	// killWait is how long is waited for the output of a program that has ended or was
	// killed: a process that it has started may keep it open.
	killWait = 2 * time.Second
)

// Program is a program with all that it gets.
type Program struct {
	Command []string // program and arguments
	Dir     string
	Env     []string
	Input   []byte
}

// Run runs the program, and returns what people can read of both its streams. When ctx ends, the
// program is killed with all processes that it has started.
func (p Program) Run(ctx context.Context) (output string, err error) {
	said := &head{}
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.Dir, p.Env, killWait
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(p.Input), said, said
	group(cmd)
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		killGroup(cmd) // what the program has left behind
		if ctx.Err() == nil {
			err = nil
		}
	}
	return printable(said.String()), err
}

// Missing returns why the program cannot be found on this machine; nil if it can. A path is
// relative to dir, a name is searched on PATH.
func Missing(command []string, dir string) error {
	program := command[0]
	if filepath.Base(program) != program && !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	_, err := exec.LookPath(program)
	return err
}

// head keeps the beginning of what is written. Both streams of a program write to it.
type head struct {
	mu sync.Mutex
	b  []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b = append(h.b, p[:min(len(p), MaxOutput-len(h.b))]...)
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

// Line is the beginning of an output on one line.
func Line(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ")
	if runes := []rune(text); len(runes) > MaxLine {
		text = string(runes[:MaxLine]) + "…"
	}
	return strings.TrimRight(text, ".")
}
