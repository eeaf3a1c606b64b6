package simulate

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/environ"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// home is where the engine runs.
type home int

const (
	inAWS home = iota
	oneMachine
	inCluster
)

// How `terrapulse start` runs the engine on one machine and in a cluster.
const (
	localLease   = 10 * time.Second
	sessionTTL   = 15 * time.Second
	clusterLease = 155 * sessionTTL / 100
	clusterSkew  = 5 * time.Second

	mostInstances = 3

	// maxAhead is how far a wrong clock is ahead at most.
	maxAhead = 7 * time.Hour
)

// instance is a process of `terrapulse start`.
type instance struct {
	*process
	config  atomic.Int64 // index in bundles
	reloads chan reconcile.Reload
	sent    chan struct{} // closed when the latest of them was received
	engine  *reconcile.Reconciler
	shared  *launch.Shared  // in a cluster
	version string          // of its Terraform
	worked  map[string]bool // with what, until now
	term    context.CancelFunc
	alive   context.Context
}

// startInstance starts a process with a Loop.
func (w *world) startInstance() {
	p, ctx := w.process("instance")
	working, term := context.WithCancel(ctx)
	i := &instance{process: p, reloads: make(chan reconcile.Reload), sent: closed(), worked: map[string]bool{}, term: term, alive: ctx}
	i.config.Store(int64(w.pointer))
	w.instances = append(w.instances, i)
	if i.version = "terraform 1"; w.shares() && w.chance(150) {
		i.version = "terraform 2"
	}
	w.note("%s starts, with %s", p.name, i.version)

	a := &act{}
	hand := &hand{process: p}
	r := &runner.Runner{Config: func() *config.Config { return bundles[i.config.Load()].config }, Source: new(overlay.Source), Store: summary.Keep(view{process: p}), Logs: hand,
		Consul: eyes{process: p}, Driver: hand, Environ: environ.Shared, Verify: hand.verify, Owner: p.name, Claim: localLease, Now: p.now, Log: nothing}
	far := p.newFar()
	if w.remote {
		r.Driver = far
	}
	var background sync.WaitGroup
	r.Background = func(run state.Run, work func(context.Context) error) {
		background.Go(func() { p.heard(run.Task, work(context.WithValue(working, taskKey{}, run.Task))) })
	}
	engine := *engines[w.pointer]
	i.engine = &engine
	engine.Bundle, engine.Owner, engine.LeaseTTL, engine.Skew, engine.Now = "", p.name, localLease, 0, p.now
	engine.Witness, engine.OneClock, engine.Source = new(lease.Witness), true, r.Source
	if w.remote {
		engine.Remote = far
	}
	if w.home == inCluster {
		r.Claim, r.Yields = sessionTTL, true
		engine.LeaseTTL, engine.Skew, engine.OneClock = clusterLease, clusterSkew, false
	}
	atOnce := parallel
	if w.shares() {
		r.Instance = p.name
		atOnce = 1 // so that launches wait, and others take them
	}
	local := launch.NewLocal(working, atOnce, nothing, func(ctx context.Context, l state.Launch, run state.PlannedRun) error {
		err := r.Run(ofRun(ctx, run), l, run)
		p.heard(run.Task, err)
		return err
	})
	engine.Store, engine.Consul, engine.Launcher, engine.Sinks = summary.Keep(view{process: p, act: a}), eyes{p, a}, local, func() []outbox.Sink { return []outbox.Sink{sink{p}} }
	serving, unshare := context.WithCancel(ctx)
	if w.shares() {
		i.share(serving, local, &engine)
	}
	loop := &reconcile.Loop{Reconciler: &engine, Ended: local.Ended(), Reload: i.reloads,
		Watch: func(ctx context.Context, gates consul.GateSet, since consul.Marks) reconcile.Watch {
			if w.consul.docs != nil {
				return eyes{process: p}.watchDocuments(ctx, gates, since)
			}
			w := watch{eyes{process: p}, ctx, gates, make(chan struct{}, 1), consul.Marks{}}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.consul.watches = append(p.consul.watches, w.moved)
			return w
		}}
	go func() {
		_ = loop.Run(working)
		local.Close()
		local.Wait()
		unshare()
		background.Wait()
		engine.DeliverRest(ctx)
		_, _ = ask(ctx, p, terraform, "exits", func() (any, error) {
			p.dead = true
			w.judge.died(p.name)
			p.stop()
			return nil, nil
		})
	}()
}

