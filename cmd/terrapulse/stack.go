package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/terrapulse/terrapulse/internal/awsconfig"
	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// stack is a deployment in AWS, as its outputs describe it.
type stack struct {
	name    string
	outputs map[string]string
	stopped bool // nothing looks at Consul by itself
	aws     aws.Config
}

// findStack asks CloudFormation for the stack, with the credentials and the
// region that the AWS command line would use.
func findStack(ctx context.Context, name string) (*stack, error) {
	cfg, err := awsconfig.ForCommand(ctx, "")
	if err != nil {
		return nil, err
	}
	answer, err := cloudformation.NewFromConfig(cfg).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil {
		if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorCode() == "ValidationError" {
			return nil, fmt.Errorf("find stack %s in %s: %s; look at the name and at the region", name, cfg.Region, api.ErrorMessage())
		}
		return nil, fmt.Errorf("find stack %s in %s: %w", name, cfg.Region, err)
	}
	s := &stack{name: name, aws: cfg, outputs: map[string]string{}}
	for _, st := range answer.Stacks {
		for _, o := range st.Outputs {
			s.outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
		}
		for _, p := range st.Parameters {
			if aws.ToString(p.ParameterKey) == "ScheduleState" {
				s.stopped = aws.ToString(p.ParameterValue) == "DISABLED"
			}
		}
	}
	return s, nil
}

// output returns one of the stack's outputs.
func (s *stack) output(name string) (string, error) {
	value := s.outputs[name]
	if value == "" {
		return "", fmt.Errorf("stack %s has no output %s: is it a Terrapulse stack, and deployed to the end?", s.name, name)
	}
	return value, nil
}

// openStackStore opens the store of a stack to read.
func (a *app) openStackStore(s *stack) (*stores.Store, int) {
	url, err := s.output("StoreUrl")
	if err != nil {
		return nil, a.fail(exitConfig, err)
	}
	return a.openStore(&storeFlags{url: &url})
}

// functionError is what the function answers when it could not do what it was
// asked.
type functionError struct {
	Message string `json:"errorMessage"`
}

// ask invokes the function that reconciles, and waits for its answer.
func (s *stack) ask(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	function, err := s.output("ReconcileFunction")
	if err != nil {
		return invoke.Answer{}, err
	}
	payload, err := json.Marshal(req)
	if err != nil {
		return invoke.Answer{}, err
	}
	// What may have been done is not done twice: no retries. The SDK itself
	// sets no limit to the wait, and a function works for up to 15 minutes.
	ctx, stop := context.WithTimeout(ctx, 16*time.Minute)
	defer stop()
	client := lambda.NewFromConfig(s.aws, func(o *lambda.Options) { o.Retryer = aws.NopRetryer{} })
	answer, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: payload})
	if err != nil {
		return invoke.Answer{}, fmt.Errorf("invoke function %s: %w; what it was asked may have been done: see `terrapulse status`", function, err)
	}
	if answer.FunctionError != nil {
		var failed functionError
		if json.Unmarshal(answer.Payload, &failed) != nil || failed.Message == "" {
			failed.Message = strings.TrimSpace(string(answer.Payload))
		}
		return invoke.Answer{}, fmt.Errorf("function %s: %s", function, failed.Message)
	}
	var out invoke.Answer
	if err := json.Unmarshal(answer.Payload, &out); err != nil {
		return invoke.Answer{}, fmt.Errorf("understand the answer of function %s: %w; is it of the same version as this program?", function, err)
	}
	return out, nil
}
