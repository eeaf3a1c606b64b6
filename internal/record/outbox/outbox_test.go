package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/stores/consulkv"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// sink records what it is given, and fails where a test says so.
type sink struct {
	name string
	fail func(outbox.Event) error
	got  []outbox.Event
}

func (s *sink) Name() string { return s.name }

func (s *sink) Deliver(_ context.Context, e outbox.Event) error {
	if s.fail != nil {
		if err := s.fail(e); err != nil {
			return err
		}
	}
	s.got = append(s.got, e)
	return nil
}

// heard is what the sink was given, as task and detail.
func (s *sink) heard() string {
	var all []string
	for _, e := range s.got {
		all = append(all, e.Task+":"+e.Detail)
	}
	return strings.Join(all, " ")
}

// bench is a store with a lease on it.
type bench struct {
	*testing.T
	store *statetest.Faulty
	lease *lease.Lease
	log   bytes.Buffer
	now   time.Time
	rests *outbox.Rests // nil: no sink rests
}

func newBench(t *testing.T, s state.Store) *bench {
	t.Helper()
	t.Cleanup(func() { s.Close() })
	l, err := lease.Acquire(t.Context(), s, "reconcile", "test", lease.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{T: t, store: &statetest.Faulty{Store: s}, lease: l, now: noon}
}

func inMemory(t *testing.T) *bench {
	t.Helper()
	s := statetest.NewMemory()
	return newBench(t, s)
}

// happens writes one event of each task in the same step as the tasks' records.
func (b *bench) happens(detail string, at time.Time, tasks ...string) outbox.Events {
	b.Helper()
	var changes []state.Change
	var all []outbox.Event
	for _, name := range tasks {
		task, err := state.Read[state.Task](b.Context(), b.store, state.TaskKey(name))
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, outbox.Number(&task.Data, outbox.Event{Kind: outbox.ChangeSeen, At: at, Task: name, Detail: detail}))
		changes = append(changes, task.Write(task.Data))
	}
	events := outbox.NewEvents(all...)
	if _, err := b.store.Apply(b.Context(), append(changes, events.Changes()...)...); err != nil {
		b.Fatal(err)
	}
	return events
}

func (b *bench) delivery(sinks ...outbox.Sink) outbox.Delivery {
	return outbox.Delivery{Store: b.store, Apply: func(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
		if b.store.Before != nil {
			if err := b.store.Before(changes); err != nil {
				return nil, err
			}
		}
		return b.lease.Apply(ctx, changes...)
	}, Sinks: func() []outbox.Sink { return sinks }, Rests: b.rests, Now: func() time.Time { return b.now }, Log: slog.New(slog.NewTextHandler(&b.log, nil))}
}

func (b *bench) deliver(wantLeft int, wantErr error, sinks ...outbox.Sink) {
	b.Helper()
	done, err := b.delivery(sinks...).Run(b.Context())
	if err = errors.Join(err, done.Failed); done.Left != wantLeft || !errors.Is(err, wantErr) {
		b.Fatalf("%d events are left: %v; want %d, %v", done.Left, err, wantLeft, wantErr)
	}
}

func (b *bench) kept() int {
	b.Helper()
	all, err := b.store.List(b.Context(), outbox.Prefix)
	if err != nil {
		b.Fatal(err)
	}
	return len(all)
}

