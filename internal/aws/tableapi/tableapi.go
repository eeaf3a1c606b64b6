// Package tableapi serves the HTTP API on the records of a deployment in AWS: in
// functions/api and, for a stack with Api=none, in a command.
package tableapi

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/function"
	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/runlog"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

const (
	// poll is the interval at which a run is polled that a request waits for: a container takes
	// half a minute to start.
	poll = time.Second
	// inspectLimit limits how long functions/reconcile may take to start an inspection: it answers
	// before the container runs.
	inspectLimit = time.Minute
	// outputLimit limits how long an answer may wait for what another system prints. Without that,
	// it has what the steps of the run have printed.
	outputLimit = 10 * time.Second
)

// Options are the deployment.
type Options struct {
	AWS               aws.Config
	Store             state.Store
	Table             string // where the store is, for people
	Bundle            s3url.URL
	ReconcileFunction string
	Console           ecstask.Console
	Failed            func() // called for each request that cannot be answered; may be nil
	Log               *slog.Logger
}

// API is the handler of the API.
type API struct {
	*api.Handler
	inForce *inForce
}

// policyAge is how old the configuration may be whose grants decide: requests of open pages, which read
// it, then read nothing more for that.
const policyAge = 20 * time.Second

// Policy returns the grants of the bundle in force, and the labels that it gives tasks.
func (a API) Policy(ctx context.Context) (roles.Policy, error) {
	cfg, err := a.inForce.recent(ctx, policyAge)
	if err != nil {
		return roles.Policy{}, err
	}
	granted := cfg.API.Access
	granted.Labels = cfg.LabelsInFiles
	return granted, nil
}

// New returns the handler of the API. It takes the sender of a request from its context.
func New(o Options) API {
	objects := s3.NewFromConfig(o.AWS)
	reconciler := function.Function{Name: o.ReconcileFunction, Client: awslambda.NewFromConfig(o.AWS, func(o *awslambda.Options) {
		// A repeated request would start a second inspection.
		o.HTTPClient, o.Retryer = awshttp.NewBuildableClient().WithTimeout(inspectLimit), aws.NopRetryer{}
	})}
	inForce := &inForce{store: o.Store, bundles: bundle.Bucket{Client: objects, Location: o.Bundle}}
	source := new(overlay.Source)
	plans := inspections{reconciler, o.Store, inForce.named, source}
	return API{inForce: inForce, Handler: api.New(api.Options{
		Control: &control.Control{
			Store: o.Store, Base: inForce.load, Source: source, Plan: plans.start, WhatIf: plans.whatIf, Wake: wake(reconciler, o.Log),
			Output:       func(ctx context.Context, url string) ([]byte, error) { return runlog.Load(ctx, objects, url) },
			RemoteOutput: output(reconciler),
			Poll:         poll, Now: time.Now,
		},
		Links: links(o.Console), Console: consoleLinks(o.Console),
		Failed: o.Failed, Log: o.Log, Version: buildinfo.Version, Store: apispec.Store{Kind: "dynamodb", Where: o.Table},
	})}
}

// links returns a function that returns the pages of the AWS console about a run.
func links(console ecstask.Console) func(state.Run) *apispec.RunLinks {
	return func(run state.Run) *apispec.RunLinks {
		if run.Runner == "" {
			return nil
		}
		shown := &apispec.RunLinks{Container: console.Task(run.Runner), Logs: console.Log(run.Runner)}
		if at, err := s3url.Parse(run.Output.URL); err == nil {
			shown.Output = new(console.Object(at.Bucket, at.Prefix))
		}
		return shown
	}
}

// consoleLinks returns the pages of the AWS console about the deployment.
func consoleLinks(console ecstask.Console) *apispec.ConsoleLinks {
	return &apispec.ConsoleLinks{
		Dashboard: console.Dashboard(), Alarms: console.Alarms(), Containers: console.Containers(),
		Logs: apispec.ConsoleLogs{Reconcile: console.Group("reconcile"), Settle: console.Group("settle"), Runner: console.Group("runner"), API: console.Group("api")},
	}
}
