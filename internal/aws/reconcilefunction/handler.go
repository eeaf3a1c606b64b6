// Package reconcilefunction is functions/reconcile: it answers the requests of package invoke with
// ticks, runs and checks. It does in a deployment in AWS what package instance does on one machine.
package reconcilefunction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/engine/inforce"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// reserve is the part of the invocation's time that a tick keeps to release the lease and to
// answer. launchReserve is the maximum time, with retries, to write and start the launches of
// one step.
const (
	reserve       = 3 * time.Second
	launchReserve = 10 * time.Second
)

// Handler answers invocations, one at a time. It lives as long as the function's process, so that
// the next invocations reuse the bundle and the secrets.
type Handler struct {
	store    state.Store
	bundles  *inforce.Follower
	keep     func(digest string) // removes the files of all other bundles
	engine   engine
	executor executor
	launcher *launcher
	checks   []doctor.Check // of the mode doctor, besides those of bundle and Consul
	window   time.Duration  // how long an invocation of the schedule watches the gates; 0 ticks once
	schedule time.Duration  // between two invocations of the schedule
	now      func() time.Time
	log      *slog.Logger
	metrics  *metrics.Writer
}

// invocation is an invocation in progress.
type invocation struct {
	*Handler
	log      *slog.Logger
	began    time.Time
	deadline time.Time // time limit of a tick
	end      time.Time // of the invocation
	ends     ends
}

// Handle answers one invocation. It returns an error if the invocation could not be executed at
// all; a tick that was skipped for a transient reason is not an error.
func (h *Handler) Handle(ctx context.Context, payload json.RawMessage) (invoke.Answer, error) {
	req, err := parse(payload)
	call, invoked := lambdacontext.FromContext(ctx)
	if err == nil && invoked {
		err = permitted(call.InvokedFunctionArn, req)
	}
	if err != nil {
		h.log.Error("invocation refused", "error", err)
		return invoke.Answer{}, err
	}
	end, ok := ctx.Deadline()
	if !ok {
		end = h.now().Add(time.Minute)
	}
	inv := &invocation{Handler: h, log: h.log, began: h.now(), end: end}
	inv.deadline = inv.limit()
	if invoked {
		inv.log = h.log.With("tick", call.AwsRequestID)
	}
	if h.engine.current != nil {
		h.keep(h.engine.current.Digest)
	}
	work, interrupt := context.WithDeadline(ctx, end.Add(-stopReserve))
	defer interrupt()
	h.launcher.here = launch.NewLocal(work, atOnce, inv.log, inv.execute)
	defer h.launcher.here.Wait()
	answer, err := inv.do(ctx, req)
	if err == nil {
		answer, err = inv.finish(ctx, req, answer)
	}
	if err == nil {
		answer, err = inv.follow(work, req, answer)
	}
	if err == nil && req.Wait {
		answer, err = inv.await(ctx, req, answer)
	}
	return answer, err
}

// do does what the request says, in the time of a tick.
func (i *invocation) do(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	ctx, stop := context.WithDeadline(ctx, i.deadline.Add(-reserve))
	defer stop()
	switch req.Mode {
	case invoke.Doctor:
		return i.examine(ctx), nil
	case invoke.Inspect:
		return i.inspect(ctx, req)
	case invoke.Once:
		return i.once(ctx, req)
	case invoke.Output:
		return i.output(ctx, req), nil
	}
	return i.reconcile(ctx, req)
}

// inspectAlias is the alias of the function in the template that only plans.
const inspectAlias = "inspect"

// permitted refuses what a caller may not request of the function by this ARN: IAM can limit callers to an alias, and
// not to a mode.
func permitted(arn string, req invoke.Request) error {
	_, name, _ := strings.Cut(arn, ":function:")
	if _, alias, _ := strings.Cut(name, ":"); alias == inspectAlias && req.Mode != invoke.Inspect {
		return fmt.Errorf("the alias %s of the function only plans: invoke the function itself for mode %s", inspectAlias, req.Mode)
	}
	return nil
}

// parse parses a request. An event of the bucket about the bundle's pointer becomes a request to
// check for a new bundle.
func parse(payload json.RawMessage) (invoke.Request, error) {
	var event struct {
		Source     string `json:"source"`
		DetailType string `json:"detail-type"`
	}
	if json.Unmarshal(payload, &event) == nil && event.Source == "aws.s3" && event.DetailType == "Object Created" {
		return invoke.Request{Mode: invoke.Reconcile, Refresh: true}, nil
	}
	return invoke.Parse(payload)
}

// once starts runs of the tasks now. It waits for a tick in progress.
func (i *invocation) once(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	names, err := i.chosen(ctx, req)
	if err != nil {
		return i.answer(req, reconcile.Report{}, err)
	}
	if err := i.note(ctx, i.engine.current.Config, req, audit.Run, req.Tasks, ""); err != nil {
		return invoke.Answer{}, err
	}
	force := map[string]string{}
	for _, name := range names {
		force[name] = "an invocation of the function"
	}
	report, err := i.tickInTurn(ctx, reconcile.TickOptions{Force: force, All: len(req.Tasks) == 0}, false)
	replaced := report.Replaced("an invocation of the function")
	maps.DeleteFunc(replaced, func(task, _ string) bool { return force[task] == "" })
	if err == nil && len(replaced) > 0 {
		var next reconcile.Report
		next, err = i.tick(ctx, reconcile.TickOptions{Force: replaced})
		report.Include(next)
	}
	return i.answer(req, report, err)
}