func TestDelivery_FailingSinkHoldsBackThatTaskOnlyForItself(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *bench{
		"memory": inMemory,
		"dynamodb": func(t *testing.T) *bench {
			url := dynamotest.Start(t)
			return newBench(t, dynamo.New(dynamotest.Config(url), dynamotest.Table(t, url)))
		},
		"consul": func(t *testing.T) *bench {
			s, err := consulkv.Open(config.Consul{Address: consultest.Start(t).Addr()}, "terrapulse", "")
			if err != nil {
				t.Fatal(err)
			}
			return newBench(t, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.happens("one", noon, "web", "db")
			b.happens("two", noon, "web")
			b.happens("three", noon, "db")
			broken := errors.New("no answer")
			good := &sink{name: "good"}
			bad := &sink{name: "bad", fail: func(e outbox.Event) error {
				if e.Task == "web" {
					return broken
				}
				return nil
			}}
			b.deliver(2, broken, good, bad)
			if got := good.heard(); got != "web:one db:one web:two db:three" {
				t.Errorf("the sink that works was given %s", got)
			}
			if got := bad.heard(); got != "db:one db:three" || b.kept() != 2 {
				t.Errorf("the sink that fails for web was given %s, and %d records are kept", got, b.kept())
			}
			bad.fail = nil
			b.happens("four", noon, "web")
			b.deliver(0, nil, good, bad)
			if got := good.heard(); got != "web:one db:one web:two db:three web:four" {
				t.Errorf("the sink that works was given %s", got)
			}
			if got := bad.heard(); got != "db:one db:three web:one web:two web:four" || b.kept() != 0 {
				t.Errorf("the sink that failed was given %s, and %d records are kept", got, b.kept())
			}
			for i, e := range good.got {
				if n := slices.IndexFunc(bad.got, func(o outbox.Event) bool { return o.ID == e.ID }); n < 0 || bad.got[n].Detail != e.Detail || bad.got[n].Task != e.Task {
					t.Errorf("event %d has id %q for one sink only", i, e.ID)
				}
			}
		})
	}
}

func TestDelivery_OrderOfATaskIsThatOfItsWritesWhateverTheClocksSay(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web")
	b.happens("two", noon.Add(-time.Hour), "web")
	b.happens("three", noon.Add(time.Hour), "web")
	b.happens("four", noon, "web")
	got := &sink{name: "log"}
	b.deliver(0, nil, got)
	if got.heard() != "web:one web:two web:three web:four" {
		t.Errorf("the sink was given %s", got.heard())
	}
}

// torn shows the first record only from the second list on, as a list that was
// read in parts may.
type torn struct {
	state.Store
	lists int
}

func (s *torn) List(ctx context.Context, prefix string) ([]state.Record, error) {
	all, err := s.Store.List(ctx, prefix)
	if s.lists++; s.lists == 1 && len(all) > 0 {
		all = all[1:]
	}
	return all, err
}

func TestDelivery_EventThatAListDoesNotShowComesBeforeItsSuccessor(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web")
	b.happens("two", noon, "web")
	got := &sink{name: "log"}
	d := b.delivery(got)
	d.Store = &torn{Store: b.store}
	if _, err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got.heard() != "web:one web:two" {
		t.Errorf("the sink was given %s", got.heard())
	}
}

func TestDelivery_EventWhoseRemovalFailsComesAgainWithItsID(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web")
	b.happens("two", noon, "web")
	fault := errors.New("disk full")
	b.store.Before = func([]state.Change) error { return fault }
	got := &sink{name: "log"}
	b.deliver(0, fault, got)
	b.store.Before = nil
	b.deliver(0, nil, got)
	if got.heard() != "web:one web:two web:one web:two" || got.got[0].ID != got.got[2].ID || got.got[0].ID == got.got[1].ID {
		t.Errorf("the sink was given %+v", got.got)
	}
	if b.deliver(0, nil, got); len(got.got) != 4 {
		t.Errorf("an event that was removed is delivered again: %+v", got.got)
	}
}

// noting is a delivery that leaves few delivered records, and notes them.
func (b *bench) noting(noted *[]string, fault error, sinks ...outbox.Sink) outbox.Delivery {
	d := b.delivery(sinks...)
	d.Delivered, d.Close = *noted, d.Apply
	d.Leave = func(_ context.Context, delivered []string) error {
		if fault == nil {
			*noted = delivered
		}
		return fault
	}
	return d
}

func TestDelivery_RecordsThatAreNotedAsDeliveredAreRemovedTogether(t *testing.T) {
	b := inMemory(t)
	got, written, most := &sink{name: "log"}, 0, 0
	b.store.Before = func(changes []state.Change) error {
		if slices.ContainsFunc(changes, func(c state.Change) bool { return c.Op == state.OpDelete }) {
			written++
		}
		return nil
	}
	var noted []string
	for i := range 30 {
		b.happens(fmt.Sprint(i), noon, "web")
		if done, err := b.noting(&noted, nil, got).Run(t.Context()); err != nil || done.Left != 0 || len(got.got) != i+1 {
			t.Fatalf("after event %d: %+v, %v, the sink was given %s", i, done, err, got.heard())
		}
		most = max(most, b.kept())
	}
	if written > 3 || most > 10 {
		t.Errorf("%d writes have removed 30 records, of which %d were in the store at a time", written, most)
	}
	latest, err := outbox.Latest(t.Context(), b.store)
	if err != nil || len(latest) != 30 || latest[0].Detail != "29" {
		t.Errorf("people read %d events, %v", len(latest), err)
	}
}

