package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
)

// clocksApart is how far two clocks are apart at most.
const clocksApart = 30 * time.Second

// nothing logs nothing.
var nothing = slog.New(slog.DiscardHandler)

// place is what a request goes to.
type place int

const (
	store place = iota
	consulServer
	ecsService
	bucket
	terraform
	people // who hear of events
	places // in every history

	hcpServer = places // in some
)

// world is everything that functions and containers share.
type world struct {
	rng     *rand.Rand
	faults  bool
	waits   []waited // all that there were
	plans   []plan   // all that waited for an approval
	ruled   bool     // tasks have rules
	removes bool     // removed tasks are destroyed
	lingers bool     // containers wait for more, in AWS
	remote  bool     // HCP Terraform applies what tasks need
	third   bool     // the same, but with the driver of package drivertest
	fleet   bool     // there are many tasks
	ordered bool     // tasks come after others
	shrinks bool     // services shrink in small steps
	// unverifies says that what was applied does not always work.
	unverifies bool
	partly     bool  // a replaced Consul takes something from tasks that need different approvals
	crosses    bool  // tasks are renamed, and people end what they like
	spoils     bool  // the summary is lost or damaged now and then
	absent     bool  // nobody approves or releases anything, once the faults have ended
	requested  *wish // what somebody requests in each tick; nil if nothing
	weather    weather

	mu      sync.Mutex // the scheduler's, but while it waits
	arrived []*request // since the last step
	pending []*request
	adrift  []*request // those that have an effect after all
	belated bool       // such a request has its effect now

	memory   memory
	consul   server
	deployed deployment
	ecs      cluster
	cloud    cloud
	pointer  int // the bundle that is to be in force

	pointerGone bool // somebody has removed the pointer from the bucket

	home      home
	ahead     atomic.Int64 // of the clock, in nanoseconds, that the processes of one machine share
	jumped    bool         // a clock was wrong
	instances []*instance
	functions []*function
	people    []*process
	processes int
	names     map[string]string // of random ids

	states  map[string]*tfstate // by task
	judge   judge
	applies int
	broken  string // the first thing that must not be
	trace   func(format string, args ...any)
	events  uint64 // a digest of what happened, in its order
}

// request is something that a process asks of the world.
type request struct {
	of     *process
	to     place
	label  string
	task   string // of the run that asks, if it is one
	effect func()
	answer chan error
	left   bool // nobody waits for the answer any more
	slow   bool // it takes its time
}

var (
	errDead    = errors.New("this process has been killed")
	errRefused = errors.New("rate exceeded")
	errLost    = errors.New("connection reset by peer")
)

// ask has a process ask for something, and wait for the answer.
func ask[T any](ctx context.Context, p *process, to place, label string, effect func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	got := new(result)
	task, _ := ctx.Value(taskKey{}).(string)
	err := p.submit(ctx, &request{of: p, to: to, label: label, task: task, answer: make(chan error, 1), slow: strings.HasPrefix(label, working) || strings.HasPrefix(label, interrupted),
		effect: func() { got.value, got.err = effect() }})
	if err != nil {
		var none T
		return none, err
	}
	return got.value, got.err
}

func (w *world) submit(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	if r.of.dead {
		w.mu.Unlock()
		return errDead
	}
	w.arrived = append(w.arrived, r)
	w.mu.Unlock()
	var err error
	select {
	case err = <-r.answer:
	case <-ctx.Done():
		w.mu.Lock()
		select {
		case err = <-r.answer: // what was answered has had its effect
		default:
			err, r.left = ctx.Err(), true
		}
		w.mu.Unlock()
	}
	r.of.awaitThaw()
	return err
}

// quiet waits until nobody moves, and takes up what they ask for.
func (w *world) quiet() {
	w.mu.Unlock()
	time.Sleep(time.Nanosecond) // Go orders timers of one moment at random: each step has another moment
	synctest.Wait()
	w.mu.Lock()
	// Who was faster is up to the machine: the order must not be. Ids sort by
	// the time of their making.
	slices.SortStableFunc(w.arrived, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.of.id, b.of.id), cmp.Compare(a.label, b.label), cmp.Compare(a.task, b.task))
	})
	w.pending = append(w.pending, w.arrived...)
	w.arrived = w.arrived[:0]
	w.pending = slices.DeleteFunc(w.pending, func(r *request) bool {
		if !r.left {
			return false
		}
		if w.chance(300) && r.to != terraform {
			w.adrift = append(w.adrift, r)
		}
		return true
	})
}

