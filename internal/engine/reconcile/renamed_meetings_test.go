package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// TestRename_DuringAnOutageOfConsul renames a task while nothing can be read: what it is named now
// does not depend on what Consul shows.
func TestRename_DuringAnOutageOfConsul(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		renamed string
		code    state.ReasonCode // the new name's, during the outage
	}{
		"with moved_from":    {"edge<lb", state.ReasonUnreadable},
		"without moved_from": {"edge", state.ReasonRenamed},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Config = alike(t, dir, "lb")
			b.settle()
			b.launcher.forget()
			b.catalog.set("B", errors.New("no cluster leader"))
			b.inForce(alike(t, dir, test.renamed))
			if runs := b.launchedRuns(); len(runs) > 0 {
				t.Fatalf("runs during the outage: %v", runs)
			}
			if r := b.task("edge").Reason; r.Code != test.code {
				t.Errorf("during the outage: %+v", r)
			}

			b.catalog.set("B", nil)
			b.inForce(b.Config)
			if test.code == state.ReasonRenamed {
				b.waitsAs(map[string]string{"edge": "perhaps this is task lb under a new name", "lb": "nothing is destroyed"})
				b.inForce(alike(t, dir, "edge<lb"))
			}
			if run := b.runs("edge"); run == nil || run.Reason.Code != state.ReasonChanged || !slices.Equal(run.Moves.From, []string{"lb"}) || b.task("lb").Gone.MovedTo != "edge" {
				t.Errorf("after the outage, the run is %+v, the former name has %+v", run, b.task("lb"))
			}
		})
	}
}

// TestRename_OfATaskThatCannotBeReadFindsAReplacedConsul renames a task that is the only one that
// cannot be read when Consul is replaced: its loss is held under the new name.
func TestRename_OfATaskThatCannotBeReadFindsAReplacedConsul(t *testing.T) {
	for _, said := range []bool{true, false} {
		all := tasks(2)
		all[0].MovedFrom = nil
		readsAPI(all[1:])
		b := newBench(t, all...)
		b.catalog.identity = oldConsul
		b.settle()
		b.appliedWith(all...)
		b.Consul = denied{b.catalog}
		b.now = b.now.Add(refreshEvery)
		b.tick()
		b.launcher.forget()

		is := all[1]
		if is.Name = "new"; said {
			is.MovedFrom = []string{"task-1"}
		}
		b.catalog.identity = newConsul
		b.catalog.set("B", nil)
		b.now = b.now.Add(time.Minute)
		b.reload(all[0], is)
		b.approveAll()
		b.tick()
		if runs := b.launchedRuns(); len(runs) != 1 || runs["task-0"] != 1 {
			t.Fatalf("runs: %v", runs)
		}
		b.end(state.RunSucceeded, "B")
		b.Consul = b.catalog
		b.launcher.forget()
		for range 3 {
			b.now = b.now.Add(refreshEvery)
			b.tick()
		}
		if is.MovedFrom = []string{"task-1"}; !said {
			if r := b.task("new").Reason; r.Code != state.ReasonRenamed {
				t.Errorf("before a person says what it is: %+v", r)
			}
			b.reload(all[0], is)
			b.tick()
		}
		if r := b.task("new").Reason; r.Code != state.ReasonReplaced || len(b.launchedRuns()) > 0 {
			t.Errorf("moved_from at once %v: %+v, runs %v", said, r, b.launchedRuns())
		}
		b.approveAll()
		b.tick()
		if run := b.runs("new"); run == nil || !slices.Equal(run.Moves.From, []string{"task-1"}) || b.record().Replaced != nil {
			t.Errorf("moved_from at once %v, after the approval: %+v, %+v", said, run, b.record().Replaced)
		}
	}
}

