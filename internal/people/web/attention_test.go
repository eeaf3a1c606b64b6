package web

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// some is an overview of an instance that leads.
func some(tasks ...apispec.TaskOverview) apispec.Overview {
	return apispec.Overview{Healthy: true, Leader: &apispec.Leader{Owner: "host"}, Tasks: tasks}
}

// tasksPageOf is the page of tasks of an instance whose API has this overview of all tasks.
func tasksPageOf(t *testing.T, all apispec.Overview, query url.Values) tasksPage {
	t.Helper()
	f := tasksFilter(query)
	selected := func(s selection.Selection) apispec.Overview {
		o := all
		if err := s.Apply(&o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	losses := selected(selection.Selection{Reason: string(state.ReasonReplaced)}.First(maxLosses)).Tasks
	return tasksOf(selected(f.selection()), losses, f)
}

// needing is how much of an overview of all tasks needs attention.
func needing(t *testing.T, o apispec.Overview) string {
	t.Helper()
	if err := selection.None().Apply(&o); err != nil {
		t.Fatal(err)
	}
	return attentionOf(o).String()
}

func TestTasks_MostUrgentIsFirst(t *testing.T) {
	in := func(name string, phase apispec.Phase, code state.ReasonCode) apispec.TaskOverview {
		return apispec.TaskOverview{Name: name, Enabled: true, Phase: phase, NeedsPerson: lifecycle.RowOf(code).Person, Reason: apispec.Reason{Code: code}}
	}
	approval := in("approval", apispec.PhaseWaiting, "waiting")
	approval.Run = &apispec.Run{Wait: &apispec.Wait{For: apispec.WaitForApproval}}
	o := some(in("applied", apispec.PhaseApplied, "unchanged"), in("by-person", apispec.PhaseStopped, "on_hold"), in("drifted", apispec.PhaseDrifted, "unchanged"),
		in("rejected", apispec.PhaseStopped, "rejected"), in("cancelled", apispec.PhaseStopped, "cancelled"), approval, in("window", apispec.PhaseSoon, "outside_window"), in("running", apispec.PhaseRunning, "condition_changed"),
		in("failing", apispec.PhaseFailing, "backing_off"), in("blocked", apispec.PhaseFailing, "blocked"), in("by-name", apispec.PhaseWaiting, "renamed"))
	names := func(tasks []*apispec.TaskOverview) []string {
		var all []string
		for _, t := range tasks {
			all = append(all, t.Name)
		}
		return all
	}
	urgent := []string{"blocked", "failing", "approval", "by-name", "by-person", "drifted", "rejected"}
	if diff := cmp.Diff(urgent, names(tasksPageOf(t, o, nil).Urgent)); diff != "" {
		t.Errorf("needs attention: %s", diff)
	}
	page := tasksPageOf(t, o, url.Values{"phase": {string(selection.Attention)}, "sort": {"phase"}})
	if diff := cmp.Diff(urgent, names(page.Tasks)); diff != "" {
		t.Errorf("selected: %s", diff)
	}
	if diff := cmp.Diff(append(urgent, "applied", "cancelled", "running", "window"), names(tasksPageOf(t, o, url.Values{"sort": {"phase"}}).Tasks)); diff != "" {
		t.Errorf("all by phase: %s", diff)
	}
	if got := needing(t, o); got != "7 tasks need attention." {
		t.Error(got)
	}
}

// The title of each page counts what needs attention: while failing tasks wait for a retry, are queued, launched and
// run, it stays the same.
func TestAttention_RetriesOfFailingTasksDoNotChangeTheTitle(t *testing.T) {
	live := &state.LiveRun{ID: "r1"}
	for name, f := range map[string]lifecycle.Facts{
		"backing off": {Task: state.Task{Reason: state.Reason{Code: state.ReasonBackoff}}},
		"queued":      {Task: state.Task{Reason: state.Reason{Code: state.ReasonQueued}}},
		"intended":    {Task: state.Task{Reason: state.Reason{Code: state.ReasonRetry}, Run: live}, Run: state.Run{State: state.RunIntended}},
		"running":     {Task: state.Task{Reason: state.Reason{Code: state.ReasonRunning}, Run: live}, Run: state.Run{State: state.RunRunning}},
	} {
		f.Setting, f.Task.Failing = lifecycle.Enabled, state.Failing{Count: 3, Error: "broken"}
		v := f.Assess()
		shown := apispec.TaskOverview{Name: "lb", Enabled: true, Phase: apispec.Phase(v.Phase), NeedsPerson: v.Person, Reason: apispec.Reason{Code: v.Reason.Code}}
		if got := needing(t, some(shown)); got != "1 task needs attention." {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTasks_SearchFindsEveryWord(t *testing.T) {
	o := some(apispec.TaskOverview{Name: "edge", Watches: new("services api and web in datacenter dc1"), Reason: apispec.Reason{Text: "nothing changed"}},
		apispec.TaskOverview{Name: "core", Watches: new("key net/acl"), Changed: new("key net/acl: changed")})
	for search, want := range map[string]int{"API dc1": 1, "api acl": 0, "net/acl": 1, "nothing": 1, "changed": 2, "  ": 2, "edge core": 0} {
		if got := tasksPageOf(t, o, url.Values{"q": {search}}).Matches; got != want {
			t.Errorf("%q finds %d tasks, want %d", search, got, want)
		}
	}
}

func TestTasks_SortedByTimeThoseWithoutAreLast(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	due := func(name string, after time.Duration) apispec.TaskOverview {
		t := apispec.TaskOverview{Name: name}
		if after > 0 {
			at := now.Add(after)
			t.Due = &at
		}
		return t
	}
	o := some(due("a", 0), due("b", 2*time.Hour), due("c", time.Hour))
	for sort, want := range map[string]string{"due": "cba", "-due": "abc", "name": "abc", "-name": "cba", "nonsense": "abc"} {
		var got strings.Builder
		page := tasksPageOf(t, o, url.Values{"sort": {sort}})
		for _, t := range page.Tasks {
			got.WriteString(t.Name)
		}
		if got.String() != want {
			t.Errorf("by %s: %s, want %s", sort, got.String(), want)
		}
	}
	if got := tasksFilter(url.Values{"sort": {"-due"}}).Sorts(); got[len(got)-1] != (sorting{"-due", "next due first, reversed"}) {
		t.Errorf("a search would change the order: %v", got)
	}
	f := tasksFilter(url.Values{"sort": {"due"}, "q": {"x y"}, "after": {"web"}})
	for key, want := range map[string]string{f.SortLink("due"): "/ui/tasks?q=x+y&sort=-due", f.SortLink("name"): "/ui/tasks?q=x+y", f.link("before", "dns"): "/ui/tasks?before=dns&q=x+y&sort=due",
		f.link("phase", "waiting"): "/ui/tasks?phase=waiting&q=x+y&sort=due"} {
		if key != want {
			t.Errorf("link %s, want %s", key, want)
		}
	}
}

func TestAlerts_SayEachThingOnce(t *testing.T) {
	o := apispec.Overview{Problem: new("connection refused"), Unhealthy: new("Consul cannot be watched since 02:13: connection refused"),
		Refused: &apispec.Refused{Error: "tasks.hcl:4: wrong"}}
	var got []string
	for _, a := range alerts(o) {
		got = append(got, a.Text)
	}
	want := []string{"Consul cannot be watched since 02:13: connection refused", "Nobody leads: nothing watches Consul.", "A newer configuration is not in force: tasks.hcl:4: wrong"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := needing(t, o); got != "3 alerts need attention." {
		t.Error(got)
	}
}

func TestAlerts_NewDeploymentInAWSNeedsABundleAndNoLeader(t *testing.T) {
	got := alerts(apispec.Overview{Unhealthy: new("no bundle was pushed yet"), Links: &apispec.ConsoleLinks{}})
	if len(got) != 1 || got[0].Text != "no bundle was pushed yet" {
		t.Errorf("%+v", got)
	}
}

func TestStrip_SaysHowTheLatestRunsEnded(t *testing.T) {
	if stripOf(apispec.TaskOverview{}) != nil {
		t.Error("a task that never ran has a strip")
	}
	recent := []apispec.RecentRun{{State: apispec.RunStateSucceeded}, {State: apispec.RunStateFailed}, {State: apispec.RunStateSucceeded}}
	want := &strip{Label: "3 latest runs: 2 succeeded, 1 failed", Paths: []stripPath{
		{good, "M102 7h4v9h-4zM114 7h4v9h-4z"}, {bad, "M108 0h4v16h-4z"}}}
	if diff := cmp.Diff(want, stripOf(apispec.TaskOverview{Recent: &recent})); diff != "" {
		t.Error(diff)
	}
}

func TestNumber_HasCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := number(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}

func TestProse_HasCommandsAndTimes(t *testing.T) {
	const reason = "waits since 2026-11-22T11:32:27Z: <b> is destroyed; `terrapulse plan show a&b` shows it"
	const why = `waits since <time class="date" datetime="2026-11-22T11:32:27Z" title="2026-11-22T11:32:27Z">2026-11-22T11:32:27Z</time>: &lt;b&gt; is destroyed`
	if got := string(prose(reason)); got != why+"; <code>terrapulse plan show a&amp;b</code> shows it" {
		t.Error(got)
	}
	if got := string(lead(reason)); got != why {
		t.Error(got)
	}
	const retry = `retry number 5 at <time class="date" datetime="2026-11-22T11:32:27Z" title="2026-11-22T11:32:27Z">2026-11-22T11:32:27Z</time>`
	for _, text := range []string{"2026-11-22T13:32:27+02:00", "2026-11-22T06:32:27-05:00"} {
		if got := string(prose("retry number 5 at " + text)); got != retry {
			t.Error(got)
		}
	}
	if got := string(prose("at 2026-99-22T11:32:27Z")); got != "at 2026-99-22T11:32:27Z" {
		t.Error(got)
	}
}

func TestPieces_KeepEachEntryTogether(t *testing.T) {
	for changed, want := range map[string][]string{"": nil, "web: -web-3": {"web: -web-3"}, "web: +a, -b; api: +c\n": {"web: +a, ", "-b; ", "api: +c\n"}} {
		if diff := cmp.Diff(want, pieces(changed)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestBrief_RoundsAsTheCommandsDo(t *testing.T) {
	for d, want := range map[time.Duration]string{66700 * time.Microsecond: "67 ms", 400 * time.Microsecond: "0 ms", 1640 * time.Millisecond: "1.6 s", 52 * time.Second: "52.0 s", 180 * time.Second: "3 min 0 s"} {
		if got := brief(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}