// inspect launches plan runs.
func (i *invocation) inspect(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	if req.Launch != "" {
		return i.begin(ctx, req)
	}
	if req.WhatIf != nil {
		return i.suppose(ctx, req)
	}
	planner, names, err := i.planned(ctx, req)
	if err != nil {
		return i.answer(req, reconcile.Report{}, err)
	}
	if err := i.notePlans(ctx, planner.Config, req, names); err != nil {
		return invoke.Answer{}, err
	}
	launches, err := planner.Start(ctx, names, req.Draft, sender(req))
	return plans(invoke.Answer{Mode: req.Mode, Bundle: planner.Bundle}, launches, err)
}

// plans adds the launches of plans to an answer, or that there are too many.
func plans(answer invoke.Answer, launches []state.Launch, err error) (invoke.Answer, error) {
	answer.Launches, answer.Runs = started(launches)
	if errors.Is(err, reconcile.ErrBusy) {
		answer.Problem, answer.Busy, err = err.Error(), true, nil
	}
	return answer, err
}

// suppose launches the plan runs of a what-if. Containers read Consul for it.
func (i *invocation) suppose(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	var w condition.WhatIf
	if err := json.Unmarshal(req.WhatIf, &w); err != nil || w.None() {
		return invoke.Answer{}, errors.New("the what-if says nothing, or cannot be decoded: send one as POST /v1/what-if takes it")
	}
	planner, _, err := i.planned(ctx, req)
	if err != nil {
		return i.answer(req, reconcile.Report{}, err)
	}
	if err := i.note(ctx, planner.Config, req, audit.WhatIf, req.Tasks, w.String()); err != nil {
		return invoke.Answer{}, err
	}
	q, launches, err := planner.WhatIfAll(ctx, w, req.Tasks, reconcile.NewQuestion(), sender(req))
	return plans(invoke.Answer{Mode: req.Mode, Bundle: planner.Bundle, WhatIf: &q}, launches, err)
}

// planned returns what plans the tasks of the request, and their names. A bundle that the request
// names needs no other one in force.
func (i *invocation) planned(ctx context.Context, req invoke.Request) (reconcile.Planner, []string, error) {
	if req.Bundle == "" {
		names, err := i.chosen(ctx, req)
		if err != nil {
			return reconcile.Planner{}, nil, err
		}
		r, err := i.prepare(ctx)
		if err != nil {
			return reconcile.Planner{}, nil, err
		}
		return r.Planner(), names, nil
	}
	cfg, err := i.bundles.Source.Load(ctx, req.Bundle)
	if err != nil {
		return reconcile.Planner{}, nil, err
	}
	planner := reconcile.Planner{Store: i.store, Launcher: i.launcher, Config: cfg, Source: new(overlay.Source), Bundle: req.Bundle, Now: i.now}
	effective, err := planner.Source.Read(ctx, i.store, cfg)
	if err != nil {
		return planner, nil, err
	}
	names, err := named(effective.Config, req, req.Bundle)
	return planner, names, err
}

// chosen returns the tasks of the request, all of which exist.
func (i *invocation) chosen(ctx context.Context, req invoke.Request) ([]string, error) {
	i.bundles.Forget() // the caller means the bundle that was pushed last
	if _, err := i.prepare(ctx); err != nil {
		return nil, err
	}
	effective, err := i.effective(ctx)
	if err != nil {
		return nil, err
	}
	return named(effective.Config, req, i.engine.current.Digest)
}

// named returns the tasks of the request in a configuration, which is that of a bundle.
func named(cfg *config.Config, req invoke.Request, digest string) ([]string, error) {
	if len(req.Tasks) == 0 {
		return enabled(cfg), nil
	}
	for _, name := range req.Tasks {
		t, ok := cfg.Task(name)
		if !ok {
			return nil, fmt.Errorf("task %q is not in the bundle %.12s, nor was it created through the API", name, digest)
		}
		if !t.Enabled && req.Mode == invoke.Once {
			return nil, fmt.Errorf("task %q is disabled: enable it in its task file, or through the API", name)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(req.Tasks))), nil
}

// effective returns the configuration in force with what was changed through the API.
func (i *invocation) effective(ctx context.Context) (*overlay.Effective, error) {
	if i.engine.current == nil {
		return nil, inforce.ErrNone
	}
	return i.engine.common.Source.Read(ctx, i.store, i.engine.current.Config)
}

// enabled returns the names of the enabled tasks.
func enabled(cfg *config.Config) (names []string) {
	for _, t := range cfg.Tasks {
		if t.Enabled {
			names = append(names, t.Name)
		}
	}
	return names
}
