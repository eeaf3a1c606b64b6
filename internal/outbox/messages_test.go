package outbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

// TestOfEnd_FailingTaskIsAMessageWhenItBeginsAfterAnHourAndWhenItHasRecovered concludes a failed
// run every 10 minutes, and a success after two hours.
func TestOfEnd_FailingTaskIsAMessageWhenItBeginsAfterAnHourAndWhenItHasRecovered(t *testing.T) {
	var task state.Task
	var messages []outbox.Event
	events := 0
	ends := func(s state.RunState, at time.Time) {
		run := state.Run{ID: "r", Task: "web", Kind: state.KindApply, State: s, Ended: at, Error: "exit 1"}
		next, _ := task.Conclude(run, "d")
		for _, e := range outbox.OfEnd(task, next, run) {
			if events++; !e.Quiet {
				messages = append(messages, e)
			}
		}
		task = next
	}
	for at := noon; at.Before(noon.Add(2 * time.Hour)); at = at.Add(10 * time.Minute) {
		ends(state.RunFailed, at)
	}
	ends(state.RunSucceeded, noon.Add(2*time.Hour))
	if events != 14 || len(messages) != 3 {
		t.Fatalf("%d events, of which people get %v", events, messages)
	}
	begins, still, recovered := messages[0], messages[1], messages[2]
	if begins.Kind != outbox.RunFailed || begins.Failures != 1 || !begins.Since.IsZero() {
		t.Errorf("it begins with %+v", begins)
	}
	if still.Kind != outbox.RunFailed || still.Failures != 7 || !still.Since.Equal(noon) || !still.At.Equal(noon.Add(time.Hour)) {
		t.Errorf("after an hour: %+v", still)
	}
	if recovered.Kind != outbox.TaskRecovered || recovered.Failures != 12 || !recovered.Since.Equal(noon) || recovered.Run != "r" {
		t.Errorf("it has recovered: %+v", recovered)
	}
}

// patient is a sink that gathers events.
type patient struct{ *sink }

func (patient) Patience() time.Duration { return 10 * time.Second }

func TestDelivery_PatientSinkGathersEvents(t *testing.T) {
	b := onSQLite(t)
	people, log := patient{&sink{name: "people"}}, &sink{name: "log"}
	b.happens("first", b.now, "web")
	report, err := b.delivery(people, log).Run(t.Context())
	if err != nil || report.Left != 1 || !report.Again.Equal(noon.Add(10*time.Second)) || people.heard() != "" || log.heard() != "web:first" {
		t.Fatalf("at once: %+v, %v; people heard %q and the log %q", report, err, people.heard(), log.heard())
	}
	b.now = noon.Add(9 * time.Second)
	b.happens("second", b.now, "db")
	b.deliver(2, nil, people, log)
	b.now = noon.Add(10 * time.Second)
	if b.deliver(0, nil, people, log); people.heard() != "web:first db:second" {
		t.Errorf("after a while people heard %q", people.heard())
	}

	b.happens("third", b.now, "web")
	last := b.delivery(people, log)
	last.Last = true
	if _, err := last.Run(context.Background()); err != nil || people.heard() != "web:first db:second web:third" {
		t.Errorf("a process that ends: people heard %q, %v", people.heard(), err)
	}
}
