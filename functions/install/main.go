// Command install is the function that CloudFormation invokes while it creates, updates or deletes a
// stack. It puts the program of the containers into the stack's bucket, so that no image has to be
// built first, checks the subnets, protects the table, creates ECS's service-linked role, and says who
// holds the security group of a stack that is deleted.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/base/awsenv"
	"github.com/terrapulse/terrapulse/internal/base/awsjson"
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

// handle answers a request of CloudFormation with the id of the resource and its attributes.
func handle(ctx context.Context, e cfn.Event, log *slog.Logger) (string, map[string]any, error) {
	cfg, err := awsenv.Config(ctx)
	if err != nil {
		return e.PhysicalResourceID, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return e.PhysicalResourceID, nil, fmt.Errorf("find the folder of the function: %w", err)
	}
	switch e.ResourceType {
	case typeProgram:
		p := &programs{Client: s3.NewFromConfig(cfg), Folder: filepath.Dir(filepath.Dir(self)), Trust: "/opt/trust", Patience: propagation, Log: log}
		return p.handle(ctx, e)
	case typeNetwork:
		n := &network{EC2: newEC2(cfg, os.Getenv("AWS_ENDPOINT_URL_EC2")), Patience: propagation, Log: log}
		return n.handle(ctx, e)
	case typeProtection:
		p := &protection{Client: dynamodb.NewFromConfig(cfg), Patience: propagation, Log: log}
		return p.handle(ctx, e)
	case typeLinkedRole:
		l := &linkedRole{IAM: newIAM(cfg, os.Getenv("AWS_ENDPOINT_URL_IAM")), ECS: awsjson.New(cfg), Patience: propagation, Known: assumable, Log: log}
		return l.handle(ctx, e)
	case typeGroupUse:
		g := &groupUse{EC2: newEC2(cfg, os.Getenv("AWS_ENDPOINT_URL_EC2")), Log: log}
		return g.handle(ctx, e)
	}
	return e.PhysicalResourceID, nil, fmt.Errorf("%s: unknown type of resource: deploy the template and the functions of one version", e.ResourceType)
}

// property returns a property of a custom resource. CloudFormation sends all values as texts.
func property(properties map[string]any, name string) string {
	text, _ := properties[name].(string)
	return text
}

// patiently repeats an act after errors that may pass, until the patience is over, and returns its
// last error.
func patiently(ctx context.Context, patience time.Duration, passes func(error) bool, act func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := act()
		if err == nil || !passes(err) {
			return err
		}
		if !delay.For(ctx, max(min(patience/10, 3*time.Second), time.Millisecond)) {
			return err
		}
	}
}
