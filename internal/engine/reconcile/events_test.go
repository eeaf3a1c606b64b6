package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// recorder is a sink.
type recorder struct {
	got    []outbox.Event
	before func(outbox.Event) error // called first; may be nil
}

func (r *recorder) Name() string { return "recorder" }

func (r *recorder) Deliver(_ context.Context, e outbox.Event) error {
	if r.before != nil {
		if err := r.before(e); err != nil {
			return err
		}
	}
	r.got = append(r.got, e)
	return nil
}

// messages returns the events since it was last called that people hear of.
func (r *recorder) messages() []outbox.Event {
	all := slices.DeleteFunc(r.got, func(e outbox.Event) bool {
		return e.Quiet || e.Kind.Step() || e.Kind.About().Subject == outbox.Configuration
	})
	r.got = nil
	return all
}

// heard returns the kinds of the events since it was last called, each with its
// detail, error or cause.
func (r *recorder) heard() string {
	var all []string
	for _, e := range r.got {
		text := string(e.Kind)
		if words := e.Detail + e.Error + e.Cause; words != "" {
			text += fmt.Sprintf("(%s)", words)
		}
		all = append(all, text)
	}
	r.got = nil
	return strings.Join(all, " ")
}

// recording adds a recorder to the reconciler's sinks.
func (b *bench) recording() *recorder {
	r := &recorder{}
	b.Sinks = func() []outbox.Sink { return []outbox.Sink{r} }
	return r
}

