package reconcilefunction

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/aws/consulsecrets"
	"github.com/terrapulse/terrapulse/internal/aws/ecs"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/eventbridge"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/awsjson"
	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/engine/inforce"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/runlog"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// New returns the handler for all invocations of a process. It writes metrics to out.
func New(cfg aws.Config, s settings.Reconcile, out io.Writer, log *slog.Logger) *Handler {
	table, files, source := dynamo.New(cfg, s.Table), s3.NewFromConfig(cfg), secrets.New(cfg)
	store := summary.Keep(table)
	containers := &ecs.Launcher{
		Client: awsecs.NewFromConfig(cfg), Stack: s.Stack, Cluster: s.Cluster, TaskDefinition: s.TaskDefinition, PlanRole: s.PlanRole,
		Capacity: s.Capacity, Subnets: s.Subnets, SecurityGroups: s.SecurityGroups, PublicIP: s.PublicIP, Function: s.Function, MaxPlans: s.MaxContainers, Now: time.Now,
	}
	if s.Program != (s3url.URL{}) {
		containers.Program = signed(s3.NewPresignClient(files), s.Program)
	}
	bundles := &bundle.Unpacked{Bucket: &bundle.Bucket{Client: files, Location: s.Bundle}, Dir: filepath.Join(os.TempDir(), "terrapulse-bundles")}
	if err := os.RemoveAll(bundles.Dir); err != nil { // what a process that was killed has left
		log.Warn("the files of earlier bundles are not removed", "error", err)
	}
	consul := &consulsecrets.Consul{Source: source, ARN: s.SecretARN, Dir: filepath.Join(os.TempDir(), "terrapulse-consul")}
	ticks, runs := &client{connection: connection{secrets: consul}}, &connection{secrets: consul}
	owner, said, console := lease.NewOwner(), new(outbox.Said), ecstask.Console{Stack: s.Stack, Cluster: s.Cluster, Logs: s.LogGroups}
	h := &Handler{
		store: store, launcher: &launcher{containers: containers, store: store, load: bundles.Load},
		bundles: &inforce.Follower{Source: bundles, Store: store, Now: time.Now}, keep: bundles.Keep,
		checks: []doctor.Check{
			{Name: "table", Look: table.Check, Fix: "deploy the stack again, or restore the table: see " + docs.Page("operate-aws.md")},
			{Name: "ecs", Look: containers.Check, Fix: "deploy the stack again with a RunnerImage, and a cluster, that are there"},
		},
		window: s.Window, schedule: time.Duration(s.ScheduleMinutes) * time.Minute, now: time.Now, log: log, metrics: metrics.New(out, s.Stack),
	}
	h.engine = engine{
		common: reconcile.Reconciler{
			Store: store, Source: new(overlay.Source), Owner: owner, LeaseTTL: leaseTTL, Skew: skew, Said: said,
			MaxLaunches: s.MaxContainers, Linger: s.Linger, Definition: ecstask.Revision(s.TaskDefinition), BeginsPaused: true,
			Traces: tracing.FromEnviron(os.Getenv), // containers export the spans
			Stack:  s.Stack, Links: func(runner string) *outbox.Links {
				return &outbox.Links{Container: console.Task(runner), Logs: console.Log(runner)}
			},
		},
		connect: ticks.connect, notify: sinks(source, store),
	}
	if s.EventBus != "" {
		sink := &eventbridge.Sink{Bus: s.EventBus, Stack: s.Stack, Client: awsjson.New(cfg)}
		h.engine.bus = []outbox.Sink{sink, eventbridge.Messages{Sink: sink}}
		h.checks = append(h.checks, doctor.Check{Name: "events", Look: sink.Check, Fix: "set EventBus to a bus of this account and region; in a VPC without NAT, create an endpoint for events, or set EventBus to nothing: " + docs.Page("deploy.md")})
	}
	h.executor = executor{
		drivers: remotes.All(func(*remotes.Kind) remotes.Options {
			tokens := tokens{source: source, arn: s.SecretARN}
			return remotes.Options{Token: tokens.read, Values: values.Simple{Look: tokens.look}, Log: log}
		}),
		runner: &runner.Runner{
			Store: store, Logs: runlog.Bucket{Client: files, Location: s.Logs}, Live: liveOutput,
			Printed: func(ctx context.Context, url string) ([]byte, error) { return runlog.Load(ctx, files, url) },
			Owner:   owner, Claim: claimFor, Yields: true, Patience: recordFor, Environ: environment, Verify: verify.Requests, Ended: h.ended, Now: time.Now, Said: said,
		},
		connect: func(ctx context.Context, cfg config.Consul) (runner.Consul, *runner.Supposer, error) {
			client, err := runs.open(ctx, cfg)
			return client, runner.Suppose(client), err
		},
	}
	return h
}

// addressLife is how long the address of a program is valid: a container starts within minutes.
const addressLife = 30 * time.Minute

// signed returns a function that signs addresses of an object, with which a container without a
// client of AWS loads it.
func signed(client *s3.PresignClient, object s3url.URL) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		req, err := client.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &object.Bucket, Key: &object.Prefix}, s3.WithPresignExpires(addressLife))
		if err != nil {
			return "", err
		}
		return req.URL, nil
	}
}
