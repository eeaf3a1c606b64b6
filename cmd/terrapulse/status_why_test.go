package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// printed is what status prints, without line breaks.
func printed(o apispec.Overview, now time.Time) string {
	var out bytes.Buffer
	_, _ = (&app{stdout: &out}).printStatus(onePart(o, nil), now)
	return unwrapped(out.String())
}

func TestStatus_ReasonOfManyTasksIsPrintedOnce(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var o apispec.Overview
	failing := func(n int) {
		name := fmt.Sprintf("fw-%02d", n)
		o.Tasks = append(o.Tasks, apispec.TaskOverview{Name: name, Phase: apispec.PhaseFailing, Failures: new(2), Reason: apispec.Reason{Text: fmt.Sprintf("retry number %d at noon", n)},
			Error: new("terraform apply of task " + name + ": no route to the firewall")})
	}
	for n := range 3 {
		failing(n)
		o.Tasks = append(o.Tasks, apispec.TaskOverview{Name: fmt.Sprintf("dns-%d", n), Phase: apispec.PhaseUnreadable, Reason: apispec.Reason{Text: "permission denied"}})
	}
	const error0, error2 = "terraform apply of task fw-00: no route to the firewall", "terraform apply of task fw-02: no route to the firewall"
	out := printed(o, now)
	if strings.Count(out, "permission denied") != 3 || !strings.Contains(out, "why: retry number 2 at noon: "+error2) || strings.Contains(out, "tasks are") {
		t.Errorf("three tasks with the same reason:\n%s", out)
	}

	for n := 3; n < 15; n++ {
		failing(n)
	}
	out = printed(o, now)
	wantText(t, out, "15 tasks are failing (fw-00, fw-01, fw-02 and 12 more): "+error0, "why: retry number 0 at noon", "why: retry number 14 at noon", "fw-14")
	if n := strings.Count(out, "no route to the firewall"); n != 1 {
		t.Errorf("the error of 15 tasks is printed %d times:\n%s", n, out)
	}
	if n := strings.Count(out, "permission denied"); n != 3 {
		t.Errorf("the reason of three tasks is printed %d times:\n%s", n, out)
	}
}

func TestStatus_ReplacedConsulIsExplainedOnce(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const because = "its index went back from 900 to 12"
	o := apispec.Overview{Replaced: &apispec.ReplacedConsul{Why: because, Since: now.Add(-3 * time.Minute), Tasks: 2, Entries: 7}}
	for _, name := range []string{"db", "web"} {
		o.Tasks = append(o.Tasks, apispec.TaskOverview{Name: name, Phase: apispec.PhaseWaiting, Reason: apispec.Reason{Code: state.ReasonReplaced,
			Text: "service " + name + ": 3 removed" + state.LostByReplaced + " (" + because + "): the task waits until the entries are back, or until `terrapulse approve -all`"}})
	}
	out := printed(o, now)
	wantText(t, out, "Consul was replaced 3m ago: "+because+". 2 tasks wait and would lose 7 entries, until the entries are back or `terrapulse approve -all` approves the loss",
		"why: service db: 3 removed", "why: service web: 3 removed")
	if strings.Count(out, because) != 1 || strings.Count(out, "approve -all") != 1 {
		t.Errorf("it is explained more than once:\n%s", out)
	}
	o.Replaced.ApprovedBy = new("mia")
	wantText(t, printed(o, now), "would lose 7 entries; mia has approved that")
}
