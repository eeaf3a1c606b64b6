// Package stack uses a deployment in AWS from outside: it finds its CloudFormation
// stack, invokes its function, follows runs in its store and examines it.
package stack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/function"
	"github.com/terrapulse/terrapulse/internal/base/awsconfig"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// Stack is a deployment in AWS, as its outputs describe it.
type Stack struct {
	Name   string
	Region string

	status     string
	created    time.Time
	parameters map[string]string
	outputs    map[string]string
	aws        aws.Config
}

// Description is what CloudFormation knows of a stack.
type Description struct {
	Name       string            `json:"name"`
	Region     string            `json:"region"`
	Status     string            `json:"status"`
	Parameters map[string]string `json:"parameters"`
	Outputs    map[string]string `json:"outputs"`
}

// Describe returns what CloudFormation knows of the stack.
func (s *Stack) Describe() Description {
	return Description{s.Name, s.Region, s.status, s.parameters, s.outputs}
}

// Find reads the stack from CloudFormation, with the credentials and the region
// that the AWS command line would use.
func Find(ctx context.Context, name string) (*Stack, error) {
	cfg, err := awsconfig.ForCommand(ctx, "")
	if err != nil {
		return nil, err
	}
	answer, err := cloudformation.NewFromConfig(cfg).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil {
		if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorCode() == "ValidationError" {
			return nil, fmt.Errorf("find stack %s in %s: %s; check the name and the region", name, cfg.Region, api.ErrorMessage())
		}
		return nil, fmt.Errorf("find stack %s in %s: %w", name, cfg.Region, err)
	}
	s := &Stack{Name: name, Region: cfg.Region, aws: cfg, parameters: map[string]string{}, outputs: map[string]string{}}
	for _, st := range answer.Stacks {
		for _, o := range st.Outputs {
			s.outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
		}
		s.status, s.created = string(st.StackStatus), aws.ToTime(st.CreationTime)
		for _, p := range st.Parameters {
			s.parameters[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
		}
	}
	return s, nil
}

// Platform returns the platform of the containers for which providers are downloaded, such as
// linux_arm64; "" if their image may include the providers.
func (s *Stack) Platform() string {
	if s.parameters["RunnerImage"] != "" {
		return ""
	}
	return map[string]string{"x86_64": "linux_amd64", "arm64": "linux_arm64"}[s.parameters["Architecture"]]
}

// console has the names and the pages of what the stack consists of.
func (s *Stack) console() ecstask.Console {
	return ecstask.Console{Stack: s.Name, Cluster: s.outputs["Cluster"], Logs: s.outputs["LogGroups"]}
}

// logGroup returns the name of the log group of a component.
func (s *Stack) logGroup(component string) (string, error) {
	if _, err := s.Output("LogGroups"); err != nil {
		return "", err
	}
	return s.console().LogGroup(component), nil
}

// Output returns one of the stack's outputs.
func (s *Stack) Output(name string) (string, error) {
	value := s.outputs[name]
	if value == "" {
		return "", fmt.Errorf("stack %s has no output %s: is it a Terrapulse stack whose deployment is complete?", s.Name, name)
	}
	return value, nil
}

// Store opens the stack's store for reading.
func (s *Stack) Store(ctx context.Context) (*stores.Store, error) {
	place, err := s.place(ctx)
	if err != nil {
		return nil, err
	}
	return place.Read(ctx)
}

func (s *Stack) place(ctx context.Context) (stores.Place, error) {
	url, err := s.Output("StoreUrl")
	if err != nil {
		return stores.Place{}, err
	}
	return stores.At(ctx, url)
}

// Invoke invokes the function that reconciles, and waits for its answer. The user may have no right but to inspect.
func (s *Stack) Invoke(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	output := "ReconcileFunction"
	if req.Mode == invoke.Inspect {
		output = "InspectFunction"
	}
	name, err := s.Output(output)
	if err != nil {
		return invoke.Answer{}, err
	}
	// The SDK sets no limit to the wait; a function works for up to 15 minutes.
	ctx, stop := context.WithTimeout(ctx, 16*time.Minute)
	defer stop()
	client := lambda.NewFromConfig(s.aws, func(o *lambda.Options) { o.Retryer = aws.NopRetryer{} })
	return function.Function{Client: client, Name: name}.Call(ctx, req)
}
