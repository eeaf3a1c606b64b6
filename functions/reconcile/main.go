// Command reconcile is the function that EventBridge Scheduler invokes: it polls Consul, decides,
// and launches containers for tasks with changes. People can invoke it, too: see internal/invoke.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/awsconfig"
	"github.com/terrapulse/terrapulse/internal/awsjson"
	"github.com/terrapulse/terrapulse/internal/config/bundle"
	"github.com/terrapulse/terrapulse/internal/deployment"
	"github.com/terrapulse/terrapulse/internal/eventbridge"
	"github.com/terrapulse/terrapulse/internal/inforce"
	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/launch/ecs"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/logging"
	"github.com/terrapulse/terrapulse/internal/metrics"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/secrets"
	"github.com/terrapulse/terrapulse/internal/state/dynamo"
)

func main() {
	h, err := newHandler(context.Background(), os.Environ(), os.Stdout)
	if err != nil {
		// Every invocation returns the error: if the process exited here, Lambda would restart it
		// again and again, and only its log would say why.
		slog.Error("the function is not configured correctly", "error", err)
		awslambda.Start(func(context.Context, json.RawMessage) (invoke.Answer, error) { return invoke.Answer{}, err })
		return
	}
	awslambda.Start(h.handle)
}

// newHandler builds the handler, once for all invocations of a process.
func newHandler(ctx context.Context, environ []string, out io.Writer) (*handler, error) {
	settings, err := deployment.Read[deployment.Reconcile](environ)
	log := logging.JSON(out, settings.LogLevel)
	if err != nil {
		return nil, err
	}
	cfg, err := awsconfig.Lambda(ctx)
	if err != nil {
		return nil, err
	}
	store := dynamo.New(cfg, settings.Table)
	launcher := &ecs.Launcher{
		Client: awsecs.NewFromConfig(cfg), Stack: settings.Stack, Cluster: settings.Cluster, TaskDefinition: settings.TaskDefinition,
		Capacity: settings.Capacity, Subnets: settings.Subnets, SecurityGroups: settings.SecurityGroups, PublicIP: settings.PublicIP, Now: time.Now,
	}
	source := secrets.New(cfg)
	checks := []check{
		{"table", store.Check, "deploy the stack again, or restore the table: see docs/operate.md"},
		{"ecs", launcher.Check, "deploy the stack again with a RunnerImage, and a cluster, that are there"},
	}
	var bus []outbox.Sink
	if settings.EventBus != "" {
		sink := &eventbridge.Sink{Bus: settings.EventBus, Stack: settings.Stack, Client: awsjson.New(cfg)}
		bus = append(bus, sink)
		checks = append(checks, check{"events", sink.Check, "set EventBus to a bus of this account and region; in a VPC without NAT, create an endpoint for events, or set EventBus to nothing: docs/deploy.md"})
	}
	client := &client{secrets: &secrets.Consul{
		Source: source, ARNs: settings.Consul, Dir: filepath.Join(os.TempDir(), "terrapulse-consul"),
	}}
	return &handler{
		store: store, launcher: launcher,
		bundles: &inforce.Follower{Source: &bundle.Bucket{Client: s3.NewFromConfig(cfg), Location: settings.Bundle}, Store: store, Now: time.Now},
		connect: client.connect,
		checks:  checks,
		owner:   lease.NewOwner(), window: settings.Window, maxLaunches: settings.MaxContainers,
		now: time.Now, log: log, metrics: metrics.New(out, settings.Stack), notify: sinks(source), bus: bus, stack: settings.Stack,
	}, nil
}
