package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/state"
)

// These tests run in a bubble whose clock moves when everything waits: hours
// pass at once, and what is measured is exact.

// gates is a Watch whose marks follow the catalog.
type gates struct {
	c    chan struct{}
	keys []string

	mu   sync.Mutex
	mark string
	err  error
}

func (g *gates) C() <-chan struct{} { return g.c }

func (g *gates) Marks() (consul.Marks, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	marks := consul.Marks{}
	if g.err == nil {
		for _, key := range g.keys {
			marks[key] = g.mark
		}
	}
	return marks, g.err
}

// show moves the gates and tells it.
func (g *gates) show(mark string, err error) {
	g.mu.Lock()
	g.mark, g.err = mark, err
	g.mu.Unlock()
	select {
	case g.c <- struct{}{}:
	default:
	}
}

// loopBench is a bench with a Loop, on the clock of the bubble.
type loopBench struct {
	*bench
	Loop  *Loop
	gates *gates
	ended chan struct{}
	stop  context.CancelFunc
	done  chan struct{} // closed when Run has returned
	stood []string      // who was found to lead
}

func newLoopBench(t *testing.T, tasks ...config.Task) *loopBench {
	t.Helper()
	b := newBench(t, tasks...)
	b.Reconciler.Now = time.Now
	return b.loop(b.Reconciler)
}

// stoodBy is a log that notes who is found to lead.
type stoodBy struct {
	slog.Handler
	of *loopBench
}

func (stoodBy) Enabled(context.Context, slog.Level) bool { return true }

func (s stoodBy) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if r.Message == "standing by" && a.Key == "leader" {
			s.of.stood = append(s.of.stood, a.Value.String())
		}
		return true
	})
	return nil
}

// loop returns a Loop around the reconciler.
func (b *bench) loop(r *Reconciler) *loopBench {
	l := &loopBench{bench: b, gates: &gates{c: make(chan struct{}, 1), mark: "A"}, ended: make(chan struct{}, 1)}
	r.Log = slog.New(stoodBy{slog.DiscardHandler, l})
	l.Loop = &Loop{Reconciler: r, Ended: l.ended,
		Watch: func(_ context.Context, set consul.GateSet, _ consul.Marks) Watch {
			l.gates.keys = set.Keys()
			l.gates.show("A", nil)
			return l.gates
		},
	}
	return l
}

// start runs the loop until the test ends.
func (l *loopBench) start() {
	ctx, stop := context.WithCancel(l.bench.t.Context())
	l.stop, l.done = stop, make(chan struct{})
	go func() {
		defer close(l.done)
		if err := l.Loop.Run(ctx); err != nil {
			l.bench.t.Error(err)
		}
	}()
	l.bench.t.Cleanup(l.end)
	synctest.Wait()
}

// end tells the loop to stop and waits for it.
func (l *loopBench) end() {
	l.stop()
	<-l.done
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// finish ends the runs under way with what Consul shows, and tells the loop.
func (l *loopBench) finish() {
	l.bench.t.Helper()
	l.bench.now = time.Now()
	l.bench.end(state.RunSucceeded, l.catalog.digest)
	l.launcher.forget()
	select {
	case l.ended <- struct{}{}:
	default:
	}
	synctest.Wait()
}

// change makes Consul show something else, and the gates with it.
func (l *loopBench) change(digest string) {
	l.catalog.set(digest, nil)
	l.gates.show(digest, nil)
	synctest.Wait()
}

// launched returns the tasks that were launched.
func (l *loopBench) launched() []string {
	var names []string
	for _, launch := range l.launcher.launches() {
		for _, run := range launch.Runs {
			names = append(names, run.Task)
		}
	}
	return names
}

func TestWhoStandsByTakesOverWhenTheLeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newLoopBench(t, tasks(2)...)
		first.start()
		other := first.another(first.Config.Tasks)
		other.Now = time.Now
		second := first.loop(other)
		second.start()
		pass(time.Minute)
		if len(second.stood) != 1 || second.stood[0] != first.Owner {
			t.Fatalf("told to stand by for %v, want once for %s", second.stood, first.Owner)
		}
		first.finish()
		first.end()
		pass(second.LeaseTTL / 4)
		if got := first.launched(); len(got) != 2 {
			t.Errorf("launched by the second: %v, want each task once", got)
		}
		if held, err := lease.Read(t.Context(), first.store, state.LeaderLease); err != nil || held.Owner != other.Owner || held.Fence != 2 {
			t.Errorf("the lease reads %+v (%v)", held, err)
		}
	})
}

