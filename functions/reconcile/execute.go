package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/bundle"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/environ"
	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/metrics"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/runner"
	"github.com/terrapulse/terrapulse/internal/secrets"
	"github.com/terrapulse/terrapulse/internal/state"
)

const (
	// tickTime limits the ticks of an invocation: one that hangs would hold the lease. Runs that the
	// invocation executes may take longer.
	tickTime = 2 * time.Minute

	// atOnce is the number of runs that an invocation executes in parallel. They wait for answers
	// most of the time, and together they send no more than HCP Terraform permits.
	atOnce = 16

	// claimFor is how long a claim is valid without renewal, as in a container.
	claimFor = time.Minute

	// stopReserve is the part of the invocation's time in which runs that were interrupted record
	// that. recordFor limits the attempts.
	stopReserve = 15 * time.Second
	recordFor   = 5 * time.Second

	// liveOutput is the interval at which the output of a run under way is written, as in a
	// container.
	liveOutput = 5 * time.Second
)

// begin starts a launch of plans that functions/api has written.
func (i *invocation) begin(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	launch, err := state.Read[state.Launch](ctx, i.store, state.LaunchKey(req.Launch))
	switch {
	case err != nil:
		return invoke.Answer{}, fmt.Errorf("read launch %s: %w", req.Launch, err)
	case !launch.Exists() || launch.Data.Kind != state.KindPlan:
		return invoke.Answer{}, fmt.Errorf("launch %s is no launch of plans", req.Launch)
	}
	answer := invoke.Answer{Mode: req.Mode, Bundle: launch.Data.Bundle}
	answer.Launches, answer.Runs = started([]state.Launch{launch.Data})
	return answer, i.launcher.Start(ctx, launch.Data)
}

// execute executes a run of a launch.
func (i *invocation) execute(ctx context.Context, launch state.Launch, run state.PlannedRun) error {
	r := *i.runner
	r.Log = i.log
	cfg, err := i.launcher.load(ctx, launch.Bundle)
	if err == nil {
		r.Consul, err = i.consulOf(ctx, cfg.Consul)
	}
	if err != nil {
		return r.Refuse(ctx, launch, run, fmt.Errorf("prepare the run: %w", err))
	}
	r.Config, r.Source, r.Bundle = func() *config.Config { return cfg }, new(overlay.Source), i.oldBundle
	return r.Run(ctx, launch, run)
}

// oldBundle returns an earlier bundle, with the module of a removed task; nil if that is not in the
// bucket any more, or damaged.
func (i *invocation) oldBundle(ctx context.Context, digest string) (*config.Config, error) {
	cfg, err := i.launcher.load(ctx, digest)
	if errors.As(err, new(*bundle.InvalidError)) {
		i.log.Warn("the bundle with the module of a removed task cannot be used", "bundle", digest, "error", err)
		return nil, nil
	}
	return cfg, err
}

// finish waits for the runs that the invocation executes, and ticks after they have ended: what
// follows a run is decided by a tick. It returns when nothing is left to execute, or when the time
// of the invocation is over.
func (i *invocation) finish(ctx context.Context, req invoke.Request, answer invoke.Answer) (invoke.Answer, error) {
	for i.launcher.here.Busy() {
		i.launcher.here.Wait()
		if i.end.Sub(i.now()) < launchReserve+stopReserve {
			break
		}
		next, err := i.again(ctx, req, reconcile.TickOptions{Ended: true})
		if err != nil {
			return answer, err
		}
		next.Mode, next.Skipped = answer.Mode, answer.Skipped
		answer = merge(answer, next)
	}
	return answer, nil
}

// again executes another tick of the invocation.
func (i *invocation) again(ctx context.Context, req invoke.Request, opts reconcile.TickOptions) (invoke.Answer, error) {
	i.deadline = i.limit()
	ctx, stop := context.WithDeadline(ctx, i.deadline.Add(-reserve))
	defer stop()
	report, err := i.tickInTurn(ctx, opts, true)
	return i.answer(req, report, err)
}

// await waits until the runs of the answer have ended, wait for a person or their window, or the
// time is over. Ticks poll those that go on in HCP Terraform.
func (i *invocation) await(ctx context.Context, req invoke.Request, answer invoke.Answer) (invoke.Answer, error) {
	for {
		open, elsewhere := false, false
		for n := range answer.Runs {
			r := &answer.Runs[n]
			if r.State.Ended() {
				continue
			}
			run, err := state.Read[state.Run](ctx, i.store, state.RunKey(r.Task, r.Run))
			if err != nil {
				return answer, fmt.Errorf("read run %s of task %s: %w", r.Run, r.Task, err)
			}
			if !run.Exists() {
				continue
			}
			r.State, r.Error, r.Changes = run.Data.State, run.Data.Error, run.Data.Changes
			if !run.Data.Ended.IsZero() {
				r.Ended = &run.Data.Ended
			}
			remote := r.State == state.RunWaiting && !run.Data.Wait.For.ForPeople()
			open, elsewhere = open || r.State.Active() || remote, elsewhere || remote
		}
		i.deadline = i.end
		if !open || !i.sleep(ctx, time.Second) {
			return answer, nil
		}
		if !elsewhere {
			continue
		}
		_, err := i.again(ctx, req, reconcile.TickOptions{})
		if err == nil {
			_, err = i.finish(ctx, req, invoke.Answer{})
		}
		if err != nil {
			return answer, err
		}
	}
}

// limit returns when ticks that begin now must end.
func (i *invocation) limit() time.Time {
	if limit := i.now().Add(tickTime); limit.Before(i.end) {
		return limit
	}
	return i.end
}

// ended writes the metrics of a run that has ended.
func (h *handler) ended(run state.Run) {
	if err := h.metrics.Write(run.Ended, metrics.OfRun(run)); err != nil {
		h.log.Warn("metrics not written", "error", err)
	}
}

// environment returns the environment of the programs that judge plans.
func environment() []string {
	return slices.DeleteFunc(environ.Shared(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(own, name)
	})
}

// snapshots connects runs to Consul. It is safe for concurrent use.
type snapshots struct {
	secrets *secrets.Consul

	mu       sync.Mutex
	client   *consul.Client
	complete config.Consul // of the client, with the secrets
}

// connect returns a client with the current secrets. It keeps the connections as long as these and
// the configuration are unchanged.
func (s *snapshots) connect(ctx context.Context, cfg config.Consul) (runner.Consul, error) {
	complete, err := s.secrets.Configure(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil || s.complete != complete {
		client, err := consul.New(complete)
		if err != nil {
			return nil, err
		}
		s.client, s.complete = client, complete
	}
	return s.client, nil
}
