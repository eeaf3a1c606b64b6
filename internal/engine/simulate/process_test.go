package simulate

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// process is one function or container, with a clock of its own.
type process struct {
	*world
	id      int
	name    string
	skew    time.Duration
	cut     time.Time // until then it reaches nobody
	dead    bool
	freezes int            // how often it was frozen
	who     string         // names it in locks
	base    *config.Config // that a person's request goes by

	consulClient *consul.Client // in histories with documents

	frozen chan struct{} // closed when it goes on; nil if it is not frozen
	until  time.Time     // when it goes on
	paused bool          // it was frozen in the midst of an apply
	ahead  atomic.Int64  // of its clock, in nanoseconds, as long as that is wrong
	stop   context.CancelFunc
}

func (w *world) process(kind string) (*process, context.Context) {
	w.processes++
	ctx, stop := context.WithCancel(context.Background())
	p := &process{world: w, id: w.processes, name: fmt.Sprintf("%s-%03d", kind, w.processes), stop: stop}
	if w.weather.skew > 0 && w.home == inAWS {
		p.skew = time.Duration(w.rng.Int64N(int64(w.weather.skew))) - w.weather.skew/2
	}
	return p, ctx
}

// now is the time by the process's own clock.
func (p *process) now() time.Time {
	return time.Now().Add(p.skew + time.Duration(p.ahead.Load()+p.world.ahead.Load()))
}

// heard takes up the error of a run, which may ask a person for something.
func (p *process) heard(task string, err error) {
	if err == nil || !strings.Contains(err.Error(), "run the task once by hand") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead {
		p.judge.byHand[task] = true
	}
}

// kill ends the process without a word: nothing that it asks for from now on
// reaches anybody.
func (p *process) kill(why string) {
	if p.dead {
		return
	}
	p.note("%s is killed: %s", p.name, why)
	p.dead = true
	p.thaw()
	for _, r := range p.pending {
		if r.of == p {
			r.left = true
			r.answer <- errDead
		}
	}
	p.stop()
	p.ecs.died(p)
	p.judge.died(p.name)
	if p.home != inAWS { // its Terraform is gone with it, and so is the lock
		p.freeLocks(p)
	}
}

// freeze stops a process with all that it has started, as a paused machine does.
// Its clock goes on.
func (p *process) freeze(d time.Duration) {
	if p.dead || p.frozen != nil {
		return
	}
	p.frozen, p.until, p.paused = make(chan struct{}), time.Now().Add(d), true
	p.freezes++
	p.note("%s is frozen until %s", p.name, p.until.Format(time.TimeOnly))
}

// thaw has a frozen process go on.
func (p *process) thaw() {
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
		p.note("%s goes on", p.name)
	}
}

// awaitThaw returns when the process is not frozen.
func (p *process) awaitThaw() {
	for {
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen == nil {
			return
		}
		<-frozen
	}
}

// thawAll has those go on whose time has come.
func (w *world) thawAll(all bool) {
	for _, p := range w.freezable() {
		if p.frozen != nil && (all || !time.Now().Before(p.until)) {
			p.thaw()
		}
	}
}

// freezable returns the processes that may be frozen.
func (w *world) freezable() []*process {
	var alive []*process
	for _, c := range w.ecs.alive() {
		alive = append(alive, c.process)
	}
	for _, i := range w.instances {
		if !i.dead {
			alive = append(alive, i.process)
		}
	}
	return alive
}

// frost is a step in which an instance that carries out a run may be frozen for
// so long that another one finds the run lost and carries out the next one.
func (w *world) frost() {
	var at []*process
	frozen := false
	for _, p := range w.freezable() {
		frozen = frozen || p.frozen != nil
		if w.judge.applies(p) || w.judge.claims(p) {
			at = append(at, p)
		}
	}
	switch n := w.rng.IntN(100); {
	case len(w.running()) < 2:
		w.startInstance()
	case frozen || n < 30:
		w.sleep(time.Duration(w.rng.Int64N(int64(10 * time.Second))))
	case n < 60 && len(at) > 0:
		at[w.rng.IntN(len(at))].freeze(2*time.Minute + time.Duration(w.rng.Int64N(int64(2*time.Minute))))
		w.consul.change(w)
	case n < 80:
		w.consul.change(w)
	}
}

// freeze freezes a process for a while, rather one that applies something.
func (w *world) freeze() {
	alive := w.freezable()
	if len(alive) == 0 || !w.chance(w.weather.freezes) {
		return
	}
	p := alive[w.rng.IntN(len(alive))]
	for _, other := range alive {
		if w.judge.applies(other) {
			p = other
		}
	}
	most := 20 * time.Minute
	if w.home != inAWS {
		most = 2 * time.Minute
		if w.rng.IntN(2) == 0 { // also one that is about to apply something
			p = alive[w.rng.IntN(len(alive))]
		}
	}
	p.freeze(5*time.Second + time.Duration(w.rng.Int64N(int64(most))))
}