// TestRename_ScheduledTaskKeepsWhatItsRunWasBegunFor renames a task that runs once a week while the
// run of this week waits: another run follows under the new name, and not only next week.
func TestRename_ScheduledTaskKeepsWhatItsRunWasBegunFor(t *testing.T) {
	for name, before := range map[string]func(*bench){
		"its plan waits":       func(*bench) {},
		"its plan is approved": func(b *bench) { b.must(b.people().Approve(b.t.Context(), "task-0", "", ann, "")) },
		"Consul is away":       func(b *bench) { b.catalog.set("B", errors.New("no cluster leader")) },
	} {
		t.Run(name, func(t *testing.T) {
			b, run := scheduledPlan(t)
			before(b)
			is := weekly()[0]
			is.Name, is.MovedFrom = "new", []string{"task-0"}
			b.reload(is)
			b.now = b.now.Add(time.Minute)
			b.tick()
			b.catalog.set("B", nil)
			b.now = b.now.Add(time.Minute)
			b.tick()
			if got := b.runs("new"); got == nil || !slices.Equal(got.Moves.From, []string{"task-0"}) || b.run(run).Data.State != state.RunSuperseded {
				t.Fatalf("the run of the new name is %+v: %+v; that of the former one is %s", got, b.task("new").Reason, b.run(run).Data.State)
			}
			b.end(state.RunSucceeded, "B")
			b.tickAfterEnd()
			if next := b.task("new").Due; next.Sub(b.now) < 24*time.Hour {
				t.Errorf("applied, it is due again at %s", next)
			}
		})
	}
}

// ofOneShape are tasks that are renamed all at once, and differ in their variables only: any new one may be any
// removed one. It returns the names before, and the tick and the records that are compared.
func ofOneShape(t testing.TB, n int) (was []string, of *tick, states map[string]state.Stored[state.Task]) {
	b := newBench(t, tasks(n)...)
	b.must(b.Prepare(t.Context(), ""))
	states = map[string]state.Stored[state.Task]{}
	for i := range n {
		name := fmt.Sprintf("was-%05d", i)
		states[name] = state.Stored[state.Task]{Record: state.Record{Key: state.TaskKey(name), Version: "1"}, Data: state.Task{Applied: state.Applied{At: noon}, Naming: state.Naming{Shape: b.tasks[0].shape}}}
		was = append(was, name)
	}
	return was, &tick{Reconciler: b.Reconciler, tasks: b.tasks}, states
}

// BenchmarkRenames compares thousands of tasks.
func BenchmarkRenames(b *testing.B) {
	_, of, states := ofOneShape(b, 2000)
	for b.Loop() {
		if _, err := of.stored(b.Context(), states, noon); err != nil {
			b.Fatal(err)
		}
	}
	if took := b.Elapsed() / time.Duration(b.N); took > 2*time.Second {
		b.Errorf("comparing took %s, bound 2s", took)
	}
}

// A record names some of them only. All of them are kept, and no new one begins to run by itself.
func TestRename_OfManyTasksOfOneShape(t *testing.T) {
	was, of, states := ofOneShape(t, 200)
	for _, half := range []bool{false, true} {
		inputs, err := of.stored(t.Context(), states, noon.Add(24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range inputs[:len(of.tasks)] {
			if got := in.State.Unclear(nil); len(got) != state.MaxRenamed {
				t.Fatalf("task %s was perhaps one of %d tasks", in.Task.Name, len(got))
			}
			states[in.Task.Name] = state.Stored[state.Task]{Record: state.Record{Key: state.TaskKey(in.Task.Name), Version: "1"}, Data: in.State}
		}
		for _, in := range inputs[len(of.tasks):] {
			if in.Kept == "" && states[in.Task.Name].Data.Gone.MovedTo == "" {
				t.Fatalf("nothing keeps %s from being destroyed", in.Task.Name)
			}
		}
		if half {
			continue
		}
		for _, name := range was[:state.MaxRenamed] { // a person says what has become of those that the records name
			moved := states[name]
			moved.Data = state.Task{Gone: state.Gone{MovedTo: "another"}}
			states[name] = moved
		}
	}
}
