package api_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestEvents_LatestComesFirstInWords(t *testing.T) {
	e := start(t, files)
	broken := errors.New("the module is broken")
	e.fail("web", broken)
	e.ask("POST", "/v1/tasks/web/run", "")
	var answer apispec.EventsResponse
	var failed int
	eventually(t, "the failure is shown", func() bool {
		if err := json.Unmarshal([]byte(e.get("/v1/events").body), &answer); err != nil {
			t.Fatal(err)
		}
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
