package eventbridge_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/terrapulse/terrapulse/internal/aws/eventbridge"
	"github.com/terrapulse/terrapulse/internal/aws/eventbridge/bustest"
	"github.com/terrapulse/terrapulse/internal/base/awsjson"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 250e6, time.UTC)

// start returns a sink and its bus. Failures are not repeated.
func start(t *testing.T) (*eventbridge.Sink, *bustest.Bus) {
	t.Helper()
	bus := bustest.Start(t, "network")
	return &eventbridge.Sink{Bus: "network", Stack: "prod", Client: awsjson.New(aws.Config{Region: "eu-west-1", BaseEndpoint: &bus.URL,
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} }})}, bus
}

// changes are events of n tasks.
func changes(n int) (events []outbox.Event) {
	for i := range n {
		events = append(events, outbox.Event{ID: fmt.Sprintf("e.%d", i), Kind: outbox.ChangeSeen, Seq: 1, At: noon, Task: fmt.Sprintf("task-%d", i), Detail: "changed"})
	}
	return events
}

func TestDeliver_EventReachesTheBusWithItsStackAndInWords(t *testing.T) {
	sink, bus := start(t)
	event := outbox.Event{ID: "e.0", Kind: outbox.RunFailed, Seq: 7, At: noon, Task: "web", Run: "r1", Reason: state.ReasonChanged, Error: "exit 1:\n\"no\" \\ right"}
	if err := sink.Deliver(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	got := bus.Events()[0]
	if got.Bus != "network" || got.Source != "terrapulse" || got.DetailType != "run_failed" || !got.Time.Equal(noon) || !reflect.DeepEqual(got.Detail.Event, event) || got.Detail.Stack != "prod" {
		t.Errorf("the event is %+v", got)
	}
	if want := "web: run failed; Why: condition changed; Error: exit 1: 'no' / right"; got.Detail.Message != want {
		t.Errorf("its message is %s, want %s", got.Detail.Message, want)
	}
}

func TestDeliverAll_IsOneRequestAndSaysWhichEventFailed(t *testing.T) {
	sink, bus := start(t)
	bus.Fail = func(e bustest.Event) string {
		switch e.Detail.Task {
		case "task-1":
			return "InternalFailure"
		case "task-2":
			return "MalformedDetail"
		case "task-3":
			return "ThrottlingException"
		case "task-4":
			return "NotAuthorizedForSourceException"
		}
		return ""
	}
	errs := sink.DeliverAll(t.Context(), changes(10))
	if bus.Requests() != 1 || len(bus.Events()) != 6 || len(errs) != 10 {
		t.Fatalf("%d requests, %d events, errors %v", bus.Requests(), len(bus.Events()), errs)
	}
	for i, err := range errs {
		failed, down, person := i > 0 && i < 5, i == 3 || i == 4, i == 2 || i == 4
		if (err != nil) != failed || errors.As(err, new(*outbox.DownError)) != down || fault.NeedsPerson(err) != person {
			t.Errorf("event %d: %v", i, err)
		}
	}
}

func TestDeliverAll_KeepsTheLimitOfBytes(t *testing.T) {
	sink, bus := start(t)
	events := changes(10)
	for i := range events {
		events[i].Detail = strings.Repeat("x", 40<<10)
	}
	if err := errors.Join(sink.DeliverAll(t.Context(), events)...); err != nil || bus.Requests() != 2 || len(bus.Events()) != 10 {
		t.Errorf("%d requests, %d events: %v", bus.Requests(), len(bus.Events()), err)
	}
}

func TestDeliver_EventThatIsTooLargeLosesItsLists(t *testing.T) {
	sink, bus := start(t)
	event := changes(1)[0]
	event.Entries = &state.EntryChanges{Added: 2, Entries: []state.EntryChange{{Name: "web"}, {Name: strings.Repeat("x", 300<<10)}}}
	if err := sink.Deliver(t.Context(), event); err != nil || len(bus.Events()) != 1 || bus.Events()[0].Detail.Entries != nil || !strings.Contains(bus.Events()[0].Detail.Message, "changed") {
		t.Errorf("%v; the bus has %.300s", err, fmt.Sprint(bus.Events()))
	}
}

func TestDeliverAll_RefusedRequestConcernsAllEvents(t *testing.T) {
	sink, bus := start(t)
	for code, want := range map[string]struct {
		person bool
		text   string
	}{
		"AccessDeniedException": {true, "ReconcileRole needs events:PutEvents"},
		"ValidationException":   {true, "ValidationException"},
		"ThrottlingException":   {false, "ThrottlingException"},
	} {
		bus.Refuse(code)
		for _, err := range sink.DeliverAll(t.Context(), changes(2)) {
			if !errors.As(err, new(*outbox.DownError)) || fault.NeedsPerson(err) != want.person || !strings.Contains(err.Error(), want.text) || !strings.Contains(err.Error(), "the bus network") {
				t.Errorf("%s: %v", code, err)
			}
		}
	}
	sink, _ = start(t)
	sink.Client = awsjson.New(aws.Config{Region: "eu-west-1", BaseEndpoint: aws.String("http://127.0.0.1:1"),
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} }})
	if err := sink.Deliver(t.Context(), changes(1)[0]); !errors.As(err, new(*outbox.DownError)) || fault.NeedsPerson(err) || !strings.Contains(err.Error(), "an endpoint for events") {
		t.Errorf("without an answer: %v", err)
	}
}

func TestCheck_SaysThatThereIsNoSuchBus(t *testing.T) {
	sink, _ := start(t)
	if found, err := sink.Check(t.Context()); err != nil || !strings.Contains(found, "network") {
		t.Errorf("%s, %v", found, err)
	}
	sink.Bus = "other"
	if _, err := sink.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "the event bus other") || !strings.Contains(err.Error(), "ResourceNotFoundException") {
		t.Errorf("%v", err)
	}
}