// However long a lease lasts, nobody waits for it who need not.
func TestALongLeaseDelaysNothingButATakeoverFromTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newLoopBench(t, tasks(1)...)
		first.LeaseTTL = time.Hour
		first.start()
		other := first.another(first.Config.Tasks)
		other.Now, other.LeaseTTL = time.Now, time.Hour
		second := first.loop(other)
		second.start()
		first.finish()
		pass(time.Minute)

		first.bench.now = time.Now()
		first.must(first.people().Force(t.Context(), "task-0", "another instance"))
		pass(10 * time.Second)
		if got := first.launched(); len(got) != 1 {
			t.Fatalf("what another instance was asked for: launched %v", got)
		}
		first.finish()
		first.end()
		pass(10 * time.Second)
		if held, err := lease.Read(t.Context(), first.store, state.LeaderLease); err != nil || held.Owner != other.Owner {
			t.Errorf("the leader has stopped, and the lease reads %+v (%v)", held, err)
		}
	})
}

// deaf is a store that, once it is so, answers no write before its context ends.
type deaf struct {
	state.Store
	now atomic.Bool
}

func (d *deaf) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if d.now.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return d.Store.Apply(ctx, changes...)
}

func TestALeaderEndsSoonThoughTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		store := &deaf{Store: b.store}
		b.Loop.Store = store
		b.start()
		b.finish()
		store.now.Store(true)
		told := time.Now()
		b.end()
		if took := time.Since(told); took >= 10*time.Second {
			t.Errorf("it ended after %s", took)
		}
	})
}

func TestWhoStandsByTakesOverWhenTheLeaderWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		if _, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "killed", lease.Options{TTL: b.LeaseTTL, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		b.start()
		pass(b.LeaseTTL - time.Second)
		if len(b.launched()) != 0 {
			t.Fatal("it took over before the lease was over")
		}
		pass(b.LeaseTTL)
		if len(b.launched()) != 1 {
			t.Fatal("it has not taken over within twice the lease's time")
		}
	})
}

func TestWhoStandsByEndsWhenToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		if _, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "another", lease.Options{TTL: time.Hour, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		b.start()
		pass(time.Second)
		b.end()
		if len(b.launched()) != 0 {
			t.Error("it acted without the lease")
		}
	})
}

func TestALeaderThatLostItsLeaseStops(t *testing.T) {
	for name, notice := range map[string]func(*loopBench){
		"when it decides": func(b *loopBench) { b.change("B") },
		"when it renews":  func(b *loopBench) { pass(b.LeaseTTL / 2); b.change("B") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newLoopBench(t, tasks(1)...)
				b.start()
				b.finish()
				rec, err := b.store.Get(t.Context(), "lease/"+state.LeaderLease)
				if err != nil {
					t.Fatal(err)
				}
				taken := state.Encode(lease.Holder{Owner: "another", Fence: 2, Expires: time.Now().Add(time.Minute), TTL: time.Minute})
				if _, err := b.store.Apply(t.Context(), state.Replace(rec, taken)); err != nil {
					t.Fatal(err)
				}
				notice(b)
				if got := b.launched(); len(got) != 0 {
					t.Errorf("it launched %v", got)
				}
				if len(b.stood) != 1 || b.stood[0] != "another" {
					t.Errorf("it stands by for %v", b.stood)
				}
				pass(2 * time.Minute) // the other was killed: it leads again, and finds the change
				if got := b.launched(); len(got) != 1 {
					t.Errorf("leading again, it launched %v", got)
				}
			})
		})
	}
}

func TestALeaderThatLostItsLeaseStopsThoughNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		b.Witness, b.OneClock = new(lease.Witness), true
		b.start()
		b.finish()
		b.bench.now = time.Now().Add(time.Hour) // by another's clock the lease is long over
		if _, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "another",
			lease.Options{TTL: time.Hour, Now: func() time.Time { return b.bench.now }}); err != nil {
			t.Fatal(err)
		}
		pass(b.LeaseTTL)
		if len(b.stood) != 1 || b.stood[0] != "another" {
			t.Errorf("it stands by for %v", b.stood)
		}
	})
}

