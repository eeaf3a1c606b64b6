// Command install is the function that CloudFormation invokes while it creates, updates or deletes a
// stack. It puts the program of the containers into the stack's bucket, so that no image has to be
// built first, checks the subnets, protects the table, waits for ECS's service-linked role, and says who
// holds the security group of a stack that is deleted.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/terrapulse/terrapulse/internal/base/awsenv"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/logging"
)

// The types of the custom resources in template.yaml.
const (
	typeProgram = "Custom::Program"
	typeNetwork = "Custom::Network"

	typeProtection = "Custom::Protection"
	typeLinkedRole = "Custom::LinkedRole"
	typeGroupUse   = "Custom::GroupUse"
)

// assumable is how long a new role may take until ECS can assume it.
const assumable = 2 * time.Minute

// propagation is how long the rights of a role that CloudFormation has just created may take to be
// in force everywhere.
const propagation = time.Minute

// answerLimit is how long an answer may take.
const answerLimit = 20 * time.Second

// longest is how long a request of CloudFormation may take: CloudFormation waits for 240 seconds, and
// the function has to start and to answer within them.
const longest = 220 * time.Second

func main() {
	log := logging.JSON(os.Stdout, slog.LevelInfo)
	awslambda.Start(cfn.LambdaWrap(func(ctx context.Context, e cfn.Event) (string, map[string]any, error) {
		id, data, err := handle(ctx, e, log)
		if err != nil {
			log.Error("the stack cannot be installed", "resource", e.LogicalResourceID, "request", e.RequestType, "error", err)
		}
		return id, data, err
	}))
}

// config returns the configuration of clients that wait longer for an answer than those of a tick: nothing
// else repeats what they do.
func config(ctx context.Context) (aws.Config, error) {
	cfg, err := awsenv.Config(ctx)
	cfg.HTTPClient = awsenv.HTTPClient(answerLimit)
	return cfg, err
}

// handle answers a request of CloudFormation with the id of the resource and its attributes.
func handle(ctx context.Context, e cfn.Event, log *slog.Logger) (string, map[string]any, error) {
	cfg, err := config(ctx)
	if err != nil {
		return e.PhysicalResourceID, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return e.PhysicalResourceID, nil, fmt.Errorf("find the folder of the function: %w", err)
	}
	return serve(ctx, cfg, filepath.Dir(filepath.Dir(self)), e, log)
}

// serve answers a request with the clients of a configuration and the programs in a folder.
func serve(ctx context.Context, cfg aws.Config, folder string, e cfn.Event, log *slog.Logger) (string, map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	switch e.ResourceType {
	case typeProgram:
		p := &programs{Client: s3.NewFromConfig(cfg), Folder: folder, Trust: "/opt/trust", Patience: propagation, Log: log}
		return p.handle(ctx, e)
	case typeNetwork:
		n := &network{EC2: ec2.NewFromConfig(cfg), Patience: propagation, Log: log}
		return n.handle(ctx, e)
	case typeProtection:
		p := &protection{Client: dynamodb.NewFromConfig(cfg), Patience: propagation, Log: log}
		return p.handle(ctx, e)
	case typeLinkedRole:
		l := &linkedRole{ECS: ecs.NewFromConfig(cfg), Patience: propagation, Known: assumable, Log: log}
		return l.handle(ctx, e)
	case typeGroupUse:
		g := &groupUse{EC2: ec2.NewFromConfig(cfg), Log: log}
		return g.handle(ctx, e)
	}
	return e.PhysicalResourceID, nil, fmt.Errorf("%s: unknown type of resource: deploy the template and the functions of one version", e.ResourceType)
}

// property returns a property of a custom resource. CloudFormation sends all values as texts.
func property(properties map[string]any, name string) string {
	text, _ := properties[name].(string)
	return text
}

// patiently repeats an act while AWS does not answer, throttles it, has an error of its own, or does not
// know the rights of a new role yet, and after other errors that pass, until the patience is over. It
// returns the last error of AWS.
func patiently(ctx context.Context, patience time.Duration, act func(context.Context) error, pass ...func(error) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pass = append(pass, isDenied, isTransient)
	var last error
	for {
		err := act(ctx)
		if err != nil && last != nil && ctx.Err() != nil {
			return last
		}
		last = err
		if err == nil || !slices.ContainsFunc(pass, func(passes func(error) bool) bool { return passes(err) }) {
			return err
		}
		if !delay.For(ctx, max(min(patience/10, 3*time.Second), time.Millisecond)) {
			return err
		}
	}
}

// isTransient reports whether AWS's SDK would repeat a request after an error. It has done so for
// seconds then, which is too short for a deployment: a failure rolls all of it back.
func isTransient(err error) bool {
	return retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary
}

// isDenied reports whether a service denies access. Some do so with the status 400, or for one of many objects.
func isDenied(err error) bool {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && (answer.HTTPStatusCode() == http.StatusForbidden || answer.HTTPStatusCode() == http.StatusUnauthorized) {
		return true
	}
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "AccessDeniedException" || api.ErrorCode() == "AccessDenied")
}
