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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/reconcile"
)

const (
	// clocksApart is how far two clocks are apart at most.
	clocksApart = 30 * time.Second

	// settleWithin is how long after the end of all faults everything must be
	// applied. The longest waits are the backoff of a task that kept failing
	// and that of a launch that nobody knows any more, 15 minutes each.
	settleWithin = 40 * time.Minute
)

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
	places
)

// weather is how likely which fault is in a history, in thousandths. Every
// history has its own, for what never happens gives room to what else may.
type weather struct {
	dies    [2]int // before a request has reached its place, and after
	refused [places]int
	lost    [places]int // the answer, after the effect
	late    [places]int // the effect, after the one who asked has given up
	unread  int         // a view
	stale   int         // a read of Consul
	still   int         // a change that no gate tells of
	skew    time.Duration
	lag     time.Duration // of what ECS shows
	memory  time.Duration // of ECS for client tokens
	torn    int           // a list, read in two
	cuts    int           // from the network, of what could be one
	slow    int           // in hundredths: how often Terraform does not come on
	people  int           // how often somebody asks for something
}

// world is everything that functions and containers share.
type world struct {
	rng     *rand.Rand
	faults  bool
	weather weather

	mu      sync.Mutex // the scheduler's, but while it waits
	arrived []*request // since the last step
	pending []*request
	adrift  []*request // those that have an effect after all

	memory  memory
	consul  server
	ecs     cluster
	pointer int // the bundle that is to be in force

	pointerGone bool // somebody has removed the pointer from the bucket

	functions []*function
	people    []*process
	processes int
	names     map[string]string // of random ids

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

// process is one function or container, with a clock of its own.
type process struct {
	*world
	id   int
	name string
	skew time.Duration
	cut  time.Time // until then it reaches nobody
	dead bool
	stop context.CancelFunc
}

func (w *world) process(kind string) (*process, context.Context) {
	w.processes++
	ctx, stop := context.WithCancel(context.Background())
	p := &process{world: w, id: w.processes, name: fmt.Sprintf("%s-%03d", kind, w.processes), stop: stop}
	if w.weather.skew > 0 {
		p.skew = time.Duration(w.rng.Int64N(int64(w.weather.skew))) - w.weather.skew/2
	}
	return p, ctx
}

// now is the time by the process's own clock.
func (p *process) now() time.Time { return time.Now().Add(p.skew) }

// working is what Terraform asks for as long as it works.
const working = "terraform works"

// kill ends the process without a word: nothing that it asks for from now on
// reaches anybody.
func (p *process) kill(why string) {
	if p.dead {
		return
	}
	p.note("%s is killed: %s", p.name, why)
	p.dead = true
	for _, r := range p.pending {
		if r.of == p {
			r.left = true
			r.answer <- errDead
		}
	}
	p.stop()
	p.ecs.died(p)
}

// ask has a process ask for something, and wait for the answer.
func ask[T any](ctx context.Context, p *process, to place, label string, effect func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	got := new(result)
	err := p.submit(ctx, &request{of: p, to: to, label: label, answer: make(chan error, 1), slow: label == working,
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
	select {
	case err := <-r.answer:
		return err
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		r.left = true
		return ctx.Err()
	}
}

// quiet waits until nobody moves, and takes up what they ask for.
func (w *world) quiet() {
	w.mu.Unlock()
	synctest.Wait()
	w.mu.Lock()
	// Who was faster is up to the machine: the order must not be. Ids sort by
	// the time of their making.
	slices.SortStableFunc(w.arrived, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.of.id, b.of.id), cmp.Compare(a.label, b.label))
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

// trouble reports whether a request has come to a bad end.
func (w *world) trouble(r *request) bool {
	switch t := w.weather; {
	case !w.faults || r.to == terraform && !w.chance(100):
		return false
	case w.chance(t.dies[0]):
		r.answer <- errDead
		r.of.kill("before " + r.label)
	case w.chance(t.dies[1]):
		w.note("%s: %s, its last", r.of.name, r.label)
		r.effect()
		r.answer <- errDead
		r.of.kill("after " + r.label)
	case r.to == terraform:
		return false
	case w.chance(t.refused[r.to]):
		w.note("%s: %s, refused", r.of.name, r.label)
		r.answer <- errRefused
	case w.chance(t.late[r.to]):
		w.note("%s: %s, adrift", r.of.name, r.label)
		w.adrift = append(w.adrift, r)
		r.answer <- errLost
	case w.chance(t.lost[r.to]):
		w.note("%s: %s, answer lost", r.of.name, r.label)
		r.effect()
		r.answer <- errLost
	default:
		return false
	}
	return true
}

// step lets one thing happen.
func (w *world) step() {
	w.quiet()
	if w.chance(w.weather.people) {
		w.somebody()
		return
	}
	if w.rng.IntN(100) < 80 {
		if r := w.next(); r != nil {
			w.serve(r)
			return
		}
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
		w.pointer = w.rng.IntN(len(bundles))
		w.judge.pushes = append(w.judge.pushes, bundles[w.pointer].digest)
		w.note("bundle %s is pushed", bundles[w.pointer].digest)
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
		r.effect()
	case n < 79:
		w.ecs.cutOff(w)
	case n < 80 && len(w.functions) > 0:
		w.functions[w.rng.IntN(len(w.functions))].kill("by chance")
	default:
		w.pass()
	}
}

// next chooses a request to be answered, if one can be.
func (w *world) next() *request {
	if len(w.pending) == 0 {
		return nil
	}
	r := w.pending[w.rng.IntN(len(w.pending))]
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
	w.mu.Unlock()
	time.Sleep(d)
	w.mu.Lock()
	w.quiet()
	w.memory.expire(w)
	for _, f := range w.functions {
		if f.busy && time.Since(f.began) >= invocationLimit {
			f.kill("its time is up")
		}
	}
	w.functions = slices.DeleteFunc(w.functions, func(f *function) bool { return f.dead })
	w.ecs.enforce(w)
}

// settle lets the faults end: before long, all is applied.
func (w *world) settle() (took time.Duration) {
	w.note("the faults end")
	w.faults = false
	w.consul.clear(w)
	w.ecs.capacity, w.pointerGone = true, false
	w.adrift = nil
	began, before := time.Now(), w.applies
	for time.Since(began) < settleWithin && w.broken == "" {
		idle := w.invoke(reconcile.TickOptions{})
		w.minute()
		if idle.report.Idle && idle.err == nil && w.unsettled() == "" {
			break
		}
	}
	took = time.Since(began)
	if why := w.unsettled(); why != "" {
		w.violated("no change is lost: %s after the last fault %s", took, why)
	} else if took >= settleWithin {
		w.violated("an idle tick only reads: with all applied there is still something to do")
	}
	if n, tasks := w.applies-before, len(w.judge.configuration(bundles[w.pointer].digest).Tasks); n > 4*tasks+len(services) { // some may have been deleted since they were decided
		w.violated("without faults %d runs were needed for %d tasks", n, tasks)
	}
	return took
}

// minute lets everybody work for a minute, unhindered.
func (w *world) minute() {
	for until := time.Now().Add(time.Minute); time.Now().Before(until) && w.broken == ""; {
		w.quiet()
		if r := w.next(); r != nil {
			w.serve(r)
			continue
		}
		if w.ecs.progress(w) || w.ecs.tell(w) {
			continue
		}
		step := time.Until(until)
		if w.ecs.busy() {
			step = min(step, 5*time.Second)
		}
		w.sleep(step)
	}
}

// outcome is what came of a history.
type outcome struct {
	broken  string
	took    time.Duration // for all to be applied after the faults
	applies int
	events  uint64
}

// history makes the history of a seed.
func history(t *testing.T, seed uint64, trace func(string, ...any)) (out outcome) {
	synctest.Test(t, func(*testing.T) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 4711)), faults: true, names: map[string]string{}, trace: trace}
		w.mu.Lock()
		w.weather = w.drawWeather()
		w.memory.init()
		w.consul.init()
		w.ecs.init()
		w.judge.init()
		for range 50 + w.rng.IntN(350) {
			if w.step(); w.broken != "" {
				break
			}
		}
		if w.broken == "" {
			out.took = w.settle()
		}
		out.broken, out.applies, out.events = w.broken, w.applies, w.events
		w.end()
	})
	return out
}

