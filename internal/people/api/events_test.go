package api_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

func TestEvents_LatestComesFirstInWords(t *testing.T) {
	e := start(t, files)
	broken := errors.New("the module is broken")
	e.fail("web", broken)
	e.ask("POST", "/v1/tasks/web/run", "")
	var answer apispec.EventsResponse
	var failed int
	eventually(t, "the failure is shown", func() bool {
		decode(t, e.get("/v1/events"), &answer)
		failed = slices.IndexFunc(answer.Events, func(e apispec.LatestEvent) bool { return e.Kind == "run_failed" })
		return failed >= 0
	})
	f := answer.Events[failed]
	if f.Subject != "task" || f.Level != apispec.EventLevelError || *f.Task != "web" || f.Run == nil || f.Text != "run failed" ||
		!strings.Contains(strings.Join(*f.Details, "\n"), "Error: "+broken.Error()) {
		t.Errorf("the failure is %+v", f)
	}
	for i, later := range answer.Events[:len(answer.Events)-1] {
		if later.At.Before(answer.Events[i+1].At) {
			t.Errorf("event %d, %s, is older than the next one", i, later.Kind)
		}
	}
	if first := answer.Events[len(answer.Events)-1]; first.Subject == "task" || first.Task != nil {
		t.Errorf("the oldest event is %+v", first)
	}
}

func TestEvents_AreSelectedByTheLabelsThatTasksHaveNow(t *testing.T) {
	e := newEngine(t, firewall("fw-1", "muc", "")+firewall("fw-2", "ber", "")+someTasks("dns"))
	at := time.Now()
	events := []outbox.Event{{Kind: outbox.LeadershipTaken, Seq: 1, At: at, By: "net-1"}}
	for i, task := range []string{"fw-1", "fw-2", "dns", "gone"} {
		events = append(events, outbox.Event{Kind: outbox.HoldBegun, Seq: uint64(i + 2), At: at, Task: task, By: "ann"})
	}
	if _, err := e.store.Apply(t.Context(), outbox.NewEvents(events...).Changes()...); err != nil {
		t.Fatal(err)
	}
	about := func(ask asking, query string) string {
		t.Helper()
		code, said := ask("GET", "/v1/events"+query, "")
		var answer apispec.EventsResponse
		if err := json.Unmarshal([]byte(said), &answer); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", query, code, said)
		}
		var tasks []string
		for _, e := range answer.Events {
			tasks = append(tasks, apispec.Deref(e.Task))
		}
		slices.Sort(tasks)
		return strings.Join(tasks, " ")
	}
	all := e.answers(everything)
	for query, want := range map[string]string{
		"": " dns fw-1 fw-2 gone", "?label=site%3Dmuc": "fw-1", "?label=site%3Dmuc,ber": "fw-1 fw-2", "?label=site%3D": "dns gone", "?label=site%3Dmuc&label=site%3Dber": "", "?label=site%3Dmuc,ber&task=fw-2": "fw-2",
	} {
		if got := about(all, query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if got := about(e.granted("ann", forSite("ber", roles.View)), "?label=site%3Dmuc,ber"); got != "fw-2" {
		t.Errorf("who may view one site sees events of %s", got)
	}
	all.wants(t, "GET", "/v1/events?label=muc", "", 400)
	e.base.Store(load(t, firewall("fw-1", "ber", "")))
	if got := about(all, "?label=site%3Dber"); got != "fw-1" {
		t.Errorf("after a change of the files: %s", got)
	}
}