func TestTick_EachTransitionIsDeliveredOnce(t *testing.T) {
	b := newBench(t, tasks(1)...)
	events := b.recording()
	expect := func(when, want string) {
		t.Helper()
		if got := events.heard(); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	b.tick()
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()
	expect("first run", "run_decided(the task has never been applied) configuration_in_force")

	b.catalog.set("B", nil)
	b.tick()
	expect("change", "change_seen(service instances: +B) run_decided(service instances: +B)")
	b.launcher.status = map[string]LaunchStatus{b.task("task-0").Run.Launch: {Stopped: "its container was killed"}}
	b.now = b.now.Add(liveCheck)
	b.tick()
	expect("loss", "run_lost(its container was killed) run_decided(the run before was lost: its container was killed)")
	b.end(state.RunSucceeded, "B")
	b.now = b.now.Add(liveCheck)
	b.tick()

	b.catalog.set("B", errors.New("permission denied"))
	b.now = b.now.Add(refreshEvery)
	b.tick()
	expect("outage", "consul_lost(permission denied)")
	b.catalog.set("B", nil)
	b.tick()
	expect("end of the outage", "consul_found")

	b.Refused = &state.Refused{Error: "task block is wrong", Since: b.now}
	b.tick()
	b.tick()
	expect("wrong files", "configuration_refused(task block is wrong)")
	b.Refused, b.Config, b.effective = nil, &config.Config{KeepRemoved: keptRemoved}, nil
	b.tick()
	expect("a task is missing", "configuration_in_force")
	b.removed()
	b.tick()
	expect("removal", "task_removed(its state is workspace task-0 of backend )")
	b.now = b.now.Add(keptRemoved)
	b.tick()
	expect("end of its records", "task_forgotten")
}

func TestTick_OneTaskThatCannotBeReadIsAnEvent(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	events := b.recording()
	b.Reconciler.Consul = unreadable{b.catalog}
	b.now = b.now.Add(refreshEvery)
	b.tick()
	b.tick()
	b.Reconciler.Consul = b.catalog
	b.now = b.now.Add(refreshEvery)
	b.tick()
	if got := events.heard(); got != "task_unreadable(permission denied) tasks_unreadable(permission denied) task_readable tasks_readable" {
		t.Errorf("the events are %s", got)
	}
}

// TestTick_TasksThatCannotBeReadForOneCauseAreOneMessage checks a token that loses its rights for
// a while, and a task that is added meanwhile.
func TestTick_TasksThatCannotBeReadForOneCauseAreOneMessage(t *testing.T) {
	all := tasks(30)
	b := newBench(t, all[:15]...)
	b.settle()
	events := b.recording()
	b.Reconciler.Consul = unreadable{b.catalog}
	for range 4 {
		b.now = b.now.Add(refreshEvery)
		b.tick()
	}
	if got := events.messages(); len(got) != 1 || got[0].Kind != outbox.TasksUnreadable || got[0].Count != 15 || len(got[0].Tasks) != 15 || got[0].Error != "permission denied" {
		t.Errorf("people hear %+v", got)
	}
	b.Config, b.effective = &config.Config{Tasks: all[:16], KeepRemoved: keptRemoved}, nil
	b.tick()
	if got := events.messages(); len(got) != 1 || got[0].Kind != outbox.TasksUnreadable || got[0].Count != 1 || got[0].Tasks[0] != "task-15" {
		t.Errorf("of another task, people hear %+v", got)
	}
	b.Reconciler.Consul = b.catalog
	for range 2 {
		b.now = b.now.Add(refreshEvery)
		b.tick()
	}
	if got := events.messages(); len(got) != 1 || got[0].Kind != outbox.TasksReadable || got[0].Count != 16 || !got[0].Since.Before(got[0].At.Add(-3*refreshEvery)) {
		t.Errorf("when they can be read again, people hear %+v", got)
	}
}

// unreadable is a Consul that denies every view, and no gate.
type unreadable struct{ *catalog }

func (u unreadable) Observe(ctx context.Context, queries []consul.Query) []consul.Answer {
	answers := make([]consul.Answer, len(queries))
	for i := range answers {
		answers[i].Err = errors.New("permission denied")
	}
	return answers
}

// A peer that does not answer is found task by task, if ticks come meanwhile.
func TestTick_OutageOfAPeerThatTicksFindTaskByTaskIsOneMessage(t *testing.T) {
	b := newBench(t, tasks(15)...)
	b.settle()
	events := b.recording()
	peers := silentPeers{catalog: b.catalog}
	b.Reconciler.Consul = &peers
	for _, peers.east = range []int{3, 6, 9} {
		b.now = b.now.Add(refreshEvery)
		b.tick()
	}
	if got := events.messages(); len(got) != 1 || got[0].Count != 3 || got[0].Error != "east does not answer" {
		t.Errorf("people hear %+v", got)
	}
	peers.west = 6
	b.now = b.now.Add(refreshEvery)
	b.tick()
	if got := events.messages(); len(got) != 1 || got[0].Count != 6 || got[0].Error != "west does not answer" {
		t.Errorf("of another outage, people hear %+v", got)
	}
}

// silentPeers is a Consul with two peers that do not answer: so many first and last views are theirs.
type silentPeers struct {
	*catalog
	east, west int
}

func (p *silentPeers) Observe(ctx context.Context, queries []consul.Query) []consul.Answer {
	answers := p.catalog.Observe(ctx, queries)
	for i := range answers {
		switch {
		case i < p.east:
			answers[i] = consul.Answer{Err: fault.As(fault.Transient, errors.New("east does not answer"))}
		case i >= len(answers)-p.west:
			answers[i] = consul.Answer{Err: fault.As(fault.Transient, errors.New("west does not answer"))}
		}
	}
	return answers
}

func TestTick_EventsAreDeliveredAfterTheLaunchesAreStarted(t *testing.T) {
	b := newBench(t, tasks(60)...)
	events := b.recording()
	started := 0
	events.before = func(outbox.Event) error { started = len(b.launcher.started); return nil }
	b.tick()
	if started != 3 {
		t.Errorf("%d of 3 launches were started when the last event was delivered", started)
	}
}

func TestTick_LaunchOfLostRunsIsOneWriteWithOneRecordOfEvents(t *testing.T) {
	b := newBench(t, tasks(25)...)
	b.settle()
	b.catalog.set("B", nil)
	b.tick()
	events := b.recording()
	b.launcher.status = map[string]LaunchStatus{b.task("task-0").Run.Launch: {Stopped: "its container was killed"}}
	b.now = b.now.Add(liveCheck)
	writes := &widest{Store: b.store}
	b.Reconciler.Store = writes
	report := b.tick()
	if writes.changes > state.MaxChanges || writes.outbox != 1 {
		t.Errorf("a write has up to %d changes, %d of them of the outbox", writes.changes, writes.outbox)
	}
	if n := len(report.Launches[0].Runs); n != 19 {
		t.Errorf("the first launch has %d runs, want 19", n)
	}
	seen := map[string]string{}
	for _, e := range events.got {
		seen[e.Task] += string(e.Kind) + " "
	}
	for name, kinds := range seen {
		if kinds != "run_lost run_decided " {
			t.Errorf("the events of %s are %s", name, kinds)
		}
	}
	if len(seen) != 25 {
		t.Errorf("there are events of %d tasks", len(seen))
	}
}

// widest notes the most changes of an Apply that writes events.
type widest struct {
	state.Store
	changes, outbox int
}

func (w *widest) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	n := 0
	for _, c := range changes {
		if c.Op == state.OpCreate && strings.HasPrefix(c.Key, outbox.Prefix) {
			n++
		}
	}
	if n > 0 {
		w.changes, w.outbox = max(w.changes, len(changes)), max(w.outbox, n)
	}
	return w.Store.Apply(ctx, changes...)
}