func TestALeaderGoesOnThroughShortFailuresOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		failing := &failingStore{Store: b.store}
		b.Loop.Store = failing
		b.start()
		b.finish()
		for range 20 { // each shorter than the lease
			failing.set(errors.New("database is locked"))
			pass(4 * time.Second)
			failing.set(nil)
			pass(4 * time.Second)
		}
		if held, err := lease.Read(t.Context(), b.store, state.LeaderLease); err != nil || held.Fence != 1 {
			t.Errorf("the lease reads %+v (%v)", held, err)
		}
		b.change("B")
		if got := b.launched(); len(got) != 1 {
			t.Errorf("launched %v", got)
		}
	})
}

// failingStore fails while it is told to.
type failingStore struct {
	state.Store
	mu  sync.Mutex
	err error
}

func (f *failingStore) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// failures counts the ticks that failed, by what is logged.
type failures struct {
	mu sync.Mutex
	n  int
}

func (f *failures) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.Contains(string(line), "msg=tick ") {
		f.n++
	}
	return len(line), nil
}

func (f *failures) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

func (f *failingStore) Get(ctx context.Context, key string) (state.Record, error) {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return state.Record{}, err
	}
	return f.Store.Get(ctx, key)
}

func (f *failingStore) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	// The lease is another matter: here it can be renewed.
	if err != nil && changes[0].Key != "lease/"+state.LeaderLease {
		return nil, err
	}
	return f.Store.Apply(ctx, changes...)
}

func TestTicksThatFailBecomeRarerWhateverTheGatesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		failing := &failingStore{Store: b.store}
		b.Loop.Store = failing
		failed := &failures{}
		b.Loop.Log = slog.New(slog.NewTextHandler(failed, nil))
		b.start()
		b.finish()
		failing.set(errors.New("disk I/O error"))
		for range 3000 {
			pass(100 * time.Millisecond) // five minutes in all, in a busy datacenter
			b.gates.show(time.Now().String(), nil)
		}
		if n := failed.count(); n < 10 || n > 20 {
			t.Errorf("%d ticks in five minutes", n)
		}
		failing.set(nil)
		b.change("B")
		pass(failedTickMax)
		if got := b.launched(); len(got) != 1 {
			t.Errorf("after the failure it launched %v", got)
		}
	})
}

func TestTheEndOfARunIsLookedAtAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(2)...)
		b.start()
		b.catalog.set("B", nil) // while the runs are under way, and no gate told
		b.bench.now = time.Now()
		b.bench.end(state.RunSucceeded, "A")
		b.launcher.forget()
		b.ended <- struct{}{}
		synctest.Wait()
		if got := b.launched(); len(got) != 2 {
			t.Errorf("launched %v, want both tasks once more for what changed meanwhile", got)
		}
	})
}

// partly is a Consul of which one query is never answered.
type partly struct {
	*catalog
	closed string // id of the query
}

func (p partly) Observe(ctx context.Context, queries []consul.Query) []consul.Answer {
	answers := p.catalog.Observe(ctx, queries)
	for i, q := range queries {
		if q.ID() == p.closed {
			answers[i] = consul.Answer{Err: errors.New("permission denied")}
		}
	}
	return answers
}

func TestATaskThatCannotBeReadDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed, open := *webTask(), *webTask()
		closed.Name = "closed"
		closed.Condition.Spec = condition.Services{{Names: []string{"secret"}}}
		b := newLoopBench(t, closed, open)
		query, _ := consul.ConditionQuery(&closed)
		b.Loop.Consul = partly{b.catalog, query.ID()}
		b.start()
		b.finish()
		pass(10 * time.Minute) // ticks are rare by now
		b.store.Writes.Store(0)
		b.change("B")
		pass(4 * time.Second)
		if got := b.launched(); len(got) != 0 {
			t.Fatalf("launched %v before the buffer period is over", got)
		}
		pass(time.Second)
		if got := b.launched(); !slices.Equal(got, []string{"web"}) {
			t.Errorf("launched %v, want web when its buffer period is over", got)
		}
		if got := b.task("closed"); got.Reason.Code != state.ReasonUnreadable || got.Forced != "start" {
			t.Errorf("the other task reads %+v", got)
		}
	})
}

func TestAnOutageOfConsulIsSatOutQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(50)...)
		b.start()
		b.finish()
		outage := errors.New("connection refused")
		b.catalog.set("A", outage)
		b.gates.show("", outage)
		pass(time.Hour)
		// The lease is renewed; of the tasks nothing is written any more.
		b.store.Writes.Store(0)
		b.store.Reads.Store(0)
		pass(time.Hour)
		renewals := int64(time.Hour/(b.LeaseTTL/3)) + 2
		if n := b.store.Writes.Load(); n > renewals {
			t.Errorf("%d writes in an hour, %d of them renewals", n, renewals)
		}
		if got := b.launched(); len(got) != 0 {
			t.Errorf("launched %v", got)
		}
		b.change("B")
		if got := b.launched(); len(got) != 50 {
			t.Errorf("after the outage %d tasks were launched at once", len(got))
		}
	})
}

func TestEachTaskRunsAtTheStartAlsoWhereItsRecordWasJustChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(3)...)
		b.bench.now = time.Now()
		b.settle() // all is applied: only the start asks for runs
		b.launcher.forget()
		b.Loop.Store = &meddler{Store: b.store, key: state.TaskKey("task-1")}
		b.start()
		pass(2 * failedTickWait)
		got := b.launched()
		if slices.Sort(got); !slices.Equal(got, []string{"task-0", "task-1", "task-2"}) {
			t.Errorf("launched %v, want each once", got)
		}
	})
}

func TestALaunchThatFailsAtTheStartDoublesNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(3)...)
		b.launcher.refuse(errors.New("no answer"))
		b.start()
		b.launcher.refuse(nil)
		pass(2 * failedTickWait)
		b.finish()
		pass(time.Hour)
		if got := b.launched(); len(got) != 0 {
			t.Errorf("launched once more: %v", got)
		}
	})
}

// mute is a store that answers nothing for as long as one waits for it.
type mute struct{ state.Store }

func (mute) Get(ctx context.Context, _ string) (state.Record, error) {
	select {
	case <-ctx.Done():
		return state.Record{}, context.Cause(ctx)
	case <-time.After(10 * time.Second):
		return state.Record{}, errors.New("no answer within 10s")
	}
}

func TestNobodyWaitsForWhatAStoreDoesNotAnswerAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBench(t).people()
		c.Store = mute{c.Store}
		began := time.Now()
		var people sync.WaitGroup
		for range 20 {
			people.Go(func() {
				if err := c.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer") {
					t.Errorf("told %v", err)
				}
			})
		}
		people.Wait()
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("told after %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		people.Go(func() { _ = c.Tick(t.Context()) })
		synctest.Wait()
		began = time.Now()
		if err := c.Tick(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
			t.Errorf("who has gone is told %v after %s", err, time.Since(began))
		}
		people.Wait()
	})
}

// echo is a store whose writes move the gates a little later: so it is with one
// in Consul's KV, where all keys are behind one gate.
type echo struct {
	state.Store
	heard  func()
	writes atomic.Int64
}

func (e *echo) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	written, err := e.Store.Apply(ctx, changes...)
	if err == nil && e.writes.Add(1) < 2000 { // enough to tell
		time.AfterFunc(100*time.Millisecond, e.heard)
	}
	return written, err
}

func TestWhatALeaderWritesDoesNotKeepItWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(2)...)
		var moves atomic.Int64
		store := &echo{Store: b.store, heard: func() { b.gates.show(fmt.Sprint("move ", moves.Add(1)), nil) }}
		b.Loop.Store = store
		b.start()
		b.finish()
		pass(time.Second)
		before := store.writes.Load()
		const spell = 6 * time.Minute
		pass(spell)
		renewals, notes := int64(spell/(b.Loop.LeaseTTL/3))+1, int64(spell/refreshEvery)+1
		if n := store.writes.Load() - before; n > renewals+notes {
			t.Errorf("%d writes in %s, want %d to renew the lease and %d to say that all is well", n, spell, renewals, notes)
		}
		rec, err := state.Read[state.Reconcile](t.Context(), b.store, state.ReconcileKey)
		if err != nil {
			t.Fatal(err)
		}
		if ago := time.Since(rec.Data.LastSuccess); ago > refreshEvery {
			t.Errorf("that all is well was noted %s ago", ago)
		}
		launched := len(b.launched())
		b.change("B")
		if n := len(b.launched()) - launched; n != 2 {
			t.Errorf("a change launched %d runs, want 2", n)
		}
	})
}
