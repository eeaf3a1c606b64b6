package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestPages_ReplacedConsulIsApprovedOnceForAllTasks(t *testing.T) {
	s := newSite(t, "web", "dns", "core")
	rec := state.Reconcile{LastSuccess: time.Now(), Replaced: &state.Replaced{Since: time.Now().Add(-time.Minute), Why: "its index went back from 900 to 12", Tasks: 3, Entries: 9, Shown: "first"}}
	for i, name := range []string{"web", "dns", "core"} {
		s.write(name, state.Task{Applied: state.Applied{At: time.Now().Add(-time.Hour)}, Reason: state.Reason{Code: state.ReasonReplaced,
			Text: fmt.Sprintf("service %s: %d removed%s (%s): the task waits until the entries are back, or until `terrapulse approve -all`", name, i+2, state.LostByReplaced, rec.Replaced.Why)}})
	}
	save := func() {
		t.Helper()
		old, err := state.ReadReconcile(t.Context(), s.store)
		if err == nil {
			_, err = s.store.Apply(t.Context(), old.Write(rec))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	save()
	b := browsertest.New(t)
	url := s.url + "/ui/tasks"
	reaches(t, b, url, "Consul is not the one whose data was applied", "its index went back from 900 to 12", "3 tasks wait, and would lose 9 entries", "service dns: 3 removed")
	b.Open(s.url + "/ui/tasks/dns")
	b.Until("Consul was replaced", "Hold")
	if text := b.Text("main"); strings.Contains(text, "Run now") {
		t.Errorf("a run is offered: %s", text)
	}

	// What the page shows is not what would be lost now.
	b.Open(url)
	b.Click("Approve for all tasks")
	rec.Replaced.Shown = "second"
	save()
	b.Click("Approve, and lose 9 entries")
	b.Until("has changed since the page was shown") // the question before says what happens then, too
	b.Open(url)
	b.Click("Approve for all tasks")
	b.Click("Approve, and lose 9 entries")
	b.Until("You have approved what the tasks lose", "Approved by")
	now, err := state.ReadReconcile(t.Context(), s.store)
	if err != nil || now.Data.Replaced.Approved == nil || now.Data.Replaced.Approved.Shown != "second" {
		t.Errorf("approved %+v, %v", now.Data.Replaced, err)
	}
}
