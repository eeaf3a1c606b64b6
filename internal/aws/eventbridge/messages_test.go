package eventbridge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/eventbridge"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestMessages_TasksThatFailTogetherAreOneMessage(t *testing.T) {
	sink, bus := start(t)
	var events []outbox.Event
	for i := range 25 {
		name := fmt.Sprintf("fw-%02d", i)
		events = append(events, outbox.Event{ID: "e." + name, Kind: outbox.RunFailed, Seq: 1, At: noon, Task: name, Run: "r-" + name, Error: "apply of task " + name + ": no route"})
	}
	for _, name := range []string{"web", "db"} { // each has a command of its own
		events = append(events, outbox.Event{ID: name, Kind: outbox.RunWaiting, Seq: 1, At: noon, Task: name, WaitFor: state.WaitApproval, Plan: "p-" + name})
	}
	for i, err := range (eventbridge.Messages{Sink: sink}).DeliverAll(t.Context(), events) {
		if err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	var got []string
	for _, e := range bus.Events() {
		if e.DetailType != "message" || e.Source != "terrapulse" || e.Detail.Stack != "prod" {
			t.Errorf("the bus has %+v", e)
		}
		got = append(got, fmt.Sprintf("%s of %d: %s", e.Detail.Kind, e.Detail.Count, e.Detail.Message))
	}
	if len(got) != 3 || !strings.HasPrefix(got[0], "run_failed of 25: 25 tasks: run failed; ") || !strings.HasSuffix(got[0], "; Error: apply of task fw-00: no route") ||
		!strings.Contains(got[1], "web: run waits") || !strings.Contains(got[2], "db: run waits") {
		t.Errorf("the messages are:\n%s", strings.Join(got, "\n"))
	}
}

func TestMessages_RefusedMessageIsKeptForAllOfItsEvents(t *testing.T) {
	sink, bus := start(t)
	bus.Refuse("ThrottlingException")
	failed := outbox.Event{Kind: outbox.RunFailed, At: noon, Error: "no route"}
	events := []outbox.Event{failed, failed, {Kind: outbox.ConsulLost, At: noon}}
	events[0].Task, events[1].Task = "web", "db"
	for i, err := range (eventbridge.Messages{Sink: sink}).DeliverAll(t.Context(), events) {
		if !errors.As(err, new(*outbox.DownError)) {
			t.Errorf("event %d: %v", i, err)
		}
	}
}

func TestMessages_ManyAreSeveralRequests(t *testing.T) {
	sink, bus := start(t)
	var events []outbox.Event
	for i := range 25 {
		events = append(events, outbox.Event{Kind: outbox.RunWaiting, At: noon, Task: fmt.Sprint(i), WaitFor: state.WaitApproval})
	}
	if err := errors.Join((eventbridge.Messages{Sink: sink}).DeliverAll(t.Context(), events)...); err != nil || bus.Requests() != 3 || len(bus.Events()) != 25 {
		t.Errorf("%d requests, %d messages: %v", bus.Requests(), len(bus.Events()), err)
	}
}

func TestMessages_AreAboutWhatNeedsAPerson(t *testing.T) {
	var kinds []string
	for _, kind := range outbox.Kinds() {
		if (eventbridge.Messages{}).Wants(outbox.Event{Kind: kind}) {
			kinds = append(kinds, string(kind))
		}
	}
	want := []string{"configuration_refused", "consul_found", "consul_lost", "consul_replaced", "drift_found", "run_failed", "run_lost", "run_unverified", "run_waiting", "task_delayed", "task_recovered", "task_verified", "tasks_readable", "tasks_unreadable"}
	if !slices.Equal(kinds, want) {
		t.Errorf("messages are about %v, want %v", kinds, want)
	}
	for _, e := range []outbox.Event{{Kind: outbox.RunFailed, Quiet: true}, {Kind: outbox.RunUnverified, Quiet: true}, {Kind: outbox.RunWaiting, WaitFor: state.WaitWindow}, {Kind: outbox.RunWaiting, WaitFor: state.WaitRemote}} {
		if (eventbridge.Messages{}).Wants(e) {
			t.Errorf("there is a message about %+v", e)
		}
	}
	if !(eventbridge.Messages{}).Wants(outbox.Event{Kind: outbox.RunWaiting, WaitFor: state.WaitApproval}) {
		t.Error("there is no message about a plan that waits for approval")
	}
}

// TestMessages_SayThatATaskIsNotVerifiedAndThatItIsAgain sends what the end of three runs writes.
func TestMessages_SayThatATaskIsNotVerifiedAndThatItIsAgain(t *testing.T) {
	sink, bus := start(t)
	var task state.Task
	for i, results := range [][]state.Verified{
		{{Name: "vip", State: state.VerifyFailed, Detail: "connection refused"}},
		{{Name: "vip", State: state.VerifyFailed, Detail: "connection refused"}},
		{{Name: "vip", State: state.VerifyPassed}},
	} {
		run := state.Run{ID: fmt.Sprint("r", i), Task: "edge", Kind: state.KindApply, State: state.RunSucceeded, Times: state.Times{Ended: noon},
			Work: state.Work{Digest: "d", Verification: state.NewVerification(results)}}
		next, _ := task.Conclude(run, "d")
		for _, e := range outbox.OfEnd(task, next, run) {
			if messages := (eventbridge.Messages{Sink: sink}); messages.Wants(e) {
				if err := messages.Deliver(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		}
		task = next
	}
	var got []string
	for _, e := range bus.Events() {
		got = append(got, e.Detail.Message)
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], "edge: the run is applied and not verified") || !strings.Contains(got[0], "vip failed: connection refused") || !strings.HasPrefix(got[1], "edge: the task is verified again") {
		t.Errorf("the messages are:\n%s", strings.Join(got, "\n"))
	}
}
