package openmetrics

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// oneRecord is a store with only the reconcile record. It counts reads.
type oneRecord struct {
	state.Store
	rec   state.Reconcile
	err   error
	reads int
}

func (s *oneRecord) Get(_ context.Context, key string) (state.Record, error) {
	s.reads++
	return state.Record{Key: key, Value: state.Encode(s.rec), Version: "1"}, s.err
}

var now = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

func scrape(t *testing.T, m *Metrics, accept string) string {
	t.Helper()
	r := httptest.NewRequest("GET", "/v1/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Header().Get("Content-Type") + "\n" + w.Body.String()
}

// measured returns metrics of some runs and ticks.
func measured(s *oneRecord, at func() time.Time) *Metrics {
	m := New(Options{Version: "1.2.3", Commit: "abc", URL: "https://network.example.com", Store: s, Now: at, Room: func() (parallel, room int) { return 4, 3 },
		Tasks: func(_ context.Context, change string) ([]config.Task, error) {
			if change == "wrong" {
				return nil, errors.New("the override cannot be read")
			}
			return []config.Task{{Name: "lb", Labels: map[string]string{"site": "muc" + change, "rack.no": "12"}}, {Name: "dns"},
				{Name: "fw", Labels: map[string]string{"a.b": "1", "a-b": "2", "a_c": "3"}}}, nil
		}})
	m.Leads(true)
	m.Ticked(reconcile.Report{Idle: true}, nil)
	m.Ticked(reconcile.Report{Record: state.Reconcile{Sight: state.Sight{ConsulError: "no leader"}}}, nil)
	m.Ticked(reconcile.Report{}, errors.New("the store is away"))
	m.Ticked(reconcile.Report{Decisions: []decide.Decision{
		{Action: decide.Run, Reason: state.Reason{Code: state.ReasonChanged}},
		{Action: decide.Run, Reason: state.Reason{Code: state.ReasonLost}, Lost: &state.Run{Task: "lb"}},
	}}, nil)
	m.RunEnded(state.Run{Task: "lb", Kind: state.KindApply, State: state.RunSucceeded, Seen: now.Add(-9 * time.Second), Times: state.Times{Started: now.Add(-3 * time.Second), Ended: now},
		Work: state.Work{Changes: &state.Changes{Add: 1, Change: 2, Destroy: 3}}})
	m.RunEnded(state.Run{Task: "lb", Kind: state.KindApply, State: state.RunFailed, Times: state.Times{Started: now.Add(-time.Second), Ended: now}})
	m.RunEnded(state.Run{Task: "lb", Kind: state.KindPlan, State: state.RunSucceeded, Times: state.Times{Started: now, Ended: now}})
	return m
}

func TestMetrics_ScrapeShowsRunsAndTicks(t *testing.T) {
	s := &oneRecord{rec: state.Reconcile{LastSuccess: now.Add(-90 * time.Second), Failing: 4, Tasks: state.TaskCounts{Phases: map[string]int{"failing": 1, "waiting": 2, "stopped": 3, "soon": 7}, Approval: 6}, Paused: &state.Paused{By: "ann"},
		Unreadable: &state.Unreadable{Count: 5}, Unpolled: &state.Unpolled{Count: 8}}}
	m := measured(s, func() time.Time { return now })
	text := scrape(t, m, "")
	for _, line := range []string{
		"text/plain", `terrapulse_build_info{commit="abc",go_version="`, `version="1.2.3"} 1`, "terrapulse_leader 1", "terrapulse_parallel 4", "terrapulse_room 3",
		`terrapulse_ticks_total{result="idle"} 1`, `terrapulse_ticks_total{result="incomplete"} 1`, `terrapulse_ticks_total{result="failed"} 1`, `terrapulse_ticks_total{result="done"} 1`,
		"terrapulse_changes_seen_total 1",
		`terrapulse_runs_total{outcome="succeeded",task="lb"} 1`, `terrapulse_runs_total{outcome="failed",task="lb"} 1`, `terrapulse_runs_total{outcome="lost",task="lb"} 1`,
		"terrapulse_run_duration_seconds_count 2", "terrapulse_run_duration_seconds_sum 4", `terrapulse_run_duration_seconds_bucket{le="1"} 1`,
		"terrapulse_change_to_applied_seconds_count 1", "terrapulse_change_to_applied_seconds_sum 9",
		`terrapulse_resources_total{action="added",task="lb"} 1`, `terrapulse_resources_total{action="changed",task="lb"} 2`, `terrapulse_resources_total{action="destroyed",task="lb"} 3`,
		"terrapulse_store_up 1", "terrapulse_paused 1", "terrapulse_last_good_tick_age_seconds 90", "terrapulse_failures_in_a_row 4",
		"terrapulse_tasks_failing 1", "terrapulse_tasks_waiting 2", "terrapulse_tasks_stopped 3", "terrapulse_tasks_soon 7", "terrapulse_tasks_waiting_for_approval 6", "terrapulse_tasks_unreadable 5", "terrapulse_tasks_unpolled 8",
		"go_goroutines ", "process_start_time_seconds ",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	m.Leads(false)
	if !strings.Contains(scrape(t, m, ""), "terrapulse_leader 0") {
		t.Error("it still leads")
	}
	open := scrape(t, m, "application/openmetrics-text;version=1.0.0")
	if !strings.HasPrefix(open, "application/openmetrics-text") || !strings.HasSuffix(open, "# EOF\n") {
		t.Errorf("not OpenMetrics: %.200s", open)
	}
}

func TestMetrics_LeaderNamesTheTasksThatNeedAPerson(t *testing.T) {
	at := now
	m := measured(&oneRecord{}, func() time.Time { return at })
	task := func(name string, s state.Task) decide.Decision {
		return decide.Decision{Task: &config.Task{Name: name}, State: s}
	}
	failing := state.Task{Failing: state.Failing{Count: 2}}
	unverified := &state.Unverified{State: state.VerifyFailed}
	waits := &state.LiveRun{ID: "1", Wait: &state.Wait{For: state.WaitApproval}}
	m.Ticked(reconcile.Report{Decisions: []decide.Decision{
		task("lb", failing),
		task("dns", state.Task{Run: waits, Reason: state.Reason{Code: state.ReasonWaiting}}),
		task("fw", state.Task{Observed: state.Observed{UnreadableSince: now}}),
		task("held", state.Task{Reason: state.Reason{Code: state.ReasonOnHold}, Applied: state.Applied{Unverified: unverified}, Stops: state.Stops{OnHold: &state.OnHold{By: "verification vip"}}}),
		task("off", state.Task{Reason: state.Reason{Code: state.ReasonDisabled}, Applied: state.Applied{Unverified: unverified}}),
		task("calm", state.Task{}),
	}}, nil)
	m.Backlog(outbox.Backlog{Events: 3, Oldest: now.Add(-time.Minute)})
	at = now.Add(time.Minute)
	m.Ticked(reconcile.Report{Idle: true}, nil)           // nothing has changed
	m.Ticked(reconcile.Report{}, errors.New("no answer")) // nothing is known
	text := scrape(t, m, "")
	for _, line := range []string{
		`terrapulse_pages_info{url="https://network.example.com"} 1`,
		`terrapulse_task_attention{state="failing",task="lb"} 1`,
		`terrapulse_task_attention{state="waiting_for_approval",task="dns"} 1`,
		`terrapulse_task_attention{state="unreadable",task="fw"} 1`,
		`terrapulse_task_attention{state="unverified",task="held"} 1`,
		"terrapulse_events_undelivered 3", "terrapulse_events_undelivered_age_seconds 120",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %q", line)
		}
	}
	if strings.Contains(text, `task="calm"`) || strings.Contains(text, `task="off"`) || strings.Count(text, `task="held"`) != 1 || strings.Contains(text, `state="waiting"`) {
		t.Error("it names a task that needs nobody, or one twice")
	}
	if t.Failed() {
		t.Log(text)
	}
	m.Leads(false)
	if text := scrape(t, m, ""); strings.Contains(text, "terrapulse_task_attention{") || !strings.Contains(text, "terrapulse_events_undelivered 0\n") {
		t.Errorf("an instance that stands by still speaks for the cluster:\n%s", text)
	}
	var many []decide.Decision
	for i := range 2 * maxNamed {
		many = append(many, task(fmt.Sprintf("task-%d", i), failing))
	}
	m.Ticked(reconcile.Report{Decisions: many}, nil)
	if n := strings.Count(scrape(t, m, ""), "terrapulse_task_attention{"); n != maxNamed {
		t.Errorf("%d tasks are named", n)
	}
}

func TestMetrics_ScrapeReadsOneRecord(t *testing.T) {
	s := &oneRecord{}
	at := now
	m := measured(s, func() time.Time { return at })
	if s.reads != 0 {
		t.Errorf("%d reads without a scrape", s.reads)
	}
	for range 3 {
		scrape(t, m, "")
	}
	if s.reads != 1 {
		t.Errorf("%d reads for scrapes that follow each other", s.reads)
	}
	at = at.Add(keepFor)
	scrape(t, m, "")
	if s.reads != 2 {
		t.Errorf("%d reads, want one more", s.reads)
	}
	s.err, at = errors.New("away"), at.Add(keepFor)
	if text := scrape(t, m, ""); !strings.Contains(text, "terrapulse_store_up 0") || strings.Contains(text, "terrapulse_tasks_") || !strings.Contains(text, "terrapulse_runs_total{") {
		t.Errorf("without the store:\n%s", text)
	}
}

func TestMetrics_ShowTheLabelsOfTasks(t *testing.T) {
	s, at := &oneRecord{rec: state.Reconcile{Overrides: "-2"}}, now
	m := measured(s, func() time.Time { return at })
	lines := func() (lines []string) {
		for line := range strings.Lines(scrape(t, m, "")) {
			if strings.HasPrefix(line, "terrapulse_task_labels{") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		slices.Sort(lines)
		return lines
	}
	want := []string{
		`terrapulse_task_labels{label_a_b_conflict1="2",label_a_b_conflict2="1",label_a_c="3",task="fw"} 1`,
		`terrapulse_task_labels{label_rack_no="12",label_site="muc-2",task="lb"} 1`,
	}
	if diff := cmp.Diff(want, lines()); diff != "" {
		t.Error(diff)
	}
	s.rec.Overrides, at = "wrong", at.Add(keepFor)
	if diff := cmp.Diff(want, lines()); diff != "" {
		t.Errorf("when the configuration cannot be read: %s", diff)
	}
	s.rec.Overrides, at = "-3", at.Add(keepFor)
	if got := lines(); len(got) != 2 || !strings.Contains(got[1], `label_site="muc-3"`) {
		t.Errorf("after a change: %q", got)
	}
	if !testtools.All() {
		return
	}
	promtool := exec.CommandContext(t.Context(), testtools.Promtool(t), "check", "metrics")
	_, text, _ := strings.Cut(scrape(t, m, ""), "\n")
	promtool.Stdin = strings.NewReader(text)
	if out, err := promtool.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// BenchmarkScrape_LabelsOfTenThousandTasks measures a scrape with the labels of 10,000 tasks.
func BenchmarkScrape_LabelsOfTenThousandTasks(b *testing.B) {
	tasks := make([]config.Task, 10_000)
	for i := range tasks {
		tasks[i] = config.Task{Name: fmt.Sprintf("task-%05d", i), Labels: map[string]string{"site": fmt.Sprintf("site-%02d", i%50), "tier": "edge"}}
	}
	at := now
	m := New(Options{Store: &oneRecord{}, Now: func() time.Time { return at }, Tasks: func(context.Context, string) ([]config.Task, error) { return tasks, nil }})
	size := 0
	for b.Loop() {
		at = at.Add(keepFor)
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/metrics", nil))
		size = w.Body.Len()
	}
	b.ReportMetric(float64(size)/1000, "kB")
}

// documented returns the first cells of the tables of a section of docs/reference/metrics.md.
func documented(t *testing.T, section string) []string {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "\n## "+section)
	text, _, _ = strings.Cut(text, "\n## ")
	var names []string
	for _, cell := range regexp.MustCompile("(?m)^\\| `\\w+`(?:, `\\w+`)* \\|").FindAllString(text, -1) {
		names = append(names, regexp.MustCompile(`\w+`).FindAllString(cell, -1)...)
	}
	slices.Sort(names)
	return names
}

func TestDocs_ListTheServedMetrics(t *testing.T) {
	m := measured(&oneRecord{rec: state.Reconcile{LastSuccess: now}}, func() time.Time { return now })
	m.Ticked(reconcile.Report{Decisions: []decide.Decision{{Task: &config.Task{Name: "lb"}, State: state.Task{Failing: state.Failing{Count: 1}}}}}, nil)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "terrapulse_") {
			served = append(served, f.GetName())
		}
	}
	slices.Sort(served)
	if diff := cmp.Diff(served, documented(t, "`terrapulse start`: Prometheus")); diff != "" {
		t.Errorf("docs/reference/metrics.md (-served +documented):\n%s", diff)
	}
	var written []string
	for _, m := range metrics.All {
		written = append(written, m.Name)
	}
	slices.Sort(written)
	if diff := cmp.Diff(written, documented(t, "In AWS: CloudWatch")); diff != "" {
		t.Errorf("docs/reference/metrics.md (-written in AWS +documented):\n%s", diff)
	}
}

func TestFunctions_DoNotLinkTheLibrary(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../../functions/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 || strings.Contains(string(out), "github.com/prometheus/client_") {
		t.Error("a function links Prometheus's library, and grows by it")
	}
}