func TestDelivery_EventThatCouldNotBeNotedComesAgainWithItsID(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web")
	fault, got := errors.New("disk full"), &sink{name: "log"}
	var noted []string
	if _, err := b.noting(&noted, fault, got).Run(t.Context()); !errors.Is(err, fault) {
		t.Fatalf("the error is %v", err)
	}
	for range 2 {
		if _, err := b.noting(&noted, nil, got).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got.heard() != "web:one web:one" || got.got[0].ID != got.got[1].ID || b.kept() != 1 {
		t.Errorf("the sink was given %+v, %d records are left", got.got, b.kept())
	}
}

// A sink that takes nothing for now keeps back what others have taken.
func TestDelivery_OnlyWhatAllSinksHaveTakenIsNoted(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web")
	got, down := &sink{name: "log"}, &sink{name: "slack", fail: func(outbox.Event) error { return errors.New("down") }}
	var noted []string
	if done, err := b.noting(&noted, nil, got, down).Run(t.Context()); err != nil || done.Left != 1 || len(noted) != 0 {
		t.Fatalf("%+v, %v, noted: %v", done, err, noted)
	}
	down.fail = nil
	if done, err := b.noting(&noted, nil, got, down).Run(t.Context()); err != nil || done.Left != 0 || got.heard() != "web:one" || down.heard() != "web:one" {
		t.Errorf("%+v, %v, the sinks were given %s and %s", done, err, got.heard(), down.heard())
	}
}

func TestDelivery_EndedContextLeavesTheRest(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web")
	b.happens("two", noon, "db")
	ctx, cancel := context.WithCancel(t.Context())
	got := &sink{name: "log", fail: func(outbox.Event) error { cancel(); return nil }}
	if done, err := b.delivery(got).Run(ctx); err != nil || done.Left != 1 || !errors.Is(done.Failed, context.Canceled) || got.heard() != "web:one" {
		t.Errorf("%d events are left: %v, %v; the sink was given %s", done.Left, err, done.Failed, got.heard())
	}
	got.fail = nil
	b.deliver(0, nil, got)
	if got.heard() != "web:one db:two" || b.kept() != 0 { // what was delivered in the time there was is not repeated
		t.Errorf("the sink was given %s, and %d records are kept", got.heard(), b.kept())
	}
}

func TestDelivery_SlowStoreNotesWhatSinksTookWhileTheDeliveryLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inMemory(t)
		b.happens("one", noon, "web")
		delivery := b.delivery(&sink{name: "log"})
		apply := delivery.Apply
		delivery.Apply = func(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
			if !delay.For(ctx, 6*time.Second) {
				return nil, ctx.Err()
			}
			return apply(ctx, changes...)
		}
		if _, err := delivery.Run(t.Context()); err != nil || b.kept() != 0 {
			t.Errorf("%v; %d records are kept", err, b.kept())
		}
	})
}

// burst writes events of so many writes.
func (b *bench) burst(n int, task func(i int) string) {
	b.Helper()
	var changes []state.Change
	for i := range n {
		changes = append(changes, outbox.NewEvents(outbox.Event{Kind: outbox.ChangeSeen, Seq: uint64(i + 1), At: noon, Task: task(i)}).Changes()...)
	}
	for some := range slices.Chunk(changes, state.MaxChanges) {
		if _, err := b.store.Apply(b.Context(), some...); err != nil {
			b.Fatal(err)
		}
	}
}

// teller calls a function after each write.
type teller struct {
	io.Writer
	told func()
}

// Write implements io.Writer.
func (t teller) Write(text []byte) (int, error) {
	defer t.told()
	return t.Writer.Write(text)
}

