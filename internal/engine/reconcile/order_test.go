package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// afterEachOther are n tasks that watch the same service: task-1 comes after task-0, task-2 after task-1.
func afterEachOther(n int) []config.Task {
	all := tasks(n)
	for i := 1; i < n; i++ {
		all[i].After = []string{all[i-1].Name}
	}
	return all
}

// began are the tasks whose runs began since the launcher was asked last, launch by launch.
func (b *bench) began() string {
	var launches []string
	for _, launch := range b.launcher.launches() {
		var names []string
		for _, run := range launch.Runs {
			names = append(names, run.Task)
		}
		launches = append(launches, strings.Join(names, " "))
	}
	b.launcher.forget()
	return strings.Join(launches, ", ")
}

// settleInOrder applies all tasks.
func (b *bench) settleInOrder() {
	b.t.Helper()
	for b.tick(); len(b.launcher.launches()) > 0; b.tickAfterEnd() {
		b.end(state.RunSucceeded, "A")
		b.launcher.forget()
	}
}

func TestOrder_ATaskRunsInTheTickAfterTheRunOfItsPredecessor(t *testing.T) {
	b := newBench(t, afterEachOther(3)...)
	b.settleInOrder()
	b.catalog.set("B", nil)
	b.tick()
	for i := range 3 {
		if got := b.began(); got != fmt.Sprintf("task-%d", i) {
			t.Fatalf("step %d: %q begins", i, got)
		}
		for _, late := range []int{1, 2} {
			if r := b.task(fmt.Sprintf("task-%d", late)).Reason; late > i && r.Code != state.ReasonAfter {
				t.Errorf("step %d: task-%d: %+v", i, late, r)
			}
		}
		b.end(state.RunSucceeded, "B")
		b.tickAfterEnd()
	}
	if got := b.began(); got != "" {
		t.Errorf("at the end, %s begins", got)
	}
	if !b.tick().Idle {
		t.Error("the next tick is not idle")
	}
}

func TestOrder_AFailedRunKeepsWhatComesAfterFromRunning(t *testing.T) {
	b := newBench(t, afterEachOther(2)...)
	b.settleInOrder()
	b.catalog.set("B", nil)
	b.tick()
	b.began()
	b.end(state.RunFailed, "")
	b.tickAfterEnd()
	if r := b.task("task-1").Reason; b.began() != "" || r.Code != state.ReasonAfter || !strings.Contains(r.Text, "waits for task-0: it fails: ") {
		t.Fatalf("%+v", r)
	}
	b.now = b.now.Add(time.Minute)
	b.tick()
	if got := b.began(); got != "task-0" {
		t.Fatalf("%q begins, want the retry", got)
	}
	b.end(state.RunSucceeded, "B")
	b.tickAfterEnd()
	if got := b.began(); got != "task-1" {
		t.Errorf("%q begins", got)
	}
}

// between is a Consul in which something happens after the conditions were read.
type between struct {
	changed
	reads int
	then  func(answers []consul.Answer) // to those of the second read
}

func (c *between) Observe(ctx context.Context, queries []consul.Query) []consul.Answer {
	answers := c.changed.Observe(ctx, queries)
	if c.reads++; c.reads == 2 {
		c.then(answers)
	}
	return answers
}

// The gate of a predecessor may move a moment later than that of a task which shows the same change.
func TestOrder_AChangeThatThePredecessorWasNotReadWithIsNotOvertaken(t *testing.T) {
	for name, then := range map[string]func([]consul.Answer){
		"it has changed":         func(answers []consul.Answer) { answers[0].Digest = "B" },
		"Consul does not answer": func(answers []consul.Answer) { answers[0].Err = errors.New("no route to host") },
	} {
		t.Run(name, func(t *testing.T) {
			all := afterEachOther(2)
			all[0].Condition = eachItsOwn(1)[0].Condition
			b := newBench(t, all...)
			b.settleInOrder()
			b.shows("B", all[1])
			c := &between{b.Consul.(changed), 0, then}
			b.Consul = c
			if report := b.tick(); b.began() != "" || !report.Again {
				t.Fatalf("%+v, again: %v", b.task("task-1").Reason, report.Again)
			}
			b.Consul = c.changed
			b.catalog.reads = 0
			b.now = b.now.Add(10 * time.Second)
			b.tick() // although no gate has moved
			if got := b.began(); got != "task-1" {
				t.Errorf("%q begins: %+v", got, b.task("task-1").Reason)
			}
		})
	}
}

