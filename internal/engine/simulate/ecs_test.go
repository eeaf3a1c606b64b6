package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/environ"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

const (
	stopTimeout   = 2 * time.Minute  // from SIGTERM to SIGKILL
	shownFor      = time.Hour        // after a task has stopped
	startPatience = 10 * time.Minute // of the launcher, with a task that does not start
	parallel      = 2                // runs at a time in a container
)

// cluster is ECS: tasks of one container each, and the events that tell of
// their ends.
type cluster struct {
	capacity   bool
	tokens     map[string]time.Time // when a task was last started for a token
	containers []*container
	events     []event
	settling   []*process
}

// container is an ECS task.
type container struct {
	*process // nil until it runs
	id       string
	launch   string
	revision string // of the task definition
	created  time.Time
	started  time.Time
	stopped  time.Time
	why      string
	lag      [2]time.Duration // until its beginning, and its end, is shown
	deadline time.Time        // of SIGTERM
	term     context.CancelFunc
}

// event is an ECS task state change that was not delivered yet.
type event struct {
	orphan.Stopped
	tries int
}

var errNoCapacity = errors.New("capacity is unavailable at this time")

func (e *cluster) init() {
	e.capacity, e.tokens = true, map[string]time.Time{}
}

// runTask is RunTask with the launch's id as client token.
func (e *cluster) runTask(w *world, launch, revision string) error {
	w.judge.launched(w, launch)
	w.judge.getsContainer(w, launch)
	if !e.capacity {
		return errNoCapacity
	}
	if at, known := e.tokens[launch]; known && time.Since(at) < w.weather.memory {
		return nil
	}
	e.tokens[launch] = time.Now()
	c := &container{id: fmt.Sprintf("task%04d", len(e.containers)+1), launch: launch, revision: revision, created: time.Now()}
	for i := range c.lag {
		if w.faults && w.weather.lag > 0 {
			c.lag[i] = time.Duration(w.rng.Int64N(int64(w.weather.lag)))
		}
	}
	e.containers = append(e.containers, c)
	w.note("    %s is created for %s", c.id, launch)
	return nil
}

// status is what ListTasks and DescribeTasks show of launches and containers, as
// internal/aws/ecs takes it.
func (e *cluster) status(ids []string) map[string]reconcile.LaunchStatus {
	all := map[string]reconcile.LaunchStatus{}
	for _, c := range e.containers {
		for _, id := range []string{c.launch, c.id} {
			switch gone := time.Since(c.stopped); {
			case !slices.Contains(ids, id) || time.Since(c.created) < c.lag[0] || all[id].Running:
			case !c.stopped.IsZero() && gone >= shownFor:
			case !c.stopped.IsZero() && gone >= c.lag[1]:
				all[id] = reconcile.LaunchStatus{Stopped: c.why, Runner: c.id}
			case c.started.IsZero() && time.Since(c.created) >= startPatience:
				// It may still start.
				all[id] = reconcile.LaunchStatus{Stopped: "its container has not started", Runner: "not started: " + c.id}
			default:
				all[id] = reconcile.LaunchStatus{Running: true}
			}
		}
	}
	return all
}

// busy reports whether there is a container that has not stopped.
func (e *cluster) busy() bool {
	return slices.ContainsFunc(e.containers, func(c *container) bool { return c.stopped.IsZero() })
}

// progress has a container start that was created, if there is one.
func (e *cluster) progress(w *world) bool {
	var waiting []*container
	for _, c := range e.containers {
		if c.started.IsZero() && c.stopped.IsZero() {
			waiting = append(waiting, c)
		}
	}
	if len(waiting) == 0 {
		return false
	}
	c := waiting[w.rng.IntN(len(waiting))]
	if w.chance(50) {
		e.stop(w, c, "its image cannot be pulled")
		return true
	}
	p, ctx := w.process(c.id)
	p.name = c.id
	c.process, c.started = p, time.Now()
	w.note("%s starts, for %s", c.id, c.launch)
	working, term := context.WithCancel(ctx)
	c.term = term
	go func() {
		c.main(working)
		_, _ = ask(ctx, p, terraform, "exits", func() (any, error) {
			c.dead = true
			e.stop(w, c, "its container exited")
			return nil, nil
		})
	}()
	return true
}

// stop ends a container, which an event will tell of, perhaps.
func (e *cluster) stop(w *world, c *container, why string) {
	if !c.stopped.IsZero() {
		return
	}
	w.note("%s has stopped: %s", c.id, why)
	c.stopped, c.why = time.Now(), why
	if c.process != nil {
		w.judge.died(c.id)
	}
	stopped := event{Stopped: orphan.Stopped{Launch: c.launch, Runner: c.id, Why: why}}
	if !w.chance(w.weather.unreported) {
		e.events = append(e.events, stopped)
	}
	if w.chance(100) {
		e.events = append(e.events, stopped)
	}
}

// died notes that a process was killed.
func (e *cluster) died(p *process) {
	for _, c := range e.containers {
		if c.process == p {
			e.stop(p.world, c, "its container was killed")
		}
	}
}

