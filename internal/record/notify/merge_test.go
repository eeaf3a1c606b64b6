package notify_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestSink_PeopleGetNoStepsAndNoRepetitions(t *testing.T) {
	slack, webhook := sinkOf(t, `notify "slack" { url = "http://x" }`, nil), sinkOf(t, `notify "webhook" { url = "http://x" }`, nil)
	pager := sinkOf(t, "notify \"webhook\" {\n url = \"http://x\"\n messages = true\n}", nil)
	steps := sinkOf(t, "notify \"slack\" {\n url = \"http://x\"\n events = [\"change_seen\", \"run_*\"]\n}", nil)
	everything := sinkOf(t, "notify \"slack\" {\n url = \"http://x\"\n messages = false\n}", nil)
	for _, tt := range []struct {
		event         outbox.Event
		people, steps bool
	}{
		{outbox.Event{Kind: outbox.RunFailed, Task: "web"}, true, true},
		{outbox.Event{Kind: outbox.RunFailed, Task: "web", Quiet: true}, false, false},
		{outbox.Event{Kind: outbox.ChangeSeen, Task: "web"}, false, true},
		{outbox.Event{Kind: outbox.RunDecided, Task: "web"}, false, true},
		{outbox.Event{Kind: outbox.TaskRecovered, Task: "web"}, true, false},
		{outbox.Event{Kind: outbox.TaskUnreadable, Task: "web", Quiet: true}, false, false},
		{outbox.Event{Kind: outbox.ConsulLost, Count: 15}, true, false},
	} {
		if slack.Wants(tt.event) != tt.people || pager.Wants(tt.event) != tt.people || steps.Wants(tt.event) != tt.steps || !webhook.Wants(tt.event) || !everything.Wants(tt.event) {
			t.Errorf("%+v", tt.event)
		}
	}

	team := sinkOf(t, "notify \"slack\" {\n url = \"http://x\"\n tasks = [\"web-*\"]\n}\ntask {\n name = \"web-1\"\n module = \"./m\"\n}", nil)
	for _, tt := range []struct {
		event outbox.Event
		want  bool
	}{
		{outbox.Event{Kind: outbox.TasksUnreadable}.About([]string{"db", "web-1"}), true},
		{outbox.Event{Kind: outbox.TasksUnreadable}.About([]string{"db"}), false},
		{outbox.Event{Kind: outbox.TasksUnreadable, Count: 200, Tasks: []string{"db"}}, true}, // perhaps
		{outbox.Event{Kind: outbox.ConsulLost, Count: 15}, false},
	} {
		if team.Wants(tt.event) != tt.want {
			t.Errorf("a team gets %+v: %v", tt.event, !tt.want)
		}
	}
}

func TestSlack_EventsOfOneKindAreOneMessage(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	s := sinkOf(t, `notify "slack" { url = "`+e.URL+`/services/T/B/x" }`, nil)
	var events []outbox.Event
	for i := range 25 {
		name := fmt.Sprintf("task-%02d", i)
		failed := outbox.Event{ID: name, Kind: outbox.RunFailed, At: noon, Task: name, Error: "apply of task " + name + ": no route to the firewall", URL: "http://t.example/ui/tasks/" + name, Started: noon}
		if i == 3 {
			failed.Error = "exit 1"
		}
		events = append(events, failed)
	}
	for _, name := range []string{"web", "db"} {
		events = append(events, outbox.Event{ID: name, Kind: outbox.RunWaiting, At: noon, Task: name, WaitFor: state.WaitApproval})
	}
	lost := outbox.Event{ID: "c", Kind: outbox.ConsulLost, At: noon, Count: 15, Error: "connection refused"}
	for i, err := range s.DeliverAll(t.Context(), append(events, lost)) {
		if err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	var got []string
	for _, body := range e.bodies {
		var message struct{ Text string }
		if err := json.Unmarshal([]byte(body), &message); err != nil {
			t.Fatal(err)
		}
		got = append(got, message.Text)
	}
	if len(got) != 4 || !strings.HasPrefix(got[1], "*web: run waits*") || !strings.HasPrefix(got[2], "*db: run waits*") ||
		got[3] != "*cannot watch Consul*\nError: connection refused\nTasks concerned: 15" {
		t.Fatalf("the messages are %q", got)
	}
	want := "*25 tasks: run failed*\nTasks: task-00, task-01, "
	for _, part := range []string{want, "task-19 and 5 more\n", "\nError: apply of task task-00: no route to the firewall (1 of the tasks report something else)\nSee: http://t.example/ui/tasks"} {
		if !strings.Contains(got[0], part) {
			t.Errorf("the message is\n%s\nwithout %q", got[0], part)
		}
	}
}

func TestSlack_MessageThatIsRefusedIsKeptForAllOfItsEvents(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	s := sinkOf(t, `notify "slack" { url = "`+e.URL+`/services/T/B/x" }`, nil)
	errs := s.DeliverAll(t.Context(), []outbox.Event{failed, {Kind: outbox.TaskRecovered, Task: "a"}, {Kind: outbox.RunFailed, Task: "b"}})
	for i, err := range errs {
		if err == nil {
			t.Errorf("event %d counts as taken", i)
		}
	}
	if len(e.bodies) != 1 {
		t.Errorf("an endpoint that is down got %d requests", len(e.bodies))
	}
}

func TestLines_SayHowLongItLasted(t *testing.T) {
	e := outbox.Event{Kind: outbox.TasksReadable, At: noon, Since: noon.Add(-5 * time.Minute)}
	for want, tasks := range map[string][]string{
		"2 tasks can be read again|Tasks: a, b|It lasted: 5m0s": {"a", "b"},
		"a: the task can be read again|It lasted: 5m0s":         {"a"},
	} {
		if got := strings.Join(notify.Lines(e.About(tasks)), "|"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	again := outbox.Event{Kind: outbox.RunFailed, Task: "web", Failures: 7, Since: noon, Error: "exit 1"}
	if got := strings.Join(notify.Lines(again), "|"); got != "web: run failed|Error: exit 1|Failing: 7 runs in a row, since 2026-07-01T12:00:00Z" {
		t.Error(got)
	}
}