// TestDelivery_BurstIsNotDroppedWhileSinksTakeEvents checks deliveries that end before a sink
// has taken everything, as in AWS.
func TestDelivery_BurstIsNotDroppedWhileSinksTakeEvents(t *testing.T) {
	b := inMemory(t)
	b.rests = new(outbox.Rests)
	const all = outbox.MaxRecords + 500
	b.burst(all, func(i int) string { return fmt.Sprintf("task-%d", i) })
	ctx, end := context.WithCancel(t.Context())
	slow, tried := &sink{name: "slow"}, make(chan struct{})
	slow.fail = func(outbox.Event) error {
		if len(slow.got) == 99 {
			<-tried
			end()
		}
		return nil
	}
	bad := &sink{name: "bad", fail: func(outbox.Event) error { return &outbox.DownError{Err: errors.New("no answer")} }}
	first := b.delivery(slow, bad)
	first.Log = slog.New(slog.NewTextHandler(teller{&b.log, sync.OnceFunc(func() { close(tried) })}, nil)) // once it is known that bad fails
	writes := 0
	b.store.Before = func([]state.Change) error { writes++; return nil }
	if _, err := first.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if writes > 50 { // little time is left to note what 1,500 records lack
		t.Errorf("%d writes", writes)
	}
	// What slow has taken is dropped for bad.
	if len(slow.got) != 100 || b.kept() != all-100 || strings.Contains(b.log.String(), "sink=slow") {
		t.Errorf("the sink has taken %d events, %d records are kept, and the log says %s", len(slow.got), b.kept(), b.log.String())
	}
	b.now = b.now.Add(time.Hour)
	if _, err := b.delivery(slow, bad).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(slow.got) != all || b.kept() != outbox.MaxRecords || strings.Contains(b.log.String(), "sink=slow") {
		t.Errorf("the sink has taken %d of %d events, %d records are kept, and the log says %s", len(slow.got), all, b.kept(), b.log.String())
	}
}

func TestDelivery_KeepsABoundedNumberForASinkThatTakesNothing(t *testing.T) {
	b := inMemory(t)
	b.rests = new(outbox.Rests)
	b.burst(outbox.MaxRecords+3, func(int) string { return "web" })
	broken := errors.New("no answer")
	good, bad := &sink{name: "good"}, &sink{name: "bad", fail: func(outbox.Event) error { return broken }}
	b.deliver(outbox.MaxRecords, broken, good, bad)
	if said := b.log.String(); b.kept() != outbox.MaxRecords || !strings.Contains(said, `level=ERROR msg="events are dropped that a sink did not take" sink=bad events=3 `) {
		t.Errorf("%d records are kept, and the log says %s", b.kept(), said)
	}
	b.log.Reset()
	b.now = b.now.Add(outbox.MaxAge + time.Minute)
	b.deliver(0, broken, good, bad)
	if said := b.log.String(); b.kept() != 0 || !strings.Contains(said, fmt.Sprintf("sink=bad events=%d ", outbox.MaxRecords)) || strings.Contains(said, "sink=good") {
		t.Errorf("%d records are kept, and the log says %s", b.kept(), said)
	}
}

func TestDelivery_RecordThatCannotBeReadIsNotInTheWay(t *testing.T) {
	b := inMemory(t)
	if _, err := b.store.Apply(t.Context(), state.Create(outbox.Prefix+"0", []byte("no JSON"))); err != nil {
		t.Fatal(err)
	}
	b.happens("one", noon, "web")
	got := &sink{name: "log"}
	b.deliver(0, nil, got)
	if got.heard() != "web:one" || b.kept() != 0 || !strings.Contains(b.log.String(), "an event cannot be read and is dropped") {
		t.Errorf("the sink was given %s, %d records are kept, and the log says %s", got.heard(), b.kept(), b.log.String())
	}
}

func TestLog_EventThatThisProcessHasLoggedIsNotLoggedAgain(t *testing.T) {
	b := inMemory(t)
	var out bytes.Buffer
	log := outbox.Log{To: slog.New(slog.NewTextHandler(&out, nil)), Said: new(outbox.Said)}
	log.Now(t.Context(), b.happens("ours", noon, "web"))
	b.happens("another's", noon, "web")
	b.deliver(0, nil, log)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "detail=ours") || !strings.Contains(lines[1], "detail=another's") {
		t.Errorf("the log says %s", out.String())
	}
	if want := `time=2026-07-01T12:00:00.000Z level=INFO msg="change seen" task=web `; !strings.HasPrefix(lines[1], want) {
		t.Errorf("the line is %s, want one that begins with %s", lines[1], want)
	}
}