// chance is true in so many of a thousand cases, as long as there are faults.
func (w *world) chance(thousandths int) bool {
	return w.faults && thousandths > 0 && w.rng.IntN(1000) < thousandths
}

// note tells what happens.
func (w *world) note(format string, args ...any) {
	text := w.short(fmt.Sprintf(format, args...))
	h := fnv.New64a()
	fmt.Fprint(h, w.events, text)
	w.events = h.Sum64()
	if w.trace != nil {
		w.trace("%s  %s", time.Now().Format("02 15:04:05.000"), text)
	}
}

// violated notes the first thing that must not be.
func (w *world) violated(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.note("VIOLATED: %s", w.broken)
	}
}

// short names the random ids in a text in the order in which they turn up.
func (w *world) short(text string) string {
	for i := 0; i+36 <= len(text); i++ {
		id := text[i : i+36]
		if id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
			continue
		}
		name, known := w.names[id]
		if !known {
			name = fmt.Sprintf("#%d", len(w.names)+1)
			w.names[id] = name
		}
		text = text[:i] + name + text[i+36:]
	}
	return text
}

// serve answers a request, or does what else becomes of one.
func (w *world) serve(r *request) {
	w.pending = slices.DeleteFunc(w.pending, func(other *request) bool { return other == r })
	if w.trouble(r) {
		return
	}
	w.note("%s: %s", r.of.name, r.label)
	r.effect()
	r.answer <- nil
}

// step lets one thing happen.
func (w *world) step() {
	w.quiet()
	if (w.home == inAWS || w.crosses) && w.chance(w.weather.people) {
		w.somebody()
		return
	}
	if w.chance(15) {
		w.resume()
		return
	}
	if w.ruled && w.chance(w.attention()) {
		w.judges()
		return
	}
	if w.partly && w.judge.last.Replaced != nil && w.chance(40) {
		w.approveAll()
		return
	}
	if w.judge.pauses.some && w.chance(20) {
		w.pauseOrResume()
		return
	}
	if w.unverifies && w.chance(20) {
		w.attend()
		return
	}
	if w.remote && w.stepThere() {
		return
	}
	if w.lingers && w.chance(4) {
		w.deploy()
		return
	}
	if w.spoils && w.chance(15) {
		w.spoilSummary()
		return
	}
	if w.removes && w.chance(25) { // tasks come and go
		w.reconfigure()
		return
	}
	if w.ruled && w.chance(w.weather.replaces*w.consul.asked(w)) {
		w.consul.replace(w)
		return
	}
	if w.consul.docs != nil && w.chance(w.consul.docs.hides*w.consul.asked(w)) {
		w.consul.hide(w)
		return
	}
	if w.rng.IntN(100) < 80 {
		if r := w.next(); r != nil {
			w.serve(r)
			return
		}
	}
	if w.home != inAWS {
		w.stepLoop()
		return
	}
	if w.weather.storm && w.rng.IntN(4) > 0 {
		w.storm()
		return
	}
	switch n := w.rng.IntN(100); {
	case n < 22:
		w.invoke(reconcile.TickOptions{})
	case n < 26:
		w.invoke(reconcile.TickOptions{Ended: true})
	case n < 30:
		w.manual()
	case n < 46:
		w.consul.change(w)
	case n < 50:
		w.consul.weather(w)
	case n < 52:
		if w.pointerGone = w.chance(100); w.pointerGone {
			w.note("the pointer is removed")
			return
		}
		w.push()
	case n < 64:
		w.ecs.progress(w)
	case n < 72:
		w.ecs.tell(w)
	case n < 74:
		w.ecs.mishap(w)
	case n < 76 && len(w.adrift) > 0:
		i := w.rng.IntN(len(w.adrift))
		r := w.adrift[i]
		w.adrift = slices.Delete(w.adrift, i, i+1)
		w.note("%s: %s, at last", r.of.name, r.label)
		w.belated = true
		r.effect()
		w.belated = false
	case n < 79:
		w.ecs.cutOff(w)
		w.freeze()
		if n := len(w.functions); n > 0 {
			w.jump(w.functions[w.rng.IntN(n)].process)
		}
	case n < 80 && len(w.functions) > 0:
		w.functions[w.rng.IntN(len(w.functions))].kill("by chance")
	default:
		w.pass()
	}
}

