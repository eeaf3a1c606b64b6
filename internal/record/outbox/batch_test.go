package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
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
