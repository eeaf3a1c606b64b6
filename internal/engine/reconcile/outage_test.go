package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// watching is a bench with 15 tasks, each of which has a service of a real Consul, whose gates
// are watched.
type watching struct {
	*bench
	server *consultest.Server
	watch  *consul.Watch
	events *recorder
}

func newWatching(t *testing.T) *watching {
	t.Helper()
	all := tasks(15)
	server := consultest.Start(t)
	for i := range all {
		name := fmt.Sprintf("web-%d", i)
		all[i].Condition.Spec = condition.Services{{Names: []string{name}}}
		if err := server.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: name, Port: 80}); err != nil {
			t.Fatal(err)
		}
	}
	b := newBench(t, all...)
	client, err := consul.New(config.Consul{Address: server.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	b.Consul, b.Windowed = client, true
	if err := b.Prepare(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return &watching{b, server, client.Watch(t.Context(), b.watched, nil), b.recording()}
}

// tickWatched ticks with what the watch shows, as a leader does.
func (w *watching) tickWatched() Report {
	w.t.Helper()
	marks, failed := w.watch.Marks()
	report, err := w.Tick(w.t.Context(), TickOptions{Marks: marks, GatesErr: failed})
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// until waits until some, or all, gates show something or cannot be read.
func (w *watching) until(what string, is func(failed int) bool) {
	w.t.Helper()
	for range 600 {
		marks, err := w.watch.Marks()
		failed, unread := 0, 0
		for key, mark := range marks {
			if consul.GateError(err, key) != nil {
				failed++
			}
			if mark == "" {
				unread++
			}
		}
		if unread == 0 && is(failed) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Fatal("waited too long: " + what)
}

// heardAbout returns the kinds of the events about Consul and about what can be read, with how
// many tasks they concern.
func (w *watching) heardAbout() (kinds []string) {
	for _, e := range w.events.got {
		if e.Kind.About().Subject == outbox.Consul || strings.HasSuffix(string(e.Kind), "readable") {
			kinds = append(kinds, fmt.Sprintf("%s %d", e.Kind, e.Count))
		}
	}
	w.events.got = nil
	return kinds
}

// TestTick_DeadConsulIsUnhealthyAndNoTaskIsUnreadable checks an outage of half an hour: the watch
// keeps the marks of the gates, and the tasks become due.
func TestTick_DeadConsulIsUnhealthyAndNoTaskIsUnreadable(t *testing.T) {
	w := newWatching(t)
	w.until("the gates can be read", func(failed int) bool { return failed == 0 })
	w.tickWatched()
	w.end("succeeded", "A")
	w.tickWatched()
	w.heardAbout()

	w.server.Stop()
	w.until("the outage is seen", func(failed int) bool { return failed == w.watched.Len() })
	for range 10 {
		w.tickWatched()
		w.now = w.now.Add(3 * time.Minute)
	}
	rec := w.reconcileRecord()
	if sick := overview.Unhealthy(w.store, rec, noon, rec.Since.Add(121*time.Second)); !rec.ConsulUnreachable || !strings.HasPrefix(sick, "Consul cannot be watched since ") {
		t.Errorf("two minutes after the outage began, health says %q", sick)
	}
	if before := noon.Sub(rec.Since); before < 0 || before > 30*time.Second { // the first request that failed
		t.Errorf("the first tick of the outage is at %s, and the outage since %s", noon, rec.Since)
	}
	if rec.Concerned != 15 {
		t.Errorf("the outage concerns %d tasks", rec.Concerned)
	}
	if got := w.heardAbout(); !slices.Equal(got, []string{"consul_lost 15"}) {
		t.Errorf("the events are %v, want one", got)
	}

	w.server.Restart() // without its data: the tasks see that their services are gone
	w.until("the outage is over", func(failed int) bool { return failed == 0 })
	w.tickWatched()
	if rec := w.reconcileRecord(); rec.ConsulError != "" || overview.Unhealthy(w.store, rec, noon, w.now) != "" {
		t.Errorf("after the outage: %+v", rec)
	}
	if got := w.heardAbout(); len(got) == 0 || got[0] != "consul_found 15" || strings.Contains(fmt.Sprint(got), "readable") {
		t.Errorf("the events are %v", got)
	}
}

// TestTick_ConsulThatDiesBetweenGatesAndReadsIsAnOutage checks a tick whose gates could still be
// read.
func TestTick_ConsulThatDiesBetweenGatesAndReadsIsAnOutage(t *testing.T) {
	w := newWatching(t)
	w.until("the gates can be read", func(failed int) bool { return failed == 0 })
	marks, err := w.watch.Marks()
	if err != nil {
		t.Fatal(err)
	}
	w.server.Stop()
	if _, err := w.Tick(t.Context(), TickOptions{Marks: marks}); err != nil {
		t.Fatal(err)
	}
	if got := w.heardAbout(); !slices.Equal(got, []string{"consul_lost 15"}) {
		t.Errorf("the events are %v, want one", got)
	}
	if rec := w.reconcileRecord(); !rec.ConsulUnreachable || rec.Unreadable != nil {
		t.Errorf("the record is %+v", rec)
	}
}

// What is released, or resumed, while nothing of Consul can be read waits for Consul: a run would only fail.
func TestOutage_TaskThatIsReleasedWaitsForConsul(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.must(b.people().Hold(t.Context(), "task-0", "ann", "maintenance"))
	b.catalog.set("B", nil)
	b.tick()
	b.launcher.forget()
	b.catalog.set("B", errors.New("connection refused"))
	b.must(b.people().Release(t.Context(), "task-0", "ann"))
	for range 3 {
		b.tick()
		b.now = b.now.Add(time.Minute)
	}
	if runs, r := b.launchedRuns(), b.task("task-0").Reason; len(runs) > 0 || r.Code != state.ReasonUnreadable {
		t.Errorf("during the outage it has %d runs, and says %+v", len(runs), r)
	}
	b.catalog.set("B", nil)
	b.tick()
	if n := b.launchedRuns()["task-0"]; n != 1 {
		t.Errorf("after the outage it has %d runs, and says %+v", n, b.task("task-0").Reason)
	}
}

// So does a plan that is approved: its run reads Consul again before it applies anything.
func TestOutage_PlanThatIsApprovedWaitsForConsul(t *testing.T) {
	b, run := waiting(t, planned)
	b.catalog.set("A", errors.New("connection refused"))
	b.must(b.people().Approve(t.Context(), "task-0", "", ann, "go"))
	for range 3 {
		b.tick()
		b.now = b.now.Add(time.Minute)
	}
	if got, r := b.run(run).Data, b.task("task-0").Reason; got.State != state.RunWaiting || b.begun("task-0") != 0 || r.Code != state.ReasonUnreadable {
		t.Errorf("during the outage the run is %s, %d launches began, and the task says %+v", got.State, b.begun("task-0"), r)
	}
	b.catalog.set("A", nil)
	b.tick()
	if got := b.run(run).Data; got.State != state.RunIntended || b.begun("task-0") != 1 || got.Approval == nil || got.Approval.By != "ann" {
		t.Errorf("after the outage the run is %s with the approval %+v, %d launches began, and the task says %+v", got.State, got.Approval, b.begun("task-0"), b.task("task-0").Reason)
	}
}

// Gates that a watch holds open fail one after the other when Consul dies, in any order.
func TestOutage_GatesThatFailOneByOneAreUnhealthyAfterTwoMinutes(t *testing.T) {
	for first := range 3 {
		b := newBench(t, tasks(1)...)
		b.Windowed = true
		b.settle()
		marks, err := b.Consul.Poll(t.Context(), b.watched)
		if err != nil || len(marks) != 3 {
			t.Fatalf("the gates show %v, %v", marks, err)
		}
		port := 40000
		tick := func(fails func(gate int) bool) Report {
			t.Helper()
			errs := make([]error, b.watched.Len())
			for gate := range errs {
				if port += first; fails(gate) { // an error with a port is another text each time
					errs[gate] = fmt.Errorf("127.0.0.1:%d: connection reset", port)
				}
			}
			report, err := b.Tick(t.Context(), TickOptions{Marks: marks, GatesErr: b.watched.Failed(errs)})
			if err != nil {
				t.Fatal(err)
			}
			b.now = b.now.Add(5 * time.Second)
			return report
		}
		tick(func(int) bool { return false })
		tick(func(gate int) bool { return gate == first })
		if rec := b.reconcileRecord(); rec.ConsulError == "" || rec.ConsulUnreachable {
			t.Errorf("with gate %d away: %+v", first, rec.Sight)
		}
		tick(func(gate int) bool { return gate != (first+1)%3 })
		gone := b.now
		tick(func(int) bool { return true })
		version := func() string {
			rec, err := state.ReadReconcile(t.Context(), b.store)
			b.must(err)
			return rec.Version
		}
		written := version()
		for b.now.Before(gone.Add(2*time.Minute + time.Second)) {
			if report := tick(func(int) bool { return true }); !report.Idle || version() != written {
				t.Errorf("a tick of the outage writes: %+v", b.reconcileRecord().Sight)
			}
		}
		if rec := b.reconcileRecord(); overview.Unhealthy(b.store, rec, noon, b.now) == "" || !rec.Since.Equal(gone) {
			t.Errorf("two minutes after the last of the gates failed, gate %d first: healthy with %+v", first, rec.Sight)
		}
		tick(func(gate int) bool { return gate != first })
		if rec := b.reconcileRecord(); rec.ConsulUnreachable {
			t.Errorf("with gate %d back: %+v", first, rec.Sight)
		}
	}
}

// A Consul that hangs, or whose host vanishes without a reset, ends no connection: the outage counts since
// the requests that it left open, not since they timed out.
func TestOutage_SilentConsulIsUnhealthyAfterTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, tasks(1)...)
		b.Windowed = true
		b.now = time.Now()
		b.settle()
		client, err := consul.New(config.Consul{Address: "127.0.0.1:1"})
		b.must(err)
		silent := time.Now().Add(time.Minute)
		watch := client.Over(consultest.FallsSilent{From: silent}).Watch(t.Context(), b.watched, nil)
		for time.Now().Before(silent.Add(2*time.Minute + time.Second)) {
			b.now = time.Now()
			marks, failed := watch.Marks()
			_, err := b.Tick(t.Context(), TickOptions{Marks: marks, GatesErr: failed})
			b.must(err)
			if rec := b.reconcileRecord(); b.now.Before(silent.Add(time.Minute)) && overview.Unhealthy(b.store, rec, b.now, b.now) != "" {
				t.Fatalf("%s after Consul fell silent: %+v", b.now.Sub(silent), rec.Sight)
			}
			select {
			case <-watch.C():
			case <-time.After(5 * time.Second):
			}
		}
		if rec := b.reconcileRecord(); overview.Unhealthy(b.store, rec, b.now, silent.Add(2*time.Minute+time.Second)) == "" {
			t.Errorf("two minutes after Consul fell silent: healthy with %+v", rec.Sight)
		}
	})
}
