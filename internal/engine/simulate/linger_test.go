package simulate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// In every fifth history, containers in AWS that have ended their runs wait for another
// launch. Deployments change for how long, and the task definition. The judge checks that a
// launch is carried out by a container of its own or by the runner that has taken it, never
// by both, and that no runner of another task definition gets an offer.

const (
	lingerEvery = 5 // histories
	lingerFirst = 2

	// lingerLife is how long after its start a container takes launches.
	lingerLife = time.Hour
)

// deployment is what a deployment of the stack has set.
type deployment struct {
	linger   time.Duration
	revision string // of the task definition
}

// drawLingering says whether containers linger in the history of a seed. Such histories
// are in AWS.
func (w *world) drawLingering(seed uint64) {
	if w.lingers = seed%lingerEvery == lingerFirst && !w.weather.frost; w.lingers {
		w.home = inAWS
		w.deployed = deployment{w.someLinger(), "runner:1"}
	}
}

func (w *world) someLinger() time.Duration {
	return []time.Duration{time.Minute, 5 * time.Minute, 20 * time.Minute}[w.rng.IntN(3)]
}

// deploy changes for how long containers linger, or what they are made from. Functions that
// work go on.
func (w *world) deploy() {
	switch w.rng.IntN(3) {
	case 0:
		w.deployed.linger = 0
	case 1:
		w.deployed.linger = w.someLinger()
	default:
		w.deployed.revision = fmt.Sprintf("runner:%d", 2+w.rng.IntN(1000))
	}
	w.note("a deployment: containers of %s linger for %s", w.deployed.revision, w.deployed.linger)
	for _, f := range w.functions {
		if !f.busy {
			f.kill("a deployment replaces it")
		}
	}
}

// workAndLinger carries out a launch, and those that the container takes afterwards.
func (c *container) workAndLinger(ctx context.Context, launch state.Launch) {
	began := c.now()
	waits := linger.Runner{Store: summary.Keep(view{process: c.process}), ID: c.id, Definition: c.revision, Now: c.now, Log: nothing}
	waits.Free = func() { go c.invokesTick(ctx) }
	for more := true; more; {
		well := c.work(ctx, launch)
		now := c.now()
		until := now.Add(launch.Linger)
		if latest := began.Add(lingerLife); until.After(latest) {
			until = latest
		}
		if !well || ctx.Err() != nil || !now.Before(until) {
			return
		}
		launch, more = waits.Next(ctx, until)
	}
}

// invokesTick has a container invoke a tick, as functions/settle does.
func (c *container) invokesTick(ctx context.Context) {
	_, _ = ask(ctx, c.process, ecsService, "invoke a tick", func() (any, error) {
		c.world.invoke(reconcile.TickOptions{Ended: true})
		return nil, nil
	})
}

// offered looks at a launch that is written.
func (j *judge) offered(v view, launch state.Launch) {
	before, there := j.launches[launch.ID]
	j.launches[launch.ID] = launch
	switch {
	case there && (before.Offer != launch.Offer || before.Linger != launch.Linger):
		v.violated("an offer stays as it was made: %s changes launch %s", v.name, launch.ID)
	case there && before.Taker != "" && before.Taker != launch.Taker:
		v.violated("a launch is taken once: %s gives %s to %s, which %s has", v.name, launch.ID, launch.Taker, before.Taker)
	case launch.TakenByRunner() && (launch.Taker != launch.Offer || v.name != launch.Taker):
		v.violated("a runner takes what is offered to it: %s gives %s to %s, to which %s was offered", v.name, launch.ID, launch.Taker, launch.Offer)
	}
}

// lingering looks at the record of a runner that is written.
func (j *judge) lingering(v view, r state.Runner) {
	if r.Offer != "" && r.Launch != "" {
		v.violated("a runner has one launch: %s offers %s to %s, which has taken %s", v.name, r.Offer, r.ID, r.Launch)
	}
	if r.Offer == "" || v.name == r.ID {
		return
	}
	for _, f := range v.functions {
		if f.process == v.process && f.deployed.revision != r.Definition {
			v.violated("a runner of another task definition gets no offer: %s offers %s to %s", v.name, r.Offer, r.ID)
		}
	}
}

// getsContainer looks at a launch for which ECS is asked for a container.
func (j *judge) getsContainer(w *world, launch string) {
	switch l := j.launches[launch]; {
	case l.TakenByRunner():
		w.violated("a launch that a runner has taken gets no container: %s has %s", l.Taker, launch)
	case l.Offered():
		w.violated("an offer is withdrawn before the launch gets a container: %s is offered to %s", launch, l.Offer)
	}
}

// takes looks at a run that is claimed.
func (j *judge) takes(v view, before, run state.Run) {
	j.keepsState(v.world, run)
	if v.home != inAWS || before.State == state.RunRunning || run.State != state.RunRunning {
		return
	}
	for _, c := range v.ecs.containers {
		if c.process != v.process {
			continue
		}
		if taker := j.launches[run.Launch].Taker; run.Launch != c.launch && taker != c.id || run.Launch == c.launch && taker != "" && taker != state.TakenByContainer {
			v.violated("a launch has one taker: %s claims run %s of launch %s, which %q has", v.name, run.ID, run.Launch, taker)
		}
	}
}

// readsRunners looks at a process that reads which runners linger.
func (v view) readsRunners(prefix string) {
	for _, f := range v.functions {
		if f.process == v.process && f.deployed.linger == 0 && strings.HasPrefix(prefix, state.RunnerPrefix) {
			v.violated("without Linger no runners are read: %s lists them", v.name)
		}
	}
}
