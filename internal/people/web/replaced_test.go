package web

import (
	"fmt"
	"slices"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func replacedTask(name string) apispec.TaskOverview {
	return apispec.TaskOverview{Name: name, Enabled: true, Phase: apispec.PhaseWaiting, Reason: apispec.Reason{Code: state.ReasonReplaced,
		Text: "service web: 3 removed" + state.LostByReplaced + " (its index went back from 900 to 12): the task waits until the entries are back, or until `terrapulse approve -all`"}}
}

func failingTask(name, failure string, attempt int) apispec.TaskOverview {
	return apispec.TaskOverview{Name: name, Enabled: true, Phase: apispec.PhaseFailing, Error: &failure,
		Reason: apispec.Reason{Code: state.ReasonBackoff, Text: fmt.Sprintf("retry number %d at 2026-01-02T03:04:05Z", attempt)}}
}

func TestTasks_ReplacedConsulIsOneBanner(t *testing.T) {
	o := some(failingTask("dns", "no route to host", 3))
	for i := range 14 {
		o.Tasks = append(o.Tasks, replacedTask(fmt.Sprintf("t%02d", i)))
	}
	o.Replaced = &apispec.ReplacedConsul{Why: "its index went back from 900 to 12", Tasks: 14, Entries: 42, Shown: "digest"}
	page := tasksPageOf(t, o, nil)
	b := page.Replaced
	if len(page.Urgent) != 1 || len(page.Alerts) != 0 || b == nil || len(b.Losses) != maxLosses || b.More != 4 {
		t.Fatalf("urgent %d, alerts %v, banner %+v", len(page.Urgent), page.Alerts, b)
	}
	if got := whyOf(b.Losses[0]); got != "service web: 3 removed" {
		t.Errorf("a task loses %q", got)
	}
	if b.Approve == nil || b.Approve.Plan != "digest" || b.Approve.Confirm != "Approve, and lose 42 entries" {
		t.Errorf("button %+v", b.Approve)
	}
	if got := needing(t, o); got != "1 alert and 1 task need attention." {
		t.Error(got)
	}
	o.Replaced.ApprovedBy = new("mia")
	if tasksPageOf(t, o, nil).Replaced.Approve != nil {
		t.Error("what was approved can be approved again")
	}
	if o.Replaced = nil; tasksPageOf(t, o, nil).Replaced != nil {
		t.Error("a banner without a replaced Consul")
	}
}

func TestTasks_EqualReasonsAreGroupedAndErrorsAreShown(t *testing.T) {
	o := some(failingTask("a", "dial tcp 10.0.0.1:443: no route to host\nmore", 3), failingTask("b", "dial tcp 10.0.0.1:443: no route to host", 7), failingTask("c", "quota exceeded", 1),
		failingTask("fw-1", "terraform apply of task fw-1: no such image", 1), failingTask("fw-2", "terraform apply of task fw-2: no such image", 1))
	o.Tasks[3].Changed, o.Tasks[4].Changed = new("web: +web-1"), new("web: +web-2")
	for i := range 7 {
		o.Tasks = append(o.Tasks, apispec.TaskOverview{Name: fmt.Sprintf("u%d", i), Phase: apispec.PhaseUnreadable, Reason: apispec.Reason{Text: "connection refused"}})
	}
	for _, name := range []string{"p1", "p2"} {
		o.Tasks = append(o.Tasks, apispec.TaskOverview{Name: name, Phase: apispec.PhaseWaiting, Run: &apispec.Run{Wait: &apispec.Wait{For: apispec.WaitForApproval}}, Reason: apispec.Reason{Text: "waits for approval"}})
	}
	page := tasksPageOf(t, o, nil)
	var got []string
	for _, g := range page.Groups {
		got = append(got, fmt.Sprintf("%s: %s: %d, %d more%s", g.First.Name, g.Why, len(g.Named()), g.More(), g.What))
	}
	want := []string{"a: dial tcp 10.0.0.1:443: no route to host: 2, 0 more", "c: quota exceeded: 1, 0 more",
		"fw-1: terraform apply of task fw-1: no such image: 2, 0 more", "u0: connection refused: 5, 2 more",
		"p1: waits for approval: 1, 0 more", "p2: waits for approval: 1, 0 more"}
	if !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
	if page.MoreUrgent != 0 {
		t.Errorf("%d tasks are in no group", page.MoreUrgent)
	}
}

func TestActions_RunIsNotOfferedWhereItCannotRun(t *testing.T) {
	task := func(phase apispec.Phase, code state.ReasonCode) apispec.TaskOverview {
		return apispec.TaskOverview{Name: "t", Enabled: true, Phase: phase, Reason: apispec.Reason{Code: code}}
	}
	for _, tt := range []struct {
		task apispec.TaskOverview
		runs bool
	}{
		{task(apispec.PhaseApplied, state.ReasonUnchanged), true},
		{task(apispec.PhaseSoon, state.ReasonOutside), true},
		{task(apispec.PhaseStopped, state.ReasonRejected), true},
		{replacedTask("t"), false},
		{task(apispec.PhaseStopped, state.ReasonPaused), false},
		{task(apispec.PhaseFailing, state.ReasonBlocked), false},
	} {
		for _, failed := range []bool{false, true} {
			if tt.task.LastRun = nil; failed {
				tt.task.LastRun = &apispec.Run{State: apispec.RunStateFailed}
			}
			offered := slices.ContainsFunc(actionsOf(taskPage{Task: tt.task, Definition: &apispec.Task{}}), func(a action) bool { return a.Name == "run" })
			if offered != tt.runs {
				t.Errorf("%s, %s: a run is offered: %v", tt.task.Phase, tt.task.Reason.Code, offered)
			}
		}
	}
}
