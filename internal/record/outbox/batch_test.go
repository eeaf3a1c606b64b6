package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// batches is a sink that takes three events at once.
type batches struct {
	sink
	all []string // the requests
}

var _ outbox.Batcher = (*batches)(nil)

func (*batches) Most() int { return 3 }

func (b *batches) DeliverAll(ctx context.Context, events []outbox.Event) (errs []error) {
	var names []string
	for _, e := range events {
		names = append(names, e.Task+":"+e.Detail)
		errs = append(errs, b.Deliver(ctx, e))
	}
	b.all = append(b.all, strings.Join(names, " "))
	return errs
}

func TestDelivery_BatchHasOneEventOfEachTask(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web", "db", "dns", "lb")
	b.happens("two", noon, "web", "db")
	b.happens("three", noon, "web")
	got := &batches{sink: sink{name: "bus"}}
	b.deliver(0, nil, got)
	if want := []string{"web:one db:one dns:one", "lb:one web:two db:two", "web:three"}; !slices.Equal(got.all, want) || b.kept() != 0 {
		t.Errorf("the batches are %q, want %q; %d records are kept", got.all, want, b.kept())
	}
}

func TestDelivery_FailureInABatchHoldsBackThatTaskAlone(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web", "db")
	b.happens("two", noon, "web", "db")
	broken := errors.New("malformed")
	got := &batches{sink: sink{name: "bus", fail: func(e outbox.Event) error {
		if e.Task == "web" {
			return broken
		}
		return nil
	}}}
	b.deliver(2, broken, got)
	if want := []string{"web:one db:one", "db:two"}; !slices.Equal(got.all, want) || got.heard() != "db:one db:two" {
		t.Errorf("the batches are %q, want %q", got.all, want)
	}
	got.fail, got.all = nil, nil
	b.deliver(0, nil, got)
	if want := []string{"web:one", "web:two"}; !slices.Equal(got.all, want) {
		t.Errorf("the batches are %q, want %q", got.all, want)
	}
}

func TestDelivery_BatchThatIsRefusedRestsOnce(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web", "db", "dns")
	b.happens("two", noon, "lb")
	down := &outbox.DownError{Err: errors.New("throttled")}
	got := &batches{sink: sink{name: "bus", fail: func(e outbox.Event) error {
		if e.Task == "db" {
			return nil
		}
		return down
	}}}
	d := b.delivery(got)
	d.Rests = new(outbox.Rests)
	report, err := d.Run(t.Context())
	if err != nil || report.Left != 3 || len(got.all) != 1 || got.heard() != "db:one" {
		t.Fatalf("%+v, %v: the batches are %q", report, err, got.all)
	}
	if said := b.log.String(); strings.Count(said, "events were not delivered") != 1 || !strings.Contains(said, "again_in=1s") {
		t.Errorf("the log says %s", said)
	}
}

func TestDelivery_ManyEventsOfOneTaskKeepTheirOrder(t *testing.T) {
	b := inMemory(t)
	for i := range 100 {
		b.happens(fmt.Sprint(i), noon, "web")
	}
	b.happens("last", noon, "db")
	got := &batches{sink: sink{name: "bus"}}
	d := b.delivery(got)
	d.Log = slog.New(slog.DiscardHandler)
	if report, err := d.Run(t.Context()); err != nil || report.Left != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	at := map[string]int{}
	for i, e := range got.got {
		at[e.Task+e.Detail] = i
	}
	for i := 1; i < 100; i++ {
		if at["web"+fmt.Sprint(i)] < at["web"+fmt.Sprint(i-1)] {
			t.Errorf("event %d comes before event %d", i, i-1)
		}
	}
	if len(got.got) != 101 {
		t.Errorf("the sink was given %d events", len(got.got))
	}
}

// moves writes that a task has another name.
func (b *bench) moves(former, task string) {
	b.Helper()
	rec, err := state.Read[state.Task](b.Context(), b.store, state.TaskKey(task))
	if err != nil {
		b.Fatal(err)
	}
	events := outbox.NewEvents(outbox.Number(&rec.Data, outbox.Event{Kind: outbox.TaskMoved, At: b.now, Task: task, Former: former, Detail: "moved"}))
	if _, err := b.store.Apply(b.Context(), append(events.Changes(), rec.Write(rec.Data))...); err != nil {
		b.Fatal(err)
	}
}

// A sink gets what happened to a task under its former name before what happened under the new one.
func TestDelivery_NewNameFollowsEverythingOfTheFormerOne(t *testing.T) {
	happens := func(b *bench) {
		b.happens("one", noon, "lb", "db")
		b.happens("two", noon.Add(time.Second), "lb")
		b.now = noon.Add(2 * time.Second)
		b.moves("lb", "edge")
		b.happens("three", b.now, "edge")
		b.happens("again", noon.Add(3*time.Second), "lb") // another task, which has the name now
	}
	want := "lb:one db:one lb:two edge:moved edge:three lb:again"
	order := func(heard string) string { // without the task that has nothing to do with it
		return strings.Join(strings.Fields(strings.ReplaceAll(heard, "db:one", "")), " ")
	}
	t.Run("in batches", func(t *testing.T) {
		b := inMemory(t)
		happens(b)
		got := &batches{sink: sink{name: "bus"}}
		if b.deliver(0, nil, got); order(got.heard()) != order(want) {
			t.Errorf("the sink was given %s in the batches %q, want %s", got.heard(), got.all, want)
		}
	})
	t.Run("one of the former name is refused at first", func(t *testing.T) {
		b := inMemory(t)
		happens(b)
		refused := errors.New("malformed")
		got := &batches{sink: sink{name: "bus", fail: func(e outbox.Event) error {
			if e.Detail == "two" {
				return refused
			}
			return nil
		}}}
		d := b.delivery(got)
		d.Rests = new(outbox.Rests)
		report, err := d.Run(t.Context())
		if err != nil || !errors.Is(report.Failed, refused) || report.Left != 4 || order(got.heard()) != "lb:one" {
			t.Fatalf("%+v, %v: the sink was given %s", report, err, got.heard())
		}
		if report.Again.Before(b.now.Add(time.Second)) {
			t.Errorf("it is to be given more at %s, now it is %s", report.Again, b.now)
		}
		for range 2 { // while it rests, nothing of both names
			if report, err = d.Run(t.Context()); err != nil || report.Left != 4 || report.Again.Before(b.now.Add(time.Second)) {
				t.Fatalf("%+v, %v: the sink was given %s", report, err, got.heard())
			}
		}
		got.fail, b.now = nil, b.now.Add(time.Minute)
		if report, err = d.Run(t.Context()); err != nil || report.Left != 0 || order(got.heard()) != order(want) {
			t.Errorf("%+v, %v: the sink was given %s, want %s", report, err, got.heard(), want)
		}
	})
}
