package reconcilefunction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/environ"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

const (
	// tickTime limits the ticks of an invocation: one that hangs would hold the lease. Runs that the
	// invocation executes may take longer.
	tickTime = 2 * time.Minute

	// atOnce is the number of runs that an invocation executes in parallel. They wait for answers
	// most of the time, and together they send no more than another system permits.
	atOnce = 16

	// claimFor is how long a claim is valid without renewal, as in a container.
	claimFor = time.Minute

	// stopReserve is the part of the invocation's time in which runs that were interrupted record
	// that. recordFor limits the attempts, and half of it all that they keep for people before, in S3.
	stopReserve = 15 * time.Second
	recordFor   = 12 * time.Second

	// awaitFor is how long an invocation that a caller waits for polls the remote runs that its latest
	// tick has seen. Then it ticks: another process may have created others.
	awaitFor = 10 * time.Second

	// liveOutput is the interval at which the output of a run under way is written, as in a
	// container.
	liveOutput = 5 * time.Second
)

// executor executes runs that need no container.
type executor struct {
	drivers map[*remotes.Kind]remotes.Driver
	runner  *runner.Runner // execute adds the rest
	connect func(ctx context.Context, cfg config.Consul) (runner.Consul, *runner.Supposer, error)
}

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
	r := *i.executor.runner
	r.Log, r.Ended = i.log, i.runEnded
	cfg, err := i.launcher.load(ctx, launch.Bundle)
	if err == nil {
		r.Driver = i.executor.drivers[remotes.Of(cfg)]
		r.Consul, r.Suppose, err = i.executor.connect(ctx, cfg.Consul)
	}
	if err != nil {
		return r.Refuse(ctx, launch, run, fmt.Errorf("prepare the run: %w", err))
	}
	r.Config, r.Source, r.Bundle = func() *config.Config { return cfg }, new(overlay.Source), i.launcher.load
	return r.Run(ctx, launch, run)
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
// time is over. Ticks poll those that go on in another system.
func (i *invocation) await(ctx context.Context, req invoke.Request, answer invoke.Answer) (invoke.Answer, error) {
	polled := false // by a tick of await, which knows the remote runs
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
		if !open {
			return answer, nil
		}
		opts := reconcile.TickOptions{Notified: true}
		if r := i.engine.reconciler; elsewhere && polled && r.AwaitsRemote(time.Time{}) {
			opts.Moved = r.AwaitRemote(ctx, clock.Earlier(i.now().Add(awaitFor), i.deadline.Add(-launchReserve)))
		} else if (polled || !elsewhere) && !i.sleep(ctx, time.Second) {
			return answer, nil
		}
		if !elsewhere {
			continue
		}
		if i.deadline.Sub(i.now()) < launchReserve {
			return answer, nil
		}
		polled = true
		_, err := i.again(ctx, req, opts)
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
	return clock.Earlier(i.now().Add(tickTime), i.end)
}

// ended writes the metrics of a run that has ended.
func (h *Handler) ended(run state.Run) {
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
