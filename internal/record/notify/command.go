package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/environ"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

// killWait is how long is waited for the output of a program that was killed: one
// that it has started may keep it open.
const killWait = 2 * time.Second

type commandKeys struct {
	common
	Command block.Strings `key:"command" secret:"arguments" required:"true" doc:"program and arguments, without a shell; the event is on its standard input"`
}

// command runs a program for each event.
type command struct{ Argv []string }

func (*commandKeys) about() about {
	return about{NotInAWS: "a command cannot be run in AWS: events are delivered by a function"}
}

func (k *commandKeys) target(r *block.Report) Target {
	if len(k.Command.V) == 0 || k.Command.V[0] == "" {
		r.Missing(k.Key("command"), "the notify block has no command", `program and arguments, such as ["/usr/local/bin/notify", "-quiet"]`)
	}
	return &command{k.Command.V}
}

// Texts implements Target.
func (*command) Texts() map[string]string { return nil }

func (c *command) send(ctx context.Context, e outbox.Event, _ map[string]string) error {
	body, err := encode(e)
	if err != nil {
		return fmt.Errorf("encode the event: %w", err)
	}
	var said head
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env = environ.Shared()
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(append(body, '\n')), &said, killWait
	err = cmd.Run()
	exit := new(exec.ExitError)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &outbox.DownError{Err: fmt.Errorf("run %s: %w", c.Argv[0], context.Cause(ctx))}
	case !errors.As(err, &exit):
		if cmd.ProcessState != nil && cmd.ProcessState.Success() {
			return nil // it took the event without reading all of it, or left a program behind
		}
		return &outbox.DownError{Err: person(fmt.Errorf("run %s: %w", c.Argv[0], err))}
	}
	err = fmt.Errorf("run %s: %w", c.Argv[0], err)
	if text := printable(said.String(), 300); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// head keeps the beginning of what is written.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), max(0, 4096-h.Len()))])
	return len(p), nil
}