// A person requests a run of the predecessor while the tick decides.
func TestOrder_ARequestForThePredecessorComesFirst(t *testing.T) {
	all := afterEachOther(2)
	all[0].Condition = eachItsOwn(1)[0].Condition
	b := newBench(t, all...)
	b.settleInOrder()
	b.shows("B", all[1])
	b.Reconciler.Store = &requester{Store: b.store, request: func() {
		if _, err := b.people().Force(t.Context(), "task-0", "ann"); err != nil {
			t.Fatal(err)
		}
	}}
	b.tick()
	if got, reason := b.began(), b.task("task-1").Reason; got != "" || reason.Code != state.ReasonQueued || !strings.Contains(reason.Text, "task task-0 has changed meanwhile") {
		t.Fatalf("%q begins: %+v", got, reason)
	}
	b.tick()
	if got := b.began(); got != "task-0" {
		t.Fatalf("%q begins, want the run that was requested", got)
	}
}

// People and programs send requests in each tick. Those about other tasks are no reason to wait.
func TestOrder_RequestsAboutOtherTasksKeepNoneWaiting(t *testing.T) {
	for name, request := range map[string]func(*bench) error{
		"a tick":                func(b *bench) error { return b.people().Tick(b.t.Context()) },
		"a run of another task": func(b *bench) error { _, err := b.people().Force(b.t.Context(), "task-2", "ann"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			all := eachItsOwn(3)
			all[1].After = []string{"task-0"}
			b := newBench(t, all...)
			b.settleInOrder()
			b.launcher.forget()
			b.catalog.after = func(*catalog) { b.must(request(b)) } // while the tick reads Consul
			b.shows("B", all[1])
			if b.tick(); b.begun("task-1") != 1 {
				t.Errorf("task-1 was begun %d times: %+v", b.begun("task-1"), b.task("task-1").Reason)
			}
			b.end(state.RunSucceeded, "B")
			b.launcher.forget()
			b.must(b.people().Destroy(t.Context(), "task-0", "ann"))
			b.catalog.after = nil
			b.Reconciler.Store = &requester{Store: b.store, request: func() { b.must(request(b)) }}
			if b.tickAfterEnd(); b.begun("task-0") != 1 {
				t.Errorf("the destroy of task-0 was begun %d times: %+v", b.begun("task-0"), b.task("task-0").Reason)
			}
		})
	}
}

// requester has somebody request something just before a launch is written.
type requester struct {
	state.Store
	request func()
	done    bool
}

func (r *requester) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	launches := slices.ContainsFunc(changes, func(c state.Change) bool { return strings.HasPrefix(c.Key, "launch/") })
	if launches && !r.done {
		r.done = true
		r.request()
	}
	return r.Store.Apply(ctx, changes...)
}

func TestOrder_AWaitForTooLongIsAnEvent(t *testing.T) {
	all := afterEachOther(2)
	all[1].AfterTimeout = time.Minute
	b := newBench(t, all...)
	var logged bytes.Buffer
	b.Log = slog.New(slog.NewTextHandler(&logged, nil))
	b.settleInOrder()
	b.must(b.people().Hold(t.Context(), "task-0", "ann", ""))
	b.catalog.set("B", nil)
	b.tick()
	for range 3 {
		b.now = b.now.Add(time.Minute)
		b.tick()
	}
	if s := b.task("task-1"); b.began() != "" || s.After == nil || !s.After.Late {
		t.Fatalf("%+v", s.After)
	}
	if n := strings.Count(logged.String(), "waits for longer than its after_timeout"); n != 1 {
		t.Errorf("%d messages, want one:\n%s", n, &logged)
	}
}

// With 10,000 tasks, one change costs what it costs without an order, and one more poll of the gates.
func TestOrder_ATickReadsNoRecordsOfPredecessorsAtRest(t *testing.T) {
	all := eachItsOwn(300)
	for i := 100; i < 300; i++ {
		all[i].After = []string{"task-?", "task-??"}
	}
	b := newBench(t, all...)
	b.settleInOrder()
	b.shows("B", all[200])
	asked := b.asks()
	b.tick()
	if got := b.began(); got != "task-200" {
		t.Fatalf("%q begins", got)
	}
	if got := asked.tasksRead(); !slices.Equal(got, []string{"task-200"}) {
		t.Errorf("the records of %v were read", got)
	}
	b.end(state.RunSucceeded, "B")
	b.shows("B", all[5], all[210])
	b.tick()
	if got := b.began(); got != "task-5" {
		t.Errorf("%q begins, want the predecessor", got)
	}
}