// drawWeather draws how likely which fault is.
func (w *world) drawWeather() weather {
	rate := func(rates ...int) int { return rates[w.rng.IntN(len(rates))] }
	t := weather{
		dies: [2]int{rate(0, 2, 10), rate(0, 2, 10)},
		skew: time.Duration(rate(0, 10, 30)) * clocksApart / 30, lag: time.Duration(rate(0, 3, 20)) * time.Second,
		memory: time.Duration(rate(1, 24)) * time.Hour,
		unread: rate(0, 50, 200), stale: rate(0, 50), still: rate(0, 500), torn: rate(0, 200),
		cuts: rate(0, 300, 1000), slow: rate(50, 95), people: rate(0, 10, 30),
	}
	if *forgetful {
		t.memory = time.Duration(rate(0, 2, 60)) * time.Minute
	}
	for p := range places {
		t.refused[p], t.lost[p], t.late[p] = rate(0, 20, 60), rate(0, 20, 60), rate(0, 10, 30)
	}
	return t
}

// end kills whoever is still there, and gives them the time to notice.
func (w *world) end() {
	w.faults = false
	w.quiet()
	defer func() {
		w.mu.Unlock()
		time.Sleep(time.Hour)
	}()
	for _, f := range w.functions {
		f.kill("the end")
	}
	for _, c := range w.ecs.containers {
		if c.process != nil {
			c.kill("the end")
		}
	}
	w.ecs.killSettling()
	w.killPeople()
}
