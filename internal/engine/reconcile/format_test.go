package reconcile

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// upgrade has a newer version of Terrapulse write a record.
func (b *bench) upgrade(key string) {
	b.t.Helper()
	rec, err := b.store.Get(b.t.Context(), key)
	if err != nil {
		b.t.Fatal(err)
	}
	value := bytes.Replace(rec.Value, []byte(`"format":1`), []byte(`"format":2`), 1)
	if _, err := b.store.Apply(b.t.Context(), state.Replace(rec, value)); err != nil {
		b.t.Fatal(err)
	}
}

func TestNewerRecord_StopsEverythingBeforeItWrites(t *testing.T) {
	for name, key := range map[string]func(*bench, state.PlannedRun) string{
		"of a tick":   func(*bench, state.PlannedRun) string { return state.ReconcileKey },
		"of a task":   func(*bench, state.PlannedRun) string { return state.TaskKey("task-0") },
		"of a run":    func(_ *bench, p state.PlannedRun) string { return state.RunKey("task-0", p.ID) },
		"of a launch": func(b *bench, p state.PlannedRun) string { return state.LaunchKey(b.run(p).Data.Launch) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tasks(2)...)
			b.tick()
			launch := b.launcher.launches()[0]
			planned := launch.Runs[0]
			held, err := b.acquire(t.Context())
			b.must(err)
			key := key(b, planned)
			b.upgrade(key)
			b.launcher.forget() // so that the tick reads the run and its launch
			b.now = b.now.Add(time.Second)
			before, err := b.store.List(t.Context(), "task/")
			b.must(err)
			b.store.Reset()

			of := func(what string, err error) {
				t.Helper()
				if !errors.As(err, new(*state.NewerError)) || !strings.Contains(err.Error(), "upgrade this process") || !strings.Contains(err.Error(), key) {
					t.Errorf("%s returns %v", what, err)
				}
				if n := b.store.Writes.Load(); n != 0 {
					t.Errorf("%s writes %d times", what, n)
				}
			}
			_, err = b.Tick(t.Context(), TickOptions{Lease: held, Ended: true})
			of("a tick", err)
			people := b.people()
			switch name {
			case "of a run", "of a launch":
				_, err = orphan.Runs(t.Context(), b.store, orphan.Stopped{Launch: launch.ID, Why: "it stopped"}, b.now)
				of("settle", err)
			default:
				_, err = people.Force(t.Context(), "task-0", "Jo")
				of("a request", err)
			}
			if name != "of a launch" {
				_, err = people.Cancel(t.Context(), "task-0", "Jo")
				of("a cancellation", err)
				b.Config.Tasks = b.Config.Tasks[1:]
				of("forget", people.Forget(t.Context(), "task-0", "somebody"))
			}
			after, err := b.store.List(t.Context(), "task/")
			b.must(err)
			if len(after) != len(before) {
				t.Errorf("%d tasks of %d are left", len(after), len(before))
			}
		})
	}
}

func TestNewerRecord_EndsTheLoop(t *testing.T) {
	for _, key := range []string{"lease/" + state.LeaderLease, state.ReconcileKey} {
		b := newBench(t, tasks(1)...)
		b.settle()
		b.upgrade(key)
		loop := &Loop{Reconciler: b.Reconciler, Watch: func(context.Context, consul.GateSet, consul.Marks) Watch { return noWatch{} }}
		if err := loop.Run(t.Context()); !errors.As(err, new(*state.NewerError)) {
			t.Errorf("%s: the loop ends with %v", key, err)
		}
	}
}

func TestNewerRecord_OfTheLeaseStopsATickBeforeItWrites(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.upgrade("lease/" + state.LeaderLease)
	b.catalog.set("B", nil)
	written := 0 // what the store refuses is not
	b.store.After = func([]state.Change) error { written++; return nil }
	_, err := b.Tick(t.Context(), TickOptions{})
	if !errors.As(err, new(*state.NewerError)) || errors.As(err, new(*lease.HeldError)) || written != 0 {
		t.Errorf("the tick writes %d times and returns %v", written, err)
	}
}

// noWatch shows nothing.
type noWatch struct{}

func (noWatch) C() <-chan struct{}           { return nil }
func (noWatch) Marks() (consul.Marks, error) { return nil, nil }

func TestNewerRecord_OfAnOverrideIsNotReset(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	_, err := b.people().SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{})
	b.must(err)
	b.upgrade(state.OverrideKey("task-0"))
	if _, err := b.people().Reset(t.Context()); !errors.As(err, new(*state.NewerError)) {
		t.Errorf("reset returns %v", err)
	}
	if _, err := b.store.Get(t.Context(), state.OverrideKey("task-0")); err != nil {
		t.Errorf("the override: %v", err)
	}
}