func TestTick_EventsThatASinkDidNotTakeAreDeliveredLater(t *testing.T) {
	b := newBench(t, tasks(1)...)
	events := b.recording()
	fault := errors.New("no answer")
	events.before = func(outbox.Event) error { return fault }
	report := b.tick()
	b.end(state.RunSucceeded, "A")
	if wait := report.Due.Sub(b.now); wait != failedTickWait {
		t.Errorf("the next tick is due in %s", wait)
	}
	b.now = b.now.Add(liveCheck)
	b.tick()
	b.tick()
	events.before = nil
	b.store.Reset()
	if b.tick(); b.store.Writes.Load() > 0 && len(events.got) == 0 {
		t.Error("a tick writes although nothing is due")
	}
	b.now = b.now.Add(failedTickMax)
	b.tick()
	if got := events.heard(); got != "run_decided(the task has never been applied) configuration_in_force" {
		t.Errorf("the events are %s", got)
	}
	b.store.Reset()
	if report := b.tick(); !report.Idle || b.store.Reads.Load() != 1 {
		t.Errorf("with all delivered the next tick is idle: %v, after %d reads", report.Idle, b.store.Reads.Load())
	}
}

func TestTick_SinkThatHangsTakesABoundedTimeAndThenRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopBench(t, tasks(1)...)
		hanging := &hanging{}
		l.Sinks = func() []outbox.Sink { return []outbox.Sink{hanging} }
		tick := func(want time.Duration, wantTries int) {
			t.Helper()
			began := time.Now()
			if _, err := l.Reconciler.Tick(t.Context(), TickOptions{Ended: true}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want || hanging.tries != wantTries {
				t.Errorf("the tick took %s, after %d tries; want %s and %d", took, hanging.tries, want, wantTries)
			}
		}
		tick(deliveryTime, 1)
		tick(0, 1)
		pass(time.Second)
		tick(deliveryTime, 2)
		tick(0, 2)
	})
}

// hanging is a sink that does not answer.
type hanging struct{ tries int }

func (*hanging) Name() string { return "hanging" }

func (h *hanging) Deliver(ctx context.Context, _ outbox.Event) error {
	h.tries++
	<-ctx.Done()
	return &outbox.DownError{Err: context.Cause(ctx)}
}

func TestTick_EventOfAWriteWhoseAnswerIsLostIsThereOnce(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	events := b.recording()
	b.catalog.set("B", nil)
	fault := errors.New("no answer")
	lost := &lostAnswers{Store: b.store, err: fault}
	b.Reconciler.Store = lost
	if _, err := b.Tick(t.Context(), TickOptions{}); !errors.Is(err, fault) {
		t.Fatalf("the tick: %v", err)
	}
	b.Reconciler.Store = b.store
	b.now = b.now.Add(time.Minute)
	b.tick()
	if got := events.heard(); got != "change_seen(service instances: +B) run_decided(service instances: +B)" {
		t.Errorf("the events are %s", got)
	}
}

// lostAnswers writes events and says that it did not.
type lostAnswers struct {
	state.Store
	err error
}

func (l *lostAnswers) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	records, err := l.Store.Apply(ctx, changes...)
	for _, c := range changes {
		if err == nil && strings.HasPrefix(c.Key, outbox.Prefix) {
			return nil, l.err
		}
	}
	return records, err
}

func TestLoop_LeadershipIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopBench(t, tasks(1)...)
		events := l.recording()
		l.start()
		l.end()
		if got := events.heard(); got != "leadership_taken run_decided(the task has never been applied) configuration_in_force" {
			t.Errorf("the events are %s", got)
		}
		// What happened since this process gave the lease back waits in the store.
		l.Reconciler.DeliverRest(t.Context())
		if got := events.heard(); got != "leadership_given_up" {
			t.Errorf("the events are %s", got)
		}

		dead := l.another(l.Config.Tasks)
		dead.Owner, dead.Now = "dead", time.Now
		if _, err := dead.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		l.start()
		l.end()
		if got := events.heard(); got != "leadership_taken(dead has not reported in time)" {
			t.Errorf("the events are %s", got)
		}
	})
}

func TestDeliverRest_LeavesEventsToTheLeader(t *testing.T) {
	b := newBench(t, tasks(1)...)
	events := b.recording()
	leader := b.another(b.Config.Tasks)
	if _, err := leader.acquireAnd(t.Context(), leader.takes); err != nil {
		t.Fatal(err)
	}
	b.DeliverRest(t.Context())
	if got := events.heard(); got != "" {
		t.Errorf("while another process leads, the events are %s", got)
	}
}

