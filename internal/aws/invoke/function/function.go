// Package function invokes functions/reconcile.
package function

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
)

// Function is functions/reconcile of a stack.
type Function struct {
	Client *lambda.Client
	Name   string
}

// Call invokes the function and waits for its answer. The client must not retry: the function may
// have executed the first request.
func (f Function) Call(ctx context.Context, req invoke.Request) (answer invoke.Answer, err error) {
	out, err := f.invoke(ctx, req, types.InvocationTypeRequestResponse)
	if err != nil {
		return answer, fmt.Errorf("invoke function %s: %w; it may have executed the request: see `terrapulse status`", f.Name, err)
	}
	if out.FunctionError != nil {
		var failed struct {
			Message string `json:"errorMessage"`
		}
		if json.Unmarshal(out.Payload, &failed) != nil || failed.Message == "" {
			failed.Message = strings.TrimSpace(string(out.Payload))
		}
		return answer, fmt.Errorf("function %s: %s", f.Name, failed.Message)
	}
	if err := json.Unmarshal(out.Payload, &answer); err != nil {
		return answer, fmt.Errorf("read the answer of function %s: %w; check that it has the same version as this program", f.Name, err)
	}
	return answer, nil
}

// Tick invokes a tick without waiting for it, because a run has ended or a person requested
// something. Without it, the next scheduled tick would find the change.
func (f Function) Tick(ctx context.Context) error {
	_, err := f.invoke(ctx, invoke.Request{Mode: invoke.Reconcile, Ended: true}, types.InvocationTypeEvent)
	return err
}

// Notified invokes a tick without waiting for it, because HCP Terraform has sent a notification.
func (f Function) Notified(ctx context.Context) error {
	_, err := f.invoke(ctx, invoke.Request{Mode: invoke.Reconcile, Notified: true}, types.InvocationTypeEvent)
	return err
}

// Start starts a launch of plans, and does not wait for it.
func (f Function) Start(ctx context.Context, launch string) error {
	_, err := f.invoke(ctx, invoke.Request{Mode: invoke.Inspect, Launch: launch}, types.InvocationTypeEvent)
	return err
}

func (f Function) invoke(ctx context.Context, req invoke.Request, how types.InvocationType) (*lambda.InvokeOutput, error) {
	payload, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	return f.Client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &f.Name, InvocationType: how, Payload: payload})
}