func TestLog_LineOfARunHasItsNumbers(t *testing.T) {
	var out bytes.Buffer
	log := outbox.Log{To: slog.New(slog.NewTextHandler(&out, nil))}
	run := state.Run{ID: "r1", Task: "web", Launch: "l1", Fence: 7, State: state.RunSucceeded, Times: state.Times{Started: noon, Ended: noon.Add(1500 * time.Millisecond)},
		Seen: noon.Add(-time.Second), Reason: state.Reason{Code: state.ReasonChanged}, Work: state.Work{Changes: &state.Changes{Add: 1, Change: 2, Destroy: 3}}}
	if err := log.Deliver(t.Context(), outbox.OfRun(run)); err != nil {
		t.Fatal(err)
	}
	run.Remote = &state.RemoteRun{URL: "https://hcp/1", Phase: state.RemoteEnded}
	if e := outbox.OfRun(run); e.RemoteURL != "https://hcp/1" {
		t.Errorf("the event names the page %q", e.RemoteURL)
	}
	want := fmt.Sprintf(`level=INFO msg="run succeeded" task=web run=r1 fence=7 reason=%s duration=1.5s added=1 changed=2 destroyed=3 since_seen=2.5s`, state.ReasonChanged)
	if !strings.Contains(out.String(), want) {
		t.Errorf("the line is %s, want %s", out.String(), want)
	}
}

func TestOfRun_PlanThatWasNotAppliedHasNoNumbers(t *testing.T) {
	wait := state.Waits{Wait: &state.Wait{For: state.WaitApproval, Since: noon}}
	resumed := state.Waits{Wait: wait.Wait, Resumed: &state.Resume{By: "ann", At: noon}}
	claim := state.Claimed{Claim: "c1"}
	type numbers struct{ neverWaited, waiting, resumed, claimedAgain bool }
	for end, want := range map[state.RunState]numbers{
		state.RunWaiting:     {true, true, true, true}, // of what would be applied
		state.RunSucceeded:   {true, false, false, true},
		state.RunFailed:      {true, false, false, true},
		state.RunLost:        {true, false, false, true},
		state.RunInterrupted: {true, false, false, true},
		state.RunUnchanged:   {true, false, false, true},
		state.RunCancelled:   {true, false, false, true}, // by a person, who may have rejected it, or when its time was over
		state.RunSuperseded:  {},
	} {
		has := func(waits state.Waits, claimed state.Claimed) bool {
			run := state.Run{State: end, Waits: waits, Claimed: claimed, Work: state.Work{Changes: &state.Changes{Add: 1}}}
			if run.Wait == nil && end == state.RunWaiting {
				run.Waits = wait
			}
			return outbox.OfRun(run).Changes != nil
		}
		got := numbers{has(state.Waits{}, claim), has(wait, state.Claimed{}), has(resumed, state.Claimed{}), has(resumed, claim)}
		if got != want {
			t.Errorf("events of runs that are %s have numbers: %+v, want %+v", end, got, want)
		}
	}
}

// TestLog_LinesOfARunHaveTheIDOfTheRunAlone also looks for the line that leads from a run to its launch.
func TestLog_LinesOfARunHaveTheIDOfTheRunAlone(t *testing.T) {
	for _, kind := range outbox.Kinds() {
		var out bytes.Buffer
		e := outbox.Event{ID: "the-event.0", Kind: kind, At: noon, Task: "web", Run: "the-run", Launch: "the-launch", Fence: 7}
		if err := (outbox.Log{To: slog.New(slog.NewTextHandler(&out, nil))}).Deliver(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if line := out.String(); line != "" {
			begins := kind == outbox.RunDecided || kind == outbox.RunResumed
			if !strings.Contains(line, " task=web run=the-run ") || strings.Contains(line, "the-event") || strings.Contains(line, "launch=the-launch") != begins || !strings.Contains(line, " event="+string(kind)) {
				t.Errorf("the line is %s", line)
			}
		}
	}
}
