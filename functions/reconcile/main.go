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
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/awsenv"
	"github.com/terrapulse/terrapulse/internal/awsjson"
	"github.com/terrapulse/terrapulse/internal/config/bundle"
	"github.com/terrapulse/terrapulse/internal/deployment"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/dynamic/values"
	"github.com/terrapulse/terrapulse/internal/eventbridge"
	"github.com/terrapulse/terrapulse/internal/inforce"
	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/launch/ecs"
	"github.com/terrapulse/terrapulse/internal/launch/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/logging"
	"github.com/terrapulse/terrapulse/internal/metrics"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/runlog"
	"github.com/terrapulse/terrapulse/internal/runner"
	"github.com/terrapulse/terrapulse/internal/s3url"
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
	cfg, err := awsenv.Config(ctx)
	if err != nil {
		return nil, err
	}
	store := dynamo.New(cfg, settings.Table)
	containers := &ecs.Launcher{
		Client: awsjson.New(cfg), Stack: settings.Stack, Cluster: settings.Cluster, TaskDefinition: settings.TaskDefinition,
		Capacity: settings.Capacity, Subnets: settings.Subnets, SecurityGroups: settings.SecurityGroups, PublicIP: settings.PublicIP, Function: settings.Function, Now: time.Now,
	}
	files := s3.NewFromConfig(cfg)
	if settings.Program != (s3url.URL{}) {
		containers.Program = signed{s3.NewPresignClient(files), settings.Program}.address
	}
	source := secrets.New(cfg)
	checks := []doctor.Check{
		{Name: "table", Look: store.Check, Fix: "deploy the stack again, or restore the table: see docs/operate.md"},
		{Name: "ecs", Look: containers.Check, Fix: "deploy the stack again with a RunnerImage, and a cluster, that are there"},
	}
	var bus []outbox.Sink
	if settings.EventBus != "" {
		sink := &eventbridge.Sink{Bus: settings.EventBus, Stack: settings.Stack, Client: awsjson.New(cfg)}
		bus = append(bus, sink, eventbridge.Messages{Sink: sink})
		checks = append(checks, doctor.Check{Name: "events", Look: sink.Check, Fix: "set EventBus to a bus of this account and region; in a VPC without NAT, create an endpoint for events, or set EventBus to nothing: docs/deploy.md"})
	}
	consul := &secrets.Consul{Source: source, ARNs: settings.Consul, Dir: filepath.Join(os.TempDir(), "terrapulse-consul")}
	bundles := &unpacked{Bucket: &bundle.Bucket{Client: files, Location: settings.Bundle}, dir: filepath.Join(os.TempDir(), "terrapulse-bundles")}
	if err := os.RemoveAll(bundles.dir); err != nil { // what a process that was killed has left
		log.Warn("the files of earlier bundles are not removed", "error", err)
	}
	owner := lease.NewOwner()
	h := &handler{
		store: store, launcher: &launcher{containers: containers, store: store, load: bundles.Load},
		bundles: &inforce.Follower{Source: bundles, Store: store, Now: time.Now}, keep: bundles.keep,
		connect: (&client{secrets: consul}).connect, consulOf: (&snapshots{secrets: consul}).connect,
		checks: checks,
		owner:  owner, window: settings.Window, beginsPaused: settings.StartPaused, maxLaunches: settings.MaxContainers,
		linger: settings.Linger, definition: ecstask.Revision(settings.TaskDefinition),
		now: time.Now, log: log, metrics: metrics.New(out, settings.Stack), notify: sinks(source), bus: bus, stack: settings.Stack,
		links: links(ecstask.Console{Stack: settings.Stack, Cluster: settings.Cluster, Logs: settings.LogGroups}),
	}
	tokens := tokens{source: source, arn: settings.HCPTokenARN}
	cloud := hcp.New(hcp.Options{Token: tokens.read, Values: values.Simple{Look: tokens.look}, Log: log})
	h.cloud, h.printed = cloud, cloud.Output
	h.runner = &runner.Runner{
		Driver: cloud, Store: store, Logs: runlog.Bucket{Client: files, Location: settings.Logs}, Live: liveOutput,
		Printed: func(ctx context.Context, url string) ([]byte, error) { return runlog.Load(ctx, files, url) },
		Owner:   owner, Claim: claimFor, Yields: true, Patience: recordFor, Environ: environment, Ended: h.ended, Now: time.Now, Said: &h.said,
	}
	return h, nil
}

// links returns a function that returns the pages of the AWS console about a container.
func links(console ecstask.Console) func(runner string) *outbox.Links {
	return func(runner string) *outbox.Links {
		return &outbox.Links{Container: console.Task(runner), Logs: console.Log(runner)}
	}
}

// addressLife is how long the address of a program is valid: a container starts within minutes.
const addressLife = 30 * time.Minute

// signed signs addresses of an object, with which a container without a client of AWS loads it.
type signed struct {
	client *s3.PresignClient
	object s3url.URL
}

func (s signed) address(ctx context.Context) (string, error) {
	req, err := s.client.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &s.object.Bucket, Key: &s.object.Prefix}, s3.WithPresignExpires(addressLife))
	if err != nil {
		return "", err
	}
	return req.URL, nil
}
