package reconcilefunction

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/terrapulse/terrapulse/internal/aws/eventbridge"
	"github.com/terrapulse/terrapulse/internal/aws/eventbridge/bustest"
	"github.com/terrapulse/terrapulse/internal/base/awsjson"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestReconcile_EventsWaitForTheBusAndTasksDoNot(t *testing.T) {
	s := newStack(t, "web", "api")
	bus := bustest.Start(t, "network")
	h := s.process()
	now := time.Now()
	h.now = func() time.Time { return now }
	h.engine.bus = []outbox.Sink{&eventbridge.Sink{Bus: "network", Stack: "test", Client: awsjson.New(aws.Config{Region: "eu-west-1", BaseEndpoint: &bus.URL,
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} }})}}

	bus.Refuse("ThrottlingException")
	if answer := s.must(h, schedule); len(answer.Runs) != 2 || len(bus.Events()) != 0 || bus.Requests() != 1 {
		t.Fatalf("%+v; the bus has %d events after %d requests", answer, len(bus.Events()), bus.Requests())
	}
	s.end(state.RunSucceeded)
	s.digest = "B"
	if answer := s.must(h, schedule); len(answer.Runs) != 2 || bus.Requests() != 1 { // the sink rests
		t.Fatalf("%+v after %d requests", answer, bus.Requests())
	}
	bus.Refuse("")
	now = now.Add(10 * time.Minute)
	s.must(h, schedule)
	kinds := map[string][]string{}
	for _, e := range bus.Events() {
		kinds[e.Detail.Task] = append(kinds[e.Detail.Task], e.DetailType)
	}
	for _, task := range []string{"web", "api"} {
		if want := []string{"run_decided", "change_seen", "run_decided"}; !slices.Equal(kinds[task], want) {
			t.Errorf("of %s the bus has %v, want %v", task, kinds[task], want)
		}
	}
	if want := []string{"configuration_in_force"}; !slices.Equal(kinds[""], want) {
		t.Errorf("of no task the bus has %v, want %v", kinds[""], want)
	}
}

func TestReconcile_TasksThatFailTogetherAreOneMessageOnTheBus(t *testing.T) {
	s := newStack(t, "web", "api")
	bus := bustest.Start(t, "network")
	h := s.process()
	now := time.Now()
	h.now = func() time.Time { return now }
	sink := &eventbridge.Sink{Bus: "network", Stack: "test", Client: awsjson.New(aws.Config{Region: "eu-west-1", BaseEndpoint: &bus.URL,
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} }})}
	h.engine.bus = []outbox.Sink{sink, eventbridge.Messages{Sink: sink}}
	s.must(h, schedule)
	s.end(state.RunSucceeded)
	messages := func() (all []string) {
		for _, e := range bus.Events() {
			if e.DetailType == eventbridge.MessageType {
				all = append(all, e.Detail.Message)
			}
		}
		return all
	}
	for _, name := range []string{"web", "api"} { // two runs of a launch end one after the other
		failed := outbox.Event{Kind: outbox.RunFailed, Seq: 1 << 60, At: now, Task: name, Run: "r-" + name, Error: "no route to the firewall"}
		if _, err := s.store.Apply(t.Context(), outbox.NewEvents(failed).Changes()...); err != nil {
			t.Fatal(err)
		}
		s.must(h, `{"mode":"reconcile","ended":true}`)
		if got := messages(); len(got) != 0 {
			t.Fatalf("a message was sent at once: %q", got)
		}
		now = now.Add(time.Second)
	}
	now = now.Add(10 * time.Second)
	s.must(h, schedule)
	if got := messages(); len(got) != 1 || got[0] != "2 tasks: run failed; Tasks: web, api; Error: no route to the firewall" {
		t.Errorf("the messages are %q", got)
	}
}
