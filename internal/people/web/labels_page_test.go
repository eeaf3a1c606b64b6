package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// newSites are firewalls that wait with plans at two sites, and a task that has no label.
func newSites(t *testing.T) *site {
	t.Helper()
	var hcl strings.Builder
	for name, site := range map[string]string{"fw-1": "muc", "fw-2": "muc", "fw-3": "ber"} {
		fmt.Fprintf(&hcl, "task {\n name = %q\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n labels = { site = %q }\n}\n", name, site)
	}
	s := newSiteOf(t, hcl.String()+tasksOnWeb("dns"))
	plan, text := poolPlan()
	for _, name := range []string{"fw-1", "fw-2", "fw-3"} {
		s.write(name, s.waits(name, plan, text))
	}
	s.write("dns", s.ran("dns", state.RunSucceeded, "web: changed"))
	return s
}

// approved returns which of the firewalls were approved.
func (s *site) approved() (names []string) {
	s.t.Helper()
	for _, name := range []string{"fw-1", "fw-2", "fw-3"} {
		known, err := state.Read[state.Task](s.t.Context(), s.store, state.TaskKey(name))
		if err != nil {
			s.t.Fatal(err)
		}
		if known.Data.Run.Resume != nil {
			names = append(names, name)
		}
	}
	return names
}

func TestPages_TasksAreFilteredAndGroupedByLabels(t *testing.T) {
	s := newSites(t)
	b := browsertest.New(t)
	reaches(t, b, s.url+"/ui/tasks?group=site", "2 tasks, 2 waiting", "1 task, 1 waiting", "without site", "dns")
	b.Window(1200, 900)
	b.Open(s.url + "/ui/tasks?label=site%3Dmuc")
	b.Until("fw-1", "fw-2")
	if list := b.Text("table.tasks"); strings.Contains(list, "fw-3") || strings.Contains(list, "dns") {
		t.Errorf("other tasks are listed: %s", list)
	}
	b.Open(s.url + "/ui/tasks/fw-3")
	b.Click("site=ber")
	b.Until("All tasks")
	if list := b.Text("table.tasks"); !strings.Contains(list, "fw-3") || strings.Contains(list, "fw-1") {
		t.Errorf("the label of a task leads to %s", list)
	}
}

func TestPages_GroupsAreShownWithoutScripts(t *testing.T) {
	s := newSites(t)
	b := browsertest.New(t)
	b.WithoutScripts()
	b.Open(s.url + "/ui/tasks?group=site&phase=waiting")
	b.Until("2 tasks, 2 waiting", "fw-2")
	if text := b.Text("main"); strings.Contains(text, "without site") {
		t.Errorf("a group without tasks is shown: %s", text)
	}
}

func TestPages_SeveralPlansAreApprovedAsTheyWereShown(t *testing.T) {
	s := newSites(t)
	b := browsertest.New(t)
	reaches(t, b, s.url+"/ui/approvals?label=site%3Dmuc", "Approve several plans", "fw-1", "fw-2", "11 of 64 resources", "module.load-balancer", "together")
	b.Window(1200, 900)
	b.Open(s.url + "/ui/tasks?label=site%3Dmuc")
	b.Click("Review and approve several")
	b.Until("fw-1", "fw-2", "Approve the chosen plans")
	if text := b.Text("main"); strings.Contains(text, "fw-3") {
		t.Errorf("another site is shown: %s", text)
	}
	plan, text := poolPlan()
	s.write("fw-2", s.waits("fw-2", plan, text)) // another plan, while a person reads
	b.Click("Approve the chosen plans")
	b.Until("1 of 2 are", "another plan of task 'fw-2' waits for an approval now")
	if got := strings.Join(s.approved(), " "); got != "fw-1" {
		t.Errorf("approved are %q", got)
	}
	b.Open(s.url + "/ui/approvals")
	b.Until("fw-2", "fw-3")
	b.Click("Approve the chosen plans")
	b.Until("You have approved the plans")
	if got := strings.Join(s.approved(), " "); got != "fw-1 fw-2 fw-3" {
		t.Errorf("approved are %q", got)
	}
}

func TestEventsPage_IsFilteredAndExportedByLabel(t *testing.T) {
	s := newSites(t)
	for i, task := range []string{"fw-1", "fw-3", "dns"} {
		s.happened(outbox.Event{Kind: outbox.HoldBegun, Seq: uint64(i + 1), At: morning, Task: task, By: "mia@example.com", Detail: "rack " + task})
	}
	b := browsertest.New(t)
	b.Open(s.url + "/ui/events")
	b.Until("rack fw-3")
	b.Fill("Label", "site=muc"+kb.Enter)
	b.Comes("label=site%3Dmuc")
	b.Until("rack fw-1", "Export as CSV")
	for where, text := range map[string]string{"page": b.Text("main"), "export": s.text("/ui/events/export?format=csv&label=site%3Dmuc")} {
		if !strings.Contains(text, "rack fw-1") || strings.Contains(text, "rack fw-3") || strings.Contains(text, "rack dns") {
			t.Errorf("the %s has other tasks: %s", where, text)
		}
	}
	b.Accessible()
}