// mishap is what happens to containers: they are killed, or get SIGTERM, or
// there is no capacity.
func (e *cluster) mishap(w *world) {
	alive := e.alive()
	switch n := w.rng.IntN(3); {
	case n == 0:
		e.capacity = !e.capacity
		w.note("there is capacity: %v", e.capacity)
	case len(alive) == 0:
	case n == 1:
		alive[w.rng.IntN(len(alive))].kill("out of memory")
	case n == 2:
		c := alive[w.rng.IntN(len(alive))]
		w.note("%s gets SIGTERM", c.id)
		c.term()
		if c.deadline.IsZero() {
			c.deadline = time.Now().Add(stopTimeout)
		}
	}
}

// alive returns the containers that run.
func (e *cluster) alive() []*container {
	var alive []*container
	for _, c := range e.containers {
		if c.process != nil && c.stopped.IsZero() {
			alive = append(alive, c)
		}
	}
	return alive
}

// cutOff cuts the network of a container for a while, rather of one that
// applies something. What it runs goes on.
func (e *cluster) cutOff(w *world) {
	alive := e.alive()
	if len(alive) == 0 || !w.chance(w.weather.cuts) {
		return
	}
	c := alive[w.rng.IntN(len(alive))]
	for _, other := range alive {
		if w.judge.applies(other.process) {
			c = other
		}
	}
	c.cut = time.Now().Add(time.Duration(30+w.rng.IntN(900)) * time.Second)
	w.note("%s reaches nobody until %s", c.id, c.cut.Format(time.TimeOnly))
}

// enforce kills containers that have not stopped in time after SIGTERM.
func (e *cluster) enforce(w *world) {
	for _, c := range e.containers {
		if c.stopped.IsZero() && !c.deadline.IsZero() && time.Now().After(c.deadline) {
			c.kill("it did not stop in time")
		}
	}
}

// tell delivers an event to functions/settle: in any order, late, twice.
func (e *cluster) tell(w *world) bool {
	if len(e.events) == 0 {
		return false
	}
	i := w.rng.IntN(len(e.events))
	ev := e.events[i]
	if !w.chance(200) {
		e.events = slices.Delete(e.events, i, i+1)
	}
	p, ctx := w.process("settle")
	e.settling = append(e.settling, p)
	w.note("%s hears that %s has stopped, of %s", p.name, ev.Runner, ev.Launch)
	go func() {
		ctx, stop := context.WithTimeout(ctx, invocationLimit)
		defer stop()
		_, err := orphan.Runs(ctx, summary.Keep(view{process: p}), ev.Stopped, p.now())
		_, _ = ask(ctx, p, terraform, "answers", func() (any, error) {
			p.dead = true
			e.settling = slices.DeleteFunc(e.settling, func(other *process) bool { return other == p })
			switch {
			case err != nil && ev.tries < 2:
				ev.tries++
				e.events = append(e.events, ev)
			case err == nil && !w.chance(100):
				w.invoke(reconcile.TickOptions{Ended: true})
			}
			return nil, nil
		})
	}()
	return true
}

func (e *cluster) killSettling() {
	for _, p := range e.settling {
		p.kill("the end")
	}
}

// main is what functions/runner does.
func (c *container) main(ctx context.Context) {
	var launch state.Stored[state.Launch]
	for range 3 {
		var err error
		if launch, err = state.Read[state.Launch](ctx, summary.Keep(view{process: c.process}), state.LaunchKey(c.launch)); err == nil {
			break
		}
	}
	c.who = "terrapulse-" + c.launch + "@" + c.id
	c.workAndLinger(ctx, launch.Data)
}

// work carries out the runs of a launch, and reports whether all ended well.
func (c *container) work(ctx context.Context, launch state.Launch) bool {
	b := slices.IndexFunc(bundles, func(b bundle) bool { return b.digest == launch.Bundle })
	if b < 0 {
		return false
	}
	var well atomic.Int32
	hand := &hand{process: c.process}
	r := &runner.Runner{Store: summary.Keep(view{process: c.process}), Source: new(overlay.Source), Logs: hand, Owner: "ecs-" + c.id, ID: c.id, Who: c.who, Claim: claim, Yields: true, Now: c.now, Log: nothing,
		Ended: func(run state.Run) {
			if run.State == state.RunSucceeded || run.State == state.RunSuperseded || run.State == state.RunWaiting {
				well.Add(1)
			}
		}}
	carryOut := r.Run
	if _, err := ask(ctx, c.process, bucket, "read bundle "+launch.Bundle, func() (any, error) { return nil, nil }); err != nil {
		carryOut = func(ctx context.Context, launch state.Launch, planned state.PlannedRun) error {
			return r.Refuse(ctx, launch, planned, err)
		}
	}
	r.Config = func() *config.Config { return bundles[b].config }
	r.Consul, r.Driver, r.Environ, r.Verify = eyes{process: c.process}, hand, environ.Shared, hand.verify
	var work sync.WaitGroup
	room := make(chan struct{}, parallel)
	for _, planned := range launch.Runs {
		room <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		work.Go(func() {
			defer func() { <-room }()
			c.heard(planned.Task, carryOut(ofRun(ctx, planned), launch, planned))
		})
	}
	work.Wait()
	return int(well.Load()) == len(launch.Runs)
}
