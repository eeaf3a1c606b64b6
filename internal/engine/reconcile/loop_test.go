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

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

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
	if strings.Contains(string(line), `msg="tick failed"`) {
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

func TestLoop_FailedTicksBackOffWhateverTheGatesDo(t *testing.T) {
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

func TestLoop_ConfigurationIsReadWhileTicksFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		failing, reload := &failingStore{Store: b.store}, make(chan Reload)
		b.Loop.Store, b.Loop.Reload = failing, reload
		b.start()
		b.finish()
		failing.set(errors.New("the record is too large"))
		b.change("B")
		pass(5 * time.Minute) // ticks are rare by now
		began := time.Now()
		select {
		case reload <- Reload{Config: &config.Config{Tasks: tasks(2)}}:
		case <-time.After(time.Hour):
		}
		if waited := time.Since(began); waited > 0 {
			t.Fatalf("the new configuration was not read within %s", waited)
		}
		failing.set(nil)
		pass(failedTickMax)
		if got := b.launched(); !slices.Equal(got, []string{"task-0", "task-1"}) {
			t.Errorf("launched %v", got)
		}
	})
}

func TestLoop_EndOfARunIsFollowedByATick(t *testing.T) {
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

func TestLoop_UnreadableTaskDelaysNoOther(t *testing.T) {
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
		if got := b.task("closed"); got.Reason.Code != state.ReasonUnreadable {
			t.Errorf("the other task reads %+v", got)
		}
	})
}

func TestLoop_ConsulOutageIsLoggedOnce(t *testing.T) {
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

func TestLoop_EveryNewTaskRunsAtStartAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(3)...)
		b.Loop.Store = &meddler{Store: b.store, key: state.TaskKey("task-1")}
		b.start()
		pass(2 * failedTickWait)
		got := b.launched()
		if slices.Sort(got); !slices.Equal(got, []string{"task-0", "task-1", "task-2"}) {
			t.Errorf("launched %v, want each once", got)
		}
	})
}

func TestLoop_FailedLaunchAtStartDoublesNoRun(t *testing.T) {
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

func TestControl_UnansweredRequestDelaysNoOther(t *testing.T) {
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

func TestLoop_OwnWritesCauseNoTick(t *testing.T) {
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
