package overview_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// shown returns the only task of a task file as the overview shows it at a time.
func shown(t *testing.T, file string, record state.Task, now time.Time) apispec.TaskOverview {
	t.Helper()
	cfg := configtest.Load(t, t.TempDir(), "f.yaml", file)
	store := newStore(t)
	write(t, store, state.TaskKey(cfg.Tasks[0].Name), record)
	o, err := overview.Reader{Store: store, Now: func() time.Time { return now }}.Read(t.Context(), overlay.Compose(cfg, nil))
	if err != nil {
		t.Fatal(err)
	}
	return o.Tasks[0]
}

func TestRead_SaysWhatATaskWatches(t *testing.T) {
	for condition, want := range map[string]string{
		"{services: {names: [api, web], datacenter: dc1}}": "services api and web in datacenter dc1; also reads key cfg/a",
		"{schedule: {cron: '0 3 * * *'}}":                  "schedule 0 3 * * *; also reads key cfg/a",
	} {
		got := shown(t, "task:\n  - name: t\n    module: example/m/local\n    condition: "+condition+"\n    module_input: {consul-kv: {path: cfg/a}}\n", state.Task{}, time.Now())
		if apispec.Deref(got.Watches) != want {
			t.Errorf("%s: it watches %s", condition, apispec.Deref(got.Watches))
		}
	}
}

func TestRead_SaysWhetherTheWindowsAreOpen(t *testing.T) {
	const file = "window:\n  - {kind: allow, schedule: '0 22 * * *', duration: 8h, time_zone: Europe/Berlin}\n" +
		"task:\n  - name: t\n    module: example/m/local\n    condition: {services: {names: [api]}}\n"
	evening := time.Date(2026, 11, 22, 21, 30, 0, 0, time.UTC)
	windows := []apispec.TaskWindow{{Kind: apispec.WindowKindAllow, Inside: true, Text: "changes are allowed for 8h from each time of 0 22 * * * in Europe/Berlin"}}
	want := &apispec.TaskWindows{Open: true, Until: new(evening.Add(7*time.Hour + 30*time.Minute)), Text: "open until 2026-11-23T06:00:00+01:00", Windows: windows}
	if diff := cmp.Diff(want, shown(t, file, state.Task{}, evening).Windows); diff != "" {
		t.Error(diff)
	}
	if got := shown(t, file, state.Task{}, evening.Add(-time.Hour)).Windows; got.Open || got.Windows[0].Inside {
		t.Errorf("%+v", got)
	}
	if got := shown(t, file+"    window: []\n", state.Task{}, evening).Windows; got != nil {
		t.Errorf("%+v", got)
	}
}

func TestRead_SaysWhichLimitsHoldAndWhatIsThere(t *testing.T) {
	const task = "task:\n  - name: t\n    module: example/m/local\n    condition: {services: {names: [api]}}\n    module_input: {consul-kv: {path: cfg/, recurse: true}}\n" +
		"    guard: {max_destroy: 5}\n    approval: destructive\n    approval_expires: 90m\n    require_distinct_approver: true\n    check: {judge: {command: [judge]}}\n"
	record := state.Task{Observed: state.Observed{Digest: "B"}, Applied: state.Applied{Digest: "A", At: time.Now(), Counts: []state.Count{{Of: "service instances", Triggers: true, Applied: 12, Now: 12}, {Of: "keys", Applied: 3, Now: 2}}}, Requests: state.Requests{Pending: &state.Pending{Entries: &state.EntryChanges{Added: 1, Removed: 8}}}}
	got := shown(t, task, record, time.Now())
	want := []apispec.TaskGuard{
		{Key: "max_removed_percent", Limit: new(50), Within: new(900.0), Of: new("service instances"), Base: new(12), Applied: new(12), Now: new(5), Exceeded: new(true),
			Text: "at most 50 % of the service instances, which is 6, may go within 15m: 12 were applied, 5 are there now"},
		{Key: "max_removed_percent", Limit: new(50), Within: new(900.0), Of: new("keys"), Base: new(3), Applied: new(3), Now: new(2), Exceeded: new(false),
			Text: "at most 50 % of the keys may go within 15m, if at least 10 were applied: 3 were applied, 2 are there now"},
		{Key: "on_empty", Within: new(900.0), Exceeded: new(false), Text: `the guard lets the last entry go: on_empty is "apply"`},
		{Key: "max_destroy", Limit: new(5), Within: new(900.0), Exceeded: new(false), Text: "plans within 15m may destroy or replace at most 5 resources"},
		{Key: "check", Text: "check judge judges each plan; a plan that it refuses waits for an approval"},
	}
	if diff := cmp.Diff(want, apispec.Deref(got.Guards)); diff != "" {
		t.Error(diff)
	}
	if got, want := apispec.Deref(got.Approval), "a plan that destroys or replaces a resource needs an approval, which is valid for 1h30m; who created or changed the task through the API cannot give it"; got != want {
		t.Error(got)
	}
	record.Observed.Digest = "A" // the entries are back
	if back := apispec.Deref(shown(t, task, record, time.Now()).Guards)[0]; *back.Now != 12 || *back.Exceeded {
		t.Errorf("%+v", back)
	}
}

func TestRead_SaysWhatElseIsInForce(t *testing.T) {
	const task = "task:\n  - name: t\n    module: example/m/local\n    condition: {services: {names: [api]}}\n"
	for global, want := range map[string][]string{
		"": {"a change is applied when nothing more has changed for 5s, at the latest after 20s", "everything that the task has made stays when it is removed", "the task is not checked for drift", "a run ends after 1h"},
		"buffer_period: {enabled: false}\non_removal: destroy\ndrift: {every: 90m}\nrun_timeout: 2h\n": {"a change is applied at once",
			"everything that the task has made is destroyed when it is removed, if a person approves it", "checked for drift every 1h30m; what differs is reported", "a run ends after 2h"},
		"on_removal: destroy\napprove_destroy: never\ndrift: {schedule: '0 3 * * *', time_zone: UTC, action: apply}\n": {"a change is applied when nothing more has changed for 5s, at the latest after 20s",
			"everything that the task has made is destroyed when it is removed", "checked for drift at each time of 0 3 * * * in UTC; a run changes back what differs", "a run ends after 1h"},
	} {
		if diff := cmp.Diff(want, apispec.Deref(shown(t, global+task, state.Task{}, time.Now()).Settings)); diff != "" {
			t.Errorf("%s: %s", global, diff)
		}
	}
}
