package reconcilefunction

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// maxOutput limits the output in an answer, in bytes. An answer of a Lambda function may have
// 6 MB of JSON, in which a character may take six.
const maxOutput = 1 << 20

// output returns what another system has printed since the last step of a run that waits for it. A
// failure is a problem in the answer: the invocation has not failed, so that no alarm is raised.
func (i *invocation) output(ctx context.Context, req invoke.Request) invoke.Answer {
	answer := invoke.Answer{Mode: req.Mode}
	text, err := i.read(ctx, req.Tasks[0], req.Run)
	if err != nil {
		answer.Problem = fmt.Sprintf("read the output of run %s of task %s: %v", req.Run, req.Tasks[0], err)
	}
	if len(text) > maxOutput {
		text = text[:1+strings.LastIndexByte(text[:maxOutput], '\n')]
	}
	answer.Output = text
	return answer
}

func (i *invocation) read(ctx context.Context, task, id string) (string, error) {
	run, err := state.Read[state.Run](ctx, i.store, state.RunKey(task, id))
	if err != nil || !run.Data.GoesOnRemotely() {
		return "", err
	}
	inForce, err := state.Read[state.Reconcile](ctx, i.store, state.ReconcileKey)
	if err != nil {
		return "", err
	}
	cfg, err := i.launcher.load(ctx, inForce.Data.Bundle)
	if err != nil {
		return "", err
	}
	effective, err := new(overlay.Source).Read(ctx, i.store, cfg)
	if err != nil {
		return "", err
	}
	// If the configuration does not name the driver any more, the driver says what to do.
	return i.executor.drivers[cmp.Or(remotes.Of(cfg), remotes.Kinds[0])].Output(ctx, effective.Config, run.Data)
}
