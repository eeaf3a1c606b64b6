package apiview_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	return configtest.Load(t, t.TempDir(), "f.yaml", text)
}

func TestTask_ShowsTheRulesThatItSets(t *testing.T) {
	const global = "guard: {max_removed: 7}\napproval: always\nwindow: {kind: deny, schedule: '@daily', duration: 1h}\ncheck: {a: {command: [judge, a]}}\ndrift: {every: 12h}\n"
	base := load(t, global)
	for _, tt := range []struct{ rules, want string }{
		{"", `{}`},
		{"    drift: {schedule: '@daily', time_zone: UTC, action: apply}\n", `{"drift": {"schedule": "@daily", "time_zone": "UTC", "action": "apply"}}`},
		{"    approval: never\n    window: []\n", `{"approval": "never", "window": []}`},
		{"    check:\n      a: {enabled: false}\n      b: {command: [judge, b], on_fail: fail, timeout: 90s}\n      a2: {command: judge}\n",
			`{"check": {"a": {"enabled": false}, "b": {"command": ["judge", "b"], "on_fail": "fail", "timeout": "1m30s"}, "a2": {"command": ["judge"]}}}`},
		{"    check:\n      a: {}\n", `{"check": {"a": {}}}`},
		{"    guard: {enabled: true, max_removed: 0, on_empty: hold}\n    approval_expires: 90m\n    require_distinct_approver: true\n" +
			"    window:\n      - {kind: allow, schedule: '0 22 * * *', duration: 6h, time_zone: UTC, on: apply, allow_removals_always: true}\n",
			`{"guard": {"enabled": true, "max_removed": 0, "on_empty": "hold"}, "approval_expires": "1h30m0s", "require_distinct_approver": true,
			"window": [{"kind": "allow", "schedule": "0 22 * * *", "duration": "6h0m0s", "time_zone": "UTC", "on": ["apply"], "allow_removals_always": true}]}`},
	} {
		cfg := load(t, global+"task:\n  - name: t\n    module: example/m/local\n    condition: {services: {names: [web]}}\n    module_input: {consul-kv: {path: p}}\n"+tt.rules)
		definition, err := json.Marshal(apiview.Task(&cfg.Tasks[0]))
		if err != nil {
			t.Fatal(err)
		}
		var shown, want map[string]any
		if err := json.Unmarshal(definition, &shown); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		rules := map[string]any{}
		for _, key := range []string{"guard", "approval", "approval_expires", "require_distinct_approver", "window", "check", "drift"} {
			if value, ok := shown[key]; ok {
				rules[key] = value
			}
		}
		if diff := cmp.Diff(want, rules); diff != "" {
			t.Errorf("unexpected rules (-want +got):\n%s", diff)
		}
		made, err := base.Parse(definition)
		if err != nil {
			t.Fatal(err)
		}
		if made.RulesDigest() != cfg.Tasks[0].RulesDigest() {
			t.Errorf("the task that is made of what is shown has other rules: %+v, want %+v", made.Rules, cfg.Tasks[0].Rules)
		}
	}
}

func TestRun_ShowsItsPageInHCPTerraform(t *testing.T) {
	for name, tt := range map[string]struct {
		remote *state.RemoteRun
		want   *apispec.RemoteRun
	}{
		"no run there":          {nil, nil},
		"one that is not known": {&state.RemoteRun{Version: "cv-1", Phase: state.RemotePlanning}, nil},
		"a run":                 {&state.RemoteRun{ID: "run-1", URL: "https://hcp/1", Phase: state.RemotePlanning}, &apispec.RemoteRun{ID: new("run-1"), URL: "https://hcp/1"}},
		"a plan":                {&state.RemoteRun{URL: "https://hcp/1", Phase: state.RemoteEnded}, &apispec.RemoteRun{URL: "https://hcp/1"}},
	} {
		if diff := cmp.Diff(tt.want, apiview.Run(state.Run{Remote: tt.remote}).Remote); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRun_ShowsHowLongItWaited(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 22, 10, minute, 0, 0, time.UTC) }
	run := state.Run{State: state.RunCancelled, Times: state.Times{Started: at(0), Ended: at(50)}}
	wait := func(minute int) *state.Wait { return &state.Wait{For: state.WaitApproval, Since: at(minute)} }
	for name, tt := range map[string]struct {
		run  func(*state.Run)
		want time.Duration
	}{
		"it never waited":                {func(*state.Run) {}, 0},
		"it ended while it waited":       {func(r *state.Run) { r.Wait = wait(1) }, 49 * time.Minute},
		"it went on":                     {func(r *state.Run) { r.Wait, r.Claim, r.Waited = wait(1), "c", 30*time.Minute }, 30 * time.Minute},
		"it ended while it waited again": {func(r *state.Run) { r.Wait, r.Waited = wait(40), 30*time.Minute }, 40 * time.Minute},
		"it has not ended":               {func(r *state.Run) { r.Wait, r.Ended = wait(1), time.Time{} }, 0},
	} {
		r := run
		tt.run(&r)
		if got := apispec.Deref(apiview.Run(r).Waited); got != tt.want.Seconds() {
			t.Errorf("%s: it waited %v seconds, want %v", name, got, tt.want.Seconds())
		}
	}
}
