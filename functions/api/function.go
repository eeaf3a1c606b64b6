package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/state"
)

// function invokes functions/reconcile.
type function struct {
	client *lambda.Client
	name   string
}

// inspect starts an inspection of a task or of a draft.
func (f *function) inspect(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error) {
	request := invoke.Request{Mode: invoke.Inspect, Draft: draft}
	if draft == nil {
		request.Tasks = []string{task}
	}
	out, err := f.invoke(ctx, request, types.InvocationTypeRequestResponse)
	if err != nil {
		return state.PlannedRun{}, fmt.Errorf("start an inspection of task %s: %w", task, err)
	}
	if out.FunctionError != nil {
		var said struct {
			Message string `json:"errorMessage"`
		}
		_ = json.Unmarshal(out.Payload, &said) // without an error message in the answer, it is only known that it failed
		return state.PlannedRun{}, fmt.Errorf("start an inspection of task %s: function %s failed (%s): %s", task, f.name, *out.FunctionError, said.Message)
	}
	var answer invoke.Answer
	if err := json.Unmarshal(out.Payload, &answer); err != nil {
		return state.PlannedRun{}, fmt.Errorf("read the answer of function %s: %w", f.name, err)
	}
	if len(answer.Runs) != 1 {
		return state.PlannedRun{}, fmt.Errorf("start an inspection of task %s: function %s has started %d runs: %s", task, f.name, len(answer.Runs), answer.Problem)
	}
	return state.PlannedRun{ID: answer.Runs[0].Run, Task: answer.Runs[0].Task}, nil
}

// reconcile returns a function that invokes a tick without waiting for it. The next scheduled tick
// would find the change within minutes. The request says that there is a change, because a process
// reads changes from the table only at its own intervals.
func (f *function) reconcile(log *slog.Logger) func(context.Context) {
	return func(ctx context.Context) {
		if _, err := f.invoke(ctx, invoke.Request{Mode: invoke.Reconcile, Ended: true}, types.InvocationTypeEvent); err != nil {
			log.Warn("cannot invoke the reconcile function: the change waits for the next tick", "error", err)
		}
	}
}

func (f *function) invoke(ctx context.Context, request invoke.Request, how types.InvocationType) (*lambda.InvokeOutput, error) {
	payload, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return f.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String(f.name), InvocationType: how, Payload: payload})
}