// running returns the instances that run.
func (w *world) running() []*instance {
	w.instances = slices.DeleteFunc(w.instances, func(i *instance) bool { return i.dead })
	return w.instances
}

// stepLoop is a step outside of AWS.
func (w *world) stepLoop() {
	if w.weather.frost && w.rng.IntN(8) > 0 {
		w.frost()
		return
	}
	running := w.running()
	n := w.rng.IntN(100)
	if len(running) == 0 || n < 8 && len(running) < mostInstances {
		w.startInstance()
		return
	}
	some := running[w.rng.IntN(len(running))]
	switch {
	case n < 11:
		if w.chance(300) {
			some.kill("by chance")
		}
	case n < 14:
		w.note("%s gets SIGTERM", some.name)
		some.term()
	case n < 30:
		w.consul.change(w)
	case n < 34:
		w.consul.weather(w)
	case n < 38:
		w.reload()
	case n < 48:
		w.freeze()
	case n < 56 && w.home == inCluster:
		if w.chance(w.weather.cuts) {
			some.cut = time.Now().Add(time.Duration(w.rng.Int64N(int64(3 * time.Minute))))
			w.note("%s reaches nobody until %s", some.name, some.cut.Format(time.TimeOnly))
		}
	case n < 60:
		w.jump(some.process)
	default:
		w.pass()
	}
}

// reload has every instance read other files.
func (w *world) reload() {
	if !w.stable() {
		w.reloaded(w.someBundle())
	}
}

func (w *world) reloaded(pointer int) {
	w.pointer = pointer
	w.judge.removal.moves++
	w.judge.redefines(bundles[w.pointer].config)
	w.note("the files are those of %s", bundles[w.pointer].digest)
	for _, i := range w.running() {
		var late time.Duration
		if w.shares() && w.chance(200) {
			late = time.Duration(w.rng.Int64N(int64(latest)))
			w.note("%s reads them after %s", i.name, late)
		} else {
			i.config.Store(int64(w.pointer))
		}
		pointer, files := w.pointer, reconcile.Reload{Config: bundles[w.pointer].config}
		before, sent := i.sent, make(chan struct{})
		i.sent = sent
		go func() {
			defer close(sent)
			reads := late == 0 || i.readsLate(late, pointer)
			select {
			case <-before: // one goroutine reads the files
			case <-i.alive.Done():
				return
			}
			if !reads {
				return
			}
			select {
			case i.reloads <- files:
			case <-i.alive.Done():
			}
		}()
	}
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// jump puts a clock ahead, or sets it right. The processes of one machine share it.
func (w *world) jump(p *process) {
	clock := &p.ahead
	if w.home == oneMachine {
		clock = &w.ahead
	}
	switch {
	case clock.Load() != 0:
		clock.Store(0)
	case w.chance(w.weather.jumps):
		clock.Store(int64(time.Hour) + w.rng.Int64N(int64(maxAhead-time.Hour)))
		w.jumped = true
	default:
		return
	}
	w.note("the clock of %s is %s ahead", p.name, time.Duration(clock.Load()))
}

// settleLoop lets the faults end outside of AWS.
func (w *world) settleLoop() {
	for began := time.Now(); time.Since(began) < settleWithin && w.broken == ""; {
		if len(w.running()) == 0 { // the last one got SIGTERM
			w.startInstance()
		}
		w.resumeAll()
		w.agree()
		if w.unhindered(5 * time.Second); w.unsettled() == "" {
			return
		}
	}
}
