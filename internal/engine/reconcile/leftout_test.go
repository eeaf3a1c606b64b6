package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// hostile is a Consul with services whose names cannot be addressed.
type hostile struct {
	*catalog
	names []string
}

func (h *hostile) Observe(ctx context.Context, queries []consul.Query) []consul.Answer {
	answers := h.catalog.Observe(ctx, queries)
	for i := range answers {
		answers[i].LeftOut = h.names
	}
	return answers
}

func TestTick_ServicesThatAreLeftOutAreOneMessageAndTheRestGoesOn(t *testing.T) {
	b := newBench(t, tasks(30)...)
	h := &hostile{catalog: b.catalog}
	b.Reconciler.Consul = h
	b.settle()
	events := b.recording()
	said := func() (all []outbox.Event) {
		for _, e := range events.got {
			if e.Kind == outbox.ServicesLeftOut {
				all = append(all, e)
			}
		}
		return all
	}
	read := func(names ...string) {
		h.names = names
		b.now = b.now.Add(refreshEvery)
		b.tick()
		b.tick()
	}
	read("web-a/../b")
	if got := said(); len(got) != 1 || got[0].Count != 30 || !strings.Contains(got[0].Detail, `"web-a/../b"`) {
		t.Fatalf("the events are %+v", got)
	}
	b.catalog.set("B", nil) // another service changes
	b.now = b.now.Add(refreshEvery)
	decided := b.tick().Launches
	if len(decided) == 0 {
		t.Error("the tasks do not go on with the other services")
	}
	read("web-a/../b")
	read("web-a/../b", "web-//c")
	if got := said(); len(got) != 2 || strings.Contains(got[1].Detail, "web-a") || !strings.Contains(got[1].Detail, `"web-//c"`) {
		t.Errorf("the events are %+v", got)
	}
	read()
	read("web-a/../b")
	if got := said(); len(got) != 3 {
		t.Errorf("a name that is back is no event: %+v", got)
	}

	// Somebody registers name after name.
	for n := range 3 * state.MaxNames {
		var names []string
		for i := range n + 1 {
			names = append(names, fmt.Sprintf("web-/../%d-%s", i, strings.Repeat("x", 4000)))
		}
		read(names...)
	}
	if got := len(said()); got > 3+state.MaxNames {
		t.Errorf("%d events", got)
	}
	rec, err := state.Read[state.Reconcile](t.Context(), b.Store, state.ReconcileKey)
	if err != nil || len(rec.Data.LeftOut) > state.MaxNames || len(state.Encode(rec.Data)) > 20_000 {
		t.Errorf("the record has %d names and %d bytes, %v", len(rec.Data.LeftOut), len(state.Encode(rec.Data)), err)
	}
}

// TestLeftOut_ManyNamesOfManyTasksAreKeptOnce has somebody register thousands of names that each
// task with a regexp would read.
func TestLeftOut_ManyNamesOfManyTasksAreKeptOnce(t *testing.T) {
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("web-/../%d", i))
	}
	var l leftOut
	for i := range 1000 {
		l.note(fmt.Sprint("task-", i), consul.Answer{Observation: consul.Observation{LeftOut: names}})
	}
	if len(l.names) != len(names) {
		t.Errorf("%d names are kept of %d", len(l.names), len(names))
	}
	if e := l.events(nil, noon); len(e) != 1 || e[0].Count != 1000 {
		t.Errorf("the events are %+v", e)
	}
}
