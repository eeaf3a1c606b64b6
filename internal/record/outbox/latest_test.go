package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// latest is what Latest returns, as task and detail.
func (b *bench) latest() string {
	b.Helper()
	events, err := outbox.Latest(b.Context(), b.store)
	if err != nil {
		b.Fatal(err)
	}
	var all []string
	for _, e := range events {
		all = append(all, e.Task+":"+e.Detail)
	}
	return strings.Join(all, " ")
}

func (b *bench) expectLatest(when, want string) {
	b.Helper()
	if got := b.latest(); got != want {
		b.Errorf("%s, the latest events are %q, want %q", when, got, want)
	}
}

func TestLatest_HasDeliveredAndWaitingEvents(t *testing.T) {
	b := inMemory(t)
	b.expectLatest("before anything happened", "")
	b.happens("1", noon, "web", "db")
	b.deliver(0, nil)
	b.happens("2", noon.Add(time.Minute), "web")
	down := &sink{name: "chat", fail: func(outbox.Event) error { return errors.New("no answer") }}
	if _, err := b.delivery(down).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.expectLatest("while a sink is down", "web:2 db:1 web:1")
	b.deliver(0, nil)
	b.now = b.now.Add(365 * 24 * time.Hour)
	b.expectLatest("a year later", "web:2 db:1 web:1")
}

func TestLatest_KeepsTheNewest(t *testing.T) {
	b := inMemory(t)
	for i := range outbox.MaxLatest + 10 {
		b.happens(fmt.Sprint(i), noon.Add(time.Duration(i)*time.Second), "web")
		if i%7 == 0 {
			b.deliver(0, nil)
		}
	}
	for range 2 { // with and without events in the outbox
		got := strings.Fields(b.latest())
		if len(got) != outbox.MaxLatest || got[0] != fmt.Sprintf("web:%d", outbox.MaxLatest+9) || got[outbox.MaxLatest-1] != "web:10" {
			t.Errorf("the latest events are %v", got)
		}
		b.deliver(0, nil)
	}
}

func TestLatest_EventsOfAnotherProcessStay(t *testing.T) {
	b := inMemory(t)
	b.happens("1", noon, "web")
	b.deliver(0, nil)
	b.happens("2", noon.Add(time.Minute), "web")
	other := b.delivery()
	meanwhile := false
	mine := b.delivery(&sink{name: "chat", fail: func(outbox.Event) error {
		if meanwhile {
			return nil
		}
		meanwhile = true
		_, err := other.Run(t.Context()) // removes the event, too
		b.happens("3", noon.Add(2*time.Minute), "db")
		return errors.Join(err, func() error { _, err := other.Run(t.Context()); return err }())
	}})
	if _, err := mine.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.expectLatest("after two processes have delivered", "db:3 web:2 web:1")
	if records, err := b.store.List(t.Context(), outbox.Prefix); err != nil || len(records) != 0 {
		t.Errorf("%d records are left in the outbox, %v", len(records), err)
	}
}

func TestLatest_ConcurrentDeliveriesLoseNoEvent(t *testing.T) {
	b := inMemory(t)
	b.happens("1", noon, "web")
	between := false
	b.store.Before = func(changes []state.Change) error {
		if between || len(changes) == 0 || changes[len(changes)-1].Key != "events/latest" {
			return nil
		}
		between = true // this delivery has read the record, and not yet written it
		at, err := state.Read[struct{}](t.Context(), b.store, "events/latest")
		if err != nil || at.Exists() {
			t.Errorf("the record exists already, %v", err)
		}
		_, err = b.store.Store.Apply(t.Context(), state.Create("events/latest", []byte(`{"format":1}`)))
		return err
	}
	b.deliver(0, nil)
	if !between {
		t.Fatal("the delivery has not written the record")
	}
	b.expectLatest("after a conflict", "web:1")
	if records, err := b.store.List(t.Context(), outbox.Prefix); err != nil || len(records) != 0 {
		t.Errorf("%d records are left in the outbox, %v", len(records), err)
	}
}

func TestLatest_RecordThatWasEditedIsOverwritten(t *testing.T) {
	for _, value := range []string{"{", `{"format":1,"events":"bm9uc2Vuc2U="}`} {
		b := inMemory(t)
		if _, err := b.store.Apply(t.Context(), state.Create("events/latest", []byte(value))); err != nil {
			t.Fatal(err)
		}
		b.expectLatest("with a record that cannot be read", "")
		b.happens("1", noon, "web")
		b.deliver(0, nil)
		b.expectLatest("after a delivery", "web:1")
	}
}

func TestLatest_RecordIsSmall(t *testing.T) {
	b := inMemory(t)
	for i := range outbox.MaxLatest {
		run := state.Run{ID: fmt.Sprintf("01a202ff-bb0d-748c-80c6-a08ad142%04x", i*977%65536), Task: fmt.Sprintf("load-balancer-%d", i%7), Kind: state.KindApply, State: state.RunSucceeded,
			Reason: state.Reason{Code: state.ReasonChanged}, Times: state.Times{Started: noon.Add(time.Duration(i) * time.Minute), Ended: noon.Add(time.Duration(i)*time.Minute + 7*time.Second)},
			Work: state.Work{Changes: &state.Changes{Add: 1, Destroy: 1}, Entries: &state.EntryChanges{Added: 1, Entries: []state.EntryChange{{Action: "added", Name: fmt.Sprintf("web-%d", i), Group: "web"}}}}}
		task, err := state.Read[state.Task](t.Context(), b.store, state.TaskKey(run.Task))
		if err != nil {
			t.Fatal(err)
		}
		events := outbox.NewEvents(outbox.Number(&task.Data, outbox.OfRun(run)))
		if _, err := b.store.Apply(t.Context(), append(events.Changes(), task.Write(task.Data))...); err != nil {
			t.Fatal(err)
		}
	}
	b.deliver(0, nil)
	rec, err := b.store.Get(t.Context(), "events/latest")
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("the record has %d bytes", len(rec.Value)); len(rec.Value) > 6<<10 {
		t.Errorf("the record of %d events has %d bytes: each delivery writes it", outbox.MaxLatest, len(rec.Value))
	}
}