func TestOnce_EventsOfItsRunsAreDelivered(t *testing.T) {
	b := newBench(t, tasks(1)...)
	events := b.recording()
	_, err := b.Once(t.Context(), func() {
		run := b.task("task-0").Run
		if _, err := orphan.Runs(t.Context(), b.store, orphan.Stopped{Launch: run.Launch, Why: "its container was killed"}, b.now); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := events.heard(); !strings.HasSuffix(got, " run_lost(its container was killed)") {
		t.Errorf("the events are %s", got)
	}
}

func TestControl_ChangesAreEvents(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	events := b.recording()
	c := controlOf(b)
	steps := []func() error{
		func() error {
			_, err := c.SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{By: "ann"})
			return err
		},
		func() error {
			_, err := c.SetEnabled(t.Context(), "task-0", true, control.ChangeOptions{By: "bob"})
			return err
		},
		func() error { _, err := c.Delete(t.Context(), "task-0", "ann"); return err },
		func() error { _, err := c.Reset(t.Context()); return err },
		func() error { _, err := c.Force(t.Context(), "task-0", "ann"); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	b.tick()
	if _, err := c.Cancel(t.Context(), "task-0", "bob"); err != nil {
		t.Fatal(err)
	}
	b.tick()
	by := ""
	for _, e := range events.got {
		by += " " + e.By
	}
	want := "override_created(disabled) override_removed(enabled) override_created(deleted, until its block in the file is changed) override_removed " +
		"run_decided(requested by ann) run_cancelled(cancelled by bob before it began)"
	if got := events.heard(); got != want || strings.TrimSpace(by) != "ann bob ann start -reset-storage  bob" {
		t.Errorf("the events are %s, by%s; want %s", got, by, want)
	}
}

func TestControl_EventsOfATaskThatIsMadeAgainFollowTheEarlierOnes(t *testing.T) {
	definition := json.RawMessage(`{"name":"ci","module":"./m","condition":{"services":{"names":["web"]}}}`)
	for name, forget := range map[string]func(*bench, *control.Control) error{
		"erased by a tick": func(b *bench, c *control.Control) error {
			_, err := c.Delete(t.Context(), "ci", "ann")
			b.tick()
			return err
		},
		"forgotten": func(b *bench, c *control.Control) error {
			if _, err := c.Delete(t.Context(), "ci", "ann"); err != nil {
				return err
			}
			return c.Forget(t.Context(), "ci", "somebody")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			events, c, now := b.recording(), controlOf(b), b.now
			b.now = now.Add(6 * time.Hour) // this clock is ahead
			if _, _, err := c.Create(t.Context(), definition, control.ChangeOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := forget(b, c); err != nil {
				t.Fatal(err)
			}
			b.now = now
			if _, _, err := c.Create(t.Context(), definition, control.ChangeOptions{Provisional: true}); err != nil {
				t.Fatal(err)
			}
			b.tick()
			var seq uint64
			var kinds []string
			for _, e := range events.got {
				if e.Task != "ci" {
					continue
				}
				if kinds = append(kinds, string(e.Kind)); e.Seq <= seq {
					t.Errorf("event %s has number %d after %d", e.Kind, e.Seq, seq)
				}
				seq = e.Seq
			}
			if got, want := strings.Join(kinds, " "), "override_created override_removed task_forgotten override_created run_decided"; got != want {
				t.Errorf("the events are %s, want %s", got, want)
			}
		})
	}
}

// The record of a tick is written with the release of its lease, after the delivery.
func TestTick_PauseDuringItsDeliveryIsKept(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	events := b.recording()
	events.before = func(outbox.Event) error {
		events.before = nil
		_, err := b.people().PauseAll(t.Context(), "ann", "maintenance")
		return err
	}
	b.catalog.set("B", nil)
	b.tick()
	rec, err := state.ReadReconcile(t.Context(), b.store)
	b.must(err)
	if rec.Data.Paused == nil || rec.Data.Paused.By != "ann" {
		t.Errorf("the pause is %v", rec.Data.Paused)
	}
	left, err := b.store.List(t.Context(), outbox.Prefix)
	b.must(err)
	if got := events.heard(); !strings.HasPrefix(got, "change_seen") || strings.Count(got, "run_decided") != 1 || len(left) != len(rec.Data.Delivered)+1 {
		t.Errorf("heard %s; %d records are left, %d are noted as delivered", got, len(left), len(rec.Data.Delivered))
	}
	if idle := b.tick(); idle.Idle {
		t.Error("the tick after the pause is idle")
	}
	if got := events.heard(); !strings.HasPrefix(got, "paused") {
		t.Errorf("then heard %s", got)
	}
}