// push has another bundle be put in force.
func (w *world) push() {
	if !w.stable() {
		w.pushed(w.someBundle())
	}
}

func (w *world) pushed(pointer int) {
	w.pointer = pointer
	w.judge.pushes = append(w.judge.pushes, bundles[w.pointer].digest)
	w.judge.redefines(bundles[w.pointer].config)
	w.note("bundle %s is pushed", bundles[w.pointer].digest)
}

// reconfigure changes the configuration.
func (w *world) reconfigure() {
	if w.home == inAWS {
		w.push()
		return
	}
	w.reload()
}

// storm is a step in which a process is more likely than usual to be left
// alone, and to be given up.
func (w *world) storm() {
	switch n := w.rng.IntN(100); {
	case n < 25:
		w.invoke(reconcile.TickOptions{Ended: true})
	case n < 35:
		w.consul.change(w)
	case n < 55:
		w.ecs.progress(w)
	case n < 60:
		w.ecs.tell(w)
	case n < 75 && len(w.judge.applying) > 0:
		w.ecs.cutOff(w)
		w.freeze()
	case slices.ContainsFunc(w.functions, func(f *function) bool { return f.busy }):
		if w.rng.IntN(4) == 0 {
			w.sleep(time.Duration(w.rng.Int64N(int64(5 * time.Second))))
		}
	default:
		w.sleep(time.Duration(w.rng.Int64N(int64(150 * time.Second)))) // not in whole seconds: two timers at one moment are in no order
	}
}

// next chooses a request to be answered, if one can be.
func (w *world) next() *request {
	if len(w.pending) == 0 {
		return nil
	}
	r := w.pending[w.rng.IntN(len(w.pending))]
	if r.of.frozen != nil {
		return nil
	}
	if w.faults && (r.slow && w.rng.IntN(100) < w.weather.slow || r.to != terraform && time.Now().Before(r.of.cut)) {
		return nil
	}
	return r
}

// pass lets time pass: mostly little, sometimes much.
func (w *world) pass() {
	d := time.Duration(w.rng.IntN(5000)) * time.Millisecond
	switch n := w.rng.IntN(1000); {
	case n < 5:
		d = 20*time.Hour + time.Duration(w.rng.IntN(10*3600))*time.Second
	case n < 50:
		d = time.Duration(w.rng.IntN(4000)) * time.Second
	case n < 250:
		d = time.Duration(w.rng.IntN(150)) * time.Second
	}
	w.sleep(d)
}

func (w *world) sleep(d time.Duration) {
	w.note("%s pass", d)
	for awake := w.faults && d < time.Hour && (len(w.judge.applying) > 0 || w.home != inAWS && d < 5*time.Minute) && w.rng.IntN(100) < w.weather.awake; d > 0; {
		some := d
		if awake {
			if some = min(d, claim/3); w.home != inAWS {
				some = min(d, 3*time.Second)
			}
		}
		w.mu.Unlock()
		time.Sleep(some)
		w.mu.Lock()
		w.quiet()
		w.thawAll(false)
		if d -= some; awake {
			w.renew()
		}
	}
	w.memory.expire(w)
	for _, f := range w.functions {
		if f.busy && time.Since(f.began) >= invocationLimit {
			f.kill("its time is up")
		}
	}
	w.functions = slices.DeleteFunc(w.functions, func(f *function) bool { return f.dead })
	w.ecs.enforce(w)
}

// renew answers those who renew their claims.
func (w *world) renew() {
	for _, r := range slices.Clone(w.pending) {
		if op := operation(r.label); (op == "claim" || op == "lead" && w.home != inAWS) && !time.Now().Before(r.of.cut) && !r.left && r.of.frozen == nil {
			w.serve(r)
		}
	}
}
