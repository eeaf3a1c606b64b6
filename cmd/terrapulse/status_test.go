package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// situation is what the store has of a task, and what is shown of it.
type situation struct {
	name  string // of the task
	phase apispec.Phase
	why   string
	task  state.Task
	run   state.Run
	// What else is in the store.
	override *state.Override
	corrupt  string // key of a record that cannot be decoded
	// What the configuration says.
	disabled, absent bool
}

// situations take a task through every phase.
func situations(now time.Time) []situation {
	off := false
	reason := func(code state.ReasonCode, text string) state.Reason { return state.Reason{Code: code, Text: text} }
	live := &state.LiveRun{ID: "r1", Launch: "l1", Created: now}
	waiting := &state.LiveRun{ID: "r1", Launch: "l1", Created: now, Wait: &state.Wait{For: state.WaitApproval, ID: "w1", Text: "3 to destroy", Since: now}}
	under := func(s state.RunState) state.Run {
		return state.Run{ID: "r1", Kind: state.KindApply, Launch: "l1", State: s, Created: now, Times: state.Times{Started: now.Add(-2 * time.Minute)}, Reason: reason(state.ReasonChanged, "added web-2")}
	}
	waits := under(state.RunWaiting)
	waits.Wait = waiting.Wait
	guarded := &state.LiveRun{ID: "r1", Launch: "l1", Created: now, Wait: &state.Wait{For: state.WaitApproval, ID: "w1", Since: now, Content: &state.Content{},
		Causes: []state.Cause{{Rule: state.RuleInputGuard, Text: "40 of 60 instances of web are gone"}}}}
	since := now.UTC().Format(time.RFC3339)
	guards := under(state.RunWaiting)
	guards.Wait = guarded.Wait
	last := func(s state.RunState) *state.Result {
		return &state.Result{Run: "r0", Kind: state.KindApply, State: s, Reason: reason(state.ReasonChanged, "added web-1"), Created: now.Add(-time.Hour), Started: now.Add(-59 * time.Minute), Ended: now.Add(-58 * time.Minute), Error: "no such file"}
	}
	came := &state.EntryChanges{Added: 1, Entries: []state.EntryChange{{Action: state.EntryAdded, Name: "web-2", Group: "services"}}}
	running, applied := reason(state.ReasonRunning, "run r1 is under way"), now.Add(-time.Hour)
	pending := &state.Pending{First: now, Latest: now, Entries: came}
	failed := state.Failing{Count: 1, RetryAt: now.Add(time.Minute), Since: now, Error: "no such file"}
	return []situation{
		{name: "new", phase: apispec.PhaseSoon},
		{name: "applied", phase: apispec.PhaseApplied, why: "nothing changed", task: state.Task{Applied: state.Applied{At: applied}, Reason: reason(state.ReasonUnchanged, "nothing changed")}},
		{name: "drifted", phase: apispec.PhaseDrifted, why: "drifted since " + since + ": 2 resources differ: a.b (is missing), c.d (port, tags[\"x\"]); `terrapulse plan show drifted` shows the plan",
			task: state.Task{Applied: state.Applied{At: applied}, Reason: reason(state.ReasonUnchanged, "nothing changed"), Drift: &state.Drift{Found: &state.Drifted{Since: now, Run: "r9", Count: 2,
				Resources: []state.DriftedResource{{Address: "a.b", Action: "create"}, {Address: "c.d", Action: "update", Attributes: []string{"port", `tags["x"]`}}}}}}},
		{name: "unverified", phase: apispec.PhaseUnverified, why: "applied, and not verified since " + since + ": vip failed: no answer; `terrapulse run unverified` applies and verifies it again; the latest verified run ended at " + since,
			task: state.Task{Reason: reason(state.ReasonUnchanged, "nothing changed"),
				Applied: state.Applied{At: applied, Unverified: &state.Unverified{Since: now, Run: "r9", State: state.VerifyFailed, Names: "vip", Text: "vip failed: no answer", VerifiedAt: now}}}},
		{name: "buffering", phase: apispec.PhaseSoon, why: "until later", task: state.Task{Applied: state.Applied{At: applied}, Requests: state.Requests{Pending: pending}, Reason: reason(state.ReasonBuffering, "until later")}},
		{name: "queued", phase: apispec.PhaseSoon, why: "no room", task: state.Task{Applied: state.Applied{At: applied}, Reason: reason(state.ReasonQueued, "no room")}},
		{name: "scheduled", phase: apispec.PhaseSoon, why: "next at noon", task: state.Task{Applied: state.Applied{At: applied}, Requests: state.Requests{Pending: pending}, Due: now.Add(time.Hour), Reason: reason(state.ReasonUnchanged, "next at noon")}},
		{name: "intended", phase: apispec.PhaseSoon, why: "a run waits for its turn: added web-2", task: state.Task{Applied: state.Applied{At: applied}, Run: live, Reason: running}, run: under(state.RunIntended)},
		{name: "requested", phase: apispec.PhaseSoon, why: "a run was requested by Jo", task: state.Task{Applied: state.Applied{At: applied}, Requests: state.Requests{Forced: state.Forced{By: "Jo"}}, Reason: reason(state.ReasonUnchanged, "nothing changed")}},
		{name: "running", phase: apispec.PhaseRunning, why: "added web-2", task: state.Task{Applied: state.Applied{At: applied}, Run: live, Reason: running}, run: under(state.RunRunning)},
		{name: "waits", phase: apispec.PhaseWaiting, why: "waits for approval: 3 to destroy", task: state.Task{Applied: state.Applied{At: applied}, Run: waiting, Reason: running}, run: waits},
		{name: "failing", phase: apispec.PhaseFailing, why: "retry at noon", task: state.Task{Failing: failed, Ended: state.Ended{Last: last(state.RunFailed)}, Reason: reason(state.ReasonBackoff, "retry at noon")}},
		{name: "failed", phase: apispec.PhaseFailing, why: "added web-1: no such file", task: state.Task{Failing: failed, Ended: state.Ended{Last: last(state.RunFailed)}, Reason: running}},
		{name: "failing-queued", phase: apispec.PhaseFailing, why: "no room: no such file", task: state.Task{Failing: failed, Ended: state.Ended{Last: last(state.RunInterrupted)}, Reason: reason(state.ReasonQueued, "no room")}},
		{name: "failing-intended", phase: apispec.PhaseFailing, why: "a run waits for its turn: added web-2: no such file", task: state.Task{Failing: failed, Ended: state.Ended{Last: last(state.RunFailed)}, Run: live, Reason: running}, run: under(state.RunIntended)},
		{name: "failing-running", phase: apispec.PhaseFailing, why: "a run is under way: added web-2: no such file", task: state.Task{Failing: failed, Ended: state.Ended{Last: last(state.RunFailed)}, Run: live, Reason: running}, run: under(state.RunRunning)},
		{name: "unverified-on-hold", phase: apispec.PhaseUnverified, why: "on hold by verify since " + since + "; `terrapulse release unverified-on-hold` ends it; not verified since " + since + ": vip failed",
			task: state.Task{Reason: reason(state.ReasonOnHold, "on hold"), Stops: state.Stops{OnHold: &state.OnHold{By: "verify", At: now}},
				Applied: state.Applied{At: applied, Unverified: &state.Unverified{Since: now, Run: "r9", State: state.VerifyFailed, Names: "vip", Text: "vip failed"}}}},
		{name: "succeeded", phase: apispec.PhaseApplied, why: "added web-1", task: state.Task{Applied: state.Applied{At: applied}, Ended: state.Ended{Last: last(state.RunSucceeded)}, Reason: running}},
		{name: "interrupted", phase: apispec.PhaseSoon, why: "added web-1", task: state.Task{Applied: state.Applied{At: applied}, Ended: state.Ended{Last: last(state.RunInterrupted)}, Reason: running}},
		{name: "cancelled", phase: apispec.PhaseStopped, why: "by Jo", task: state.Task{Applied: state.Applied{At: applied}, Ended: state.Ended{Last: last(state.RunCancelled)}, Reason: reason(state.ReasonCancelled, "by Jo")}},
		{name: "held", phase: apispec.PhaseStopped, why: "made without a run", task: state.Task{Reason: reason(state.ReasonHeld, "made without a run")}},
		{name: "guarded", phase: apispec.PhaseWaiting, why: "waits since " + since + ": 40 of 60 instances of web are gone; it ends when the data comes back, when `terrapulse approve -plan=w1 guarded` approves it, or when the limit is raised", task: state.Task{Applied: state.Applied{At: applied}, Run: guarded, Reason: running}, run: guards},
		{name: "on-hold", phase: apispec.PhaseStopped, why: "on hold by Jo since " + since + "; `terrapulse release on-hold` ends it", task: state.Task{Applied: state.Applied{At: applied}, Stops: state.Stops{OnHold: &state.OnHold{By: "Jo", At: now}}, Reason: reason(state.ReasonUnchanged, "nothing changed")}},
		{name: "rejected", phase: apispec.PhaseStopped, why: "rejected by Jo", task: state.Task{Applied: state.Applied{At: applied}, Ended: state.Ended{Last: last(state.RunCancelled)}, Reason: reason(state.ReasonRejected, "rejected by Jo")}},
		{name: "renamed", phase: apispec.PhaseWaiting, why: "perhaps this is task web", task: state.Task{Naming: state.Naming{Renamed: []string{"web"}}, Reason: reason(state.ReasonRenamed, "perhaps this is task web")}},
		{name: "outside", phase: apispec.PhaseSoon, why: "outside its window, which opens at noon", task: state.Task{Applied: state.Applied{At: applied}, Requests: state.Requests{Pending: pending}, Due: now.Add(time.Hour), Reason: reason(state.ReasonOutside, "outside its window, which opens at noon")}},
		{name: "unreadable", phase: apispec.PhaseUnreadable, why: "permission denied", task: state.Task{Applied: state.Applied{At: applied}, Reason: reason(state.ReasonUnreadable, "permission denied")}},
		{name: "blocked", phase: apispec.PhaseFailing, why: "no Terraform", task: state.Task{Applied: state.Applied{At: applied}, Reason: reason(state.ReasonBlocked, "no Terraform")}},
		{name: "corrupt", phase: apispec.PhaseFailing, why: "record task/corrupt in the store", corrupt: state.TaskKey("corrupt")},
		{name: "corrupt-run", phase: apispec.PhaseFailing, why: "record run/corrupt-run/r1 in the store", task: state.Task{Run: live, Reason: running}, corrupt: state.RunKey("corrupt-run", "r1")},
		{name: "corrupt-override", phase: apispec.PhaseFailing, why: "record override/corrupt-override in the store", task: state.Task{Applied: state.Applied{At: applied}}, corrupt: state.OverrideKey("corrupt-override")},
		{name: "disabled", phase: apispec.PhaseStopped, why: "it is disabled", disabled: true, task: state.Task{Applied: state.Applied{At: applied}, Reason: reason(state.ReasonDisabled, "it is disabled")}},
		{name: "just-disabled", phase: apispec.PhaseStopped, why: "the task is disabled", disabled: true, override: &state.Override{Task: "just-disabled", Enabled: &off, By: "Jo", At: now},
			task: state.Task{Applied: state.Applied{At: applied}, Reason: reason(state.ReasonUnchanged, "nothing changed")}},
		{name: "removed", phase: apispec.PhaseRemoved, why: "it is gone", absent: true, task: state.Task{Applied: state.Applied{At: applied}, Reason: reason(state.ReasonRemoved, "it is gone")}},
	}
}

// stored returns a store that has the situations, and the configuration.
func stored(t *testing.T, now time.Time, all []situation) (path string, store state.Store, cfg *config.Config) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "state.db")
	store, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	var hcl strings.Builder
	changes := []state.Change{state.Create(state.ReconcileKey, state.Encode(state.Reconcile{LastSuccess: now, Overrides: "c1"}))}
	add := func(key string, s situation, record any) {
		value := state.Encode(record)
		if key == s.corrupt {
			value = []byte("{")
		}
		changes = append(changes, state.Create(key, value))
	}
	for _, s := range all {
		if !s.absent {
			fmt.Fprintf(&hcl, "task {\n  name = %q\n  enabled = %t\n  module = \"./m\"\n  condition \"services\" { names = [\"web\"] }\n}\n", s.name, !s.disabled)
		}
		add(state.TaskKey(s.name), s, s.task)
		if s.task.Run != nil {
			s.run.Task = s.name
			add(state.RunKey(s.name, s.task.Run.ID), s, s.run)
		}
		if s.override != nil || s.corrupt == state.OverrideKey(s.name) {
			add(state.OverrideKey(s.name), s, s.override)
		}
	}
	for chunk := range slices.Chunk(changes, state.MaxChanges) {
		if _, err := store.Apply(t.Context(), chunk...); err != nil {
			t.Fatal(err)
		}
	}
	return path, store, configtest.Load(t, dir, "tasks.hcl", hcl.String())
}

// serveStored serves the API over a store.
func serveStored(t *testing.T, store state.Store, cfg *config.Config) string {
	people := &control.Control{Store: store, Now: time.Now, Base: func(context.Context) (*config.Config, error) { return cfg, nil }}
	server := httptest.NewServer(api.New(api.Options{Control: people, Began: time.Now(), Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(server.Close)
	return server.URL
}

func commandOf(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs testtools.Output
	if got := run(t.Context(), args, &out, &errs); got != code {
		t.Fatalf("%v: exit code %d, want %d: %s", args, got, code, &errs)
	}
	return out.String(), errs.String()
}

func TestStatus_EveryPhaseIsTheSameEverywhere(t *testing.T) {
	now := time.Now().UTC()
	all := situations(now)
	path, store, cfg := stored(t, now, all)
	url := serveStored(t, store, cfg)

	described, err := openapi3.NewLoader().LoadFromData(apispec.Document)
	if err != nil {
		t.Fatal(err)
	}
	walked := map[apispec.Phase]bool{}
	for _, p := range lifecycle.Phases {
		phase := apispec.Phase(p.Phase)
		walked[phase] = false
		if p.Tone == "" || !slices.Contains(described.Components.Schemas["Phase"].Value.Enum, any(string(phase))) {
			t.Errorf("phase %s has no color, or is not in openapi.yaml", phase)
		}
	}
	for where, source := range map[string]string{"store": "-store=sqlite:" + path, "API": "-http-addr=" + url} {
		text, _ := commandOf(t, exitOK, "status", source)
		out, _ := commandOf(t, exitOK, "status", "-json", source)
		var o apispec.Overview
		if err := json.Unmarshal([]byte(out), &o); err != nil {
			t.Fatal(err)
		}
		tasks := map[string]apispec.TaskOverview{}
		for _, task := range o.Tasks {
			tasks[task.Name] = task
		}
		for _, s := range all {
			if _, ok := walked[s.phase]; !ok {
				t.Errorf("phase %s is not in lifecycle.Phases", s.phase)
			}
			walked[s.phase] = true
			got := tasks[s.name]
			if got.Phase != apispec.Phase(s.phase) || !strings.HasPrefix(why(got), s.why) {
				t.Errorf("%s: task %s is %s: %s; want %s: %s", where, s.name, got.Phase, why(got), s.phase, s.why)
			}
			row := regexp.MustCompile(`(?m)^` + s.name + ` +` + string(s.phase) + `( |$)`)
			if !row.MatchString(text) {
				t.Errorf("%s: no row shows that task %s is %s:\n%s", where, s.name, s.phase, text)
			}
			if news := newsOf(got.Phase); (news == good) != (s.phase == apispec.PhaseApplied) || news == good && got.Changed != nil {
				t.Errorf("%s: task %s is green: %t", where, s.name, news == good)
			}
			if got.Enabled == (s.disabled || s.absent) {
				t.Errorf("%s: task %s: enabled %t", where, s.name, got.Enabled)
			}
			if pending := got.Changed != nil; pending != (s.task.Pending != nil) || pending && (!got.ChangedSince.Equal(now) || !strings.Contains(text, " ago: services: +web-2")) {
				t.Errorf("%s: task %s changed: %v since %v", where, s.name, apispec.Deref(got.Changed), got.ChangedSince)
			}
			if r := got.LastRun; r != nil && !r.Created.Before(*r.Started) {
				t.Errorf("%s: the last run of task %s was created at %s and started at %s", where, s.name, r.Created, r.Started)
			}
		}
		if len(o.Overrides) != 1 || o.Overrides[0].Task != "just-disabled" || !strings.Contains(text, "just-disabled: disabled,") {
			t.Errorf("%s: overrides %+v", where, o.Overrides)
		}
	}
	for phase, ok := range walked {
		if !ok {
			t.Errorf("no task goes through phase %s", phase)
		}
	}
}

func TestStatus_OneUndecodableRecordFailsNoOtherTask(t *testing.T) {
	now := time.Now().UTC()
	path, store, cfg := stored(t, now, []situation{
		{name: "web", task: state.Task{Applied: state.Applied{At: now}, Ended: state.Ended{IDs: []string{"aaaa1", "aaaa2"}}, Reason: state.Reason{Code: state.ReasonUnchanged}}},
		{name: "broken", corrupt: state.TaskKey("broken")},
	})
	good := state.Run{ID: "aaaa1", Kind: state.KindApply, Task: "web", State: state.RunSucceeded, Created: now, Times: state.Times{Started: now, Ended: now}}
	if _, err := store.Apply(t.Context(), state.Create(state.RunKey("web", good.ID), state.Encode(good)), state.Create(state.RunKey("web", "aaaa2"), []byte("{"))); err != nil {
		t.Fatal(err)
	}
	url := serveStored(t, store, cfg)
	for path, want := range map[string]string{
		"/v1/status": `"unknown":2`, "/v1/status/tasks?include=events": `"broken"`, "/v1/tasks": `"broken"`,
		"/v1/runs": good.ID, "/v1/tasks/web/runs": good.ID, "/v1/overview": `"corrupt"`, "/v1/tasks/broken/overview": `"corrupt"`,
	} {
		res, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: status %d (%v): %s", path, res.StatusCode, err, body)
		}
	}
	source := "-store=sqlite:" + path
	out, warning := commandOf(t, exitOK, "runs", source, "web")
	wantText(t, out, "aaaa1  ", "succeeded")
	wantText(t, warning, `level=WARN msg="a run cannot be shown" task=web error="record run/web/aaaa2`)
	_, warning = commandOf(t, exitError, "logs", source, "aaaa1")
	wantText(t, warning, "no output")
}

func TestStatus_HealthIsThatOfTheAPI(t *testing.T) {
	now := time.Now().UTC()
	path, store, cfg := stored(t, now, []situation{{name: "web"}})
	url := serveStored(t, store, cfg)
	sources := []string{"-store=sqlite:" + path, "-http-addr=" + url}
	for _, source := range sources {
		if out, _ := commandOf(t, exitOK, "status", "-health", source); out != "healthy\n" {
			t.Errorf("%s: %s", source, out)
		}
	}
	rec, err := state.Read[state.Reconcile](t.Context(), store, state.ReconcileKey)
	if err != nil {
		t.Fatal(err)
	}
	const why = "Consul cannot be watched since "
	if _, err := store.Apply(t.Context(), rec.Write(state.Reconcile{LastSuccess: now.Add(-time.Hour), Sight: state.Sight{ConsulError: "connection refused", ConsulUnreachable: true, Since: now.Add(-time.Hour)}})); err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		_, errs := commandOf(t, exitError, "status", "-health", source)
		wantText(t, errs, why)
		out, _ := commandOf(t, exitError, "status", "-health", "-json", source)
		wantText(t, out, `"healthy": false`, `"unhealthy": "`, why)
		out, _ = commandOf(t, exitOK, "status", "-json", source)
		wantText(t, out, `"healthy": false`, why)
	}
}

func TestStatus_ShowsWhatToDoAboutAnError(t *testing.T) {
	remedy := "the token (consul.token, CONSUL_HTTP_TOKEN) needs service:read and node:read, see docs/acl.md"
	text := "services web, " + strings.Repeat("another-service, ", 10) + "cannot be read: Consul's access control hides them: " + remedy
	for _, phase := range []apispec.Phase{apispec.PhaseUnreadable, apispec.PhaseFailing, apispec.PhaseFailing, apispec.PhaseFailing} {
		if got := why(apispec.TaskOverview{Phase: phase, Reason: apispec.Reason{Text: text}}); !strings.HasSuffix(got, remedy) {
			t.Errorf("%s: %s", phase, got)
		}
	}
	if got := why(apispec.TaskOverview{Phase: apispec.PhaseSoon, Reason: apispec.Reason{Text: text}}); len([]rune(got)) != longReason {
		t.Errorf("a reason that is no error: %s", got)
	}
}

func TestStatus_FailingTaskHasItsErrorWhateverItWaitsFor(t *testing.T) {
	task := apispec.TaskOverview{Phase: apispec.PhaseFailing, Reason: apispec.Reason{Text: "retry number 1"}, Failures: new(1), Error: new("no such host")}
	for _, next := range []string{"retry number 1", "run r2 waits for the remote run"} {
		task.Reason.Text = next
		if got := why(task); got != next+": no such host" {
			t.Errorf("a failing task: %q", got)
		}
		task.Run = &apispec.Run{Wait: &apispec.Wait{For: apispec.WaitForRemote}}
	}
}

func TestStatus_ShowsWhatStopsADeploymentThatReadsBundles(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rec := state.Reconcile{Bundle: "0123456789abcdef", LastSuccess: now.Add(-3 * time.Minute), Stalled: "start launch l1: no capacity",
		Refused: &state.Refused{Bundle: "fedcba9876543210", Error: "web.yaml:3: no module", Since: now.Add(-time.Hour)}}
	if _, err := store.Apply(t.Context(), state.Create(state.ReconcileKey, state.Encode(rec))); err != nil {
		t.Fatal(err)
	}
	o, err := overview.Reader{Store: store, Now: func() time.Time { return now }}.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st := o
	var out bytes.Buffer
	_, _ = (&app{stdout: &out}).printStatus(onePart(st, nil), now)
	for _, want := range []string{
		"Bundle: 0123456789ab ", "Last good tick recorded: 3m ago", "Problem: start launch l1: no capacity",
		"Problem: bundle fedcba987654 was refused 1h ago and is not in force: web.yaml:3: no module",
	} {
		wantText(t, unwrapped(out.String()), want)
	}
	out.Reset()
	st.Refused.Bundle, st.Refused.Error, st.URL = nil, "the pointer is gone", new("https://a.example.com/ui/")
	_, _ = (&app{stdout: &out}).printStatus(onePart(st, nil), now)
	wantText(t, unwrapped(out.String()), "Pages: https://a.example.com/ui/")
	wantText(t, unwrapped(out.String()), "Problem, noticed 1h ago: the pointer is gone")
}

func TestStatus_NamesAnInstanceThatGetsNoRunsAndWhy(t *testing.T) {
	st := apispec.Overview{Healthy: true, Leader: &apispec.Leader{Owner: "cts-01"}, Instances: &[]apispec.InstanceRoom{
		{ID: "cts-01", Parallel: 4, Room: 3}, {ID: "cts-02", Parallel: 8, Room: 8, Differs: &[]string{"module", "guard"}}}}
	var out bytes.Buffer
	_, _ = (&app{stdout: &out}).printStatus(onePart(st, nil), time.Now())
	wantText(t, unwrapped(out.String()), "Runs: cts-01 has 1 of 4, cts-02 has 0 of 8")
	wantText(t, unwrapped(out.String()), "Problem: cts-02 gets no runs, because it differs from the leader in: module, guard")
	if strings.Contains(out.String(), "cts-01 gets no runs") {
		t.Errorf("the leader is reported: %s", out.String())
	}
}

// onePart is an overview that comes in one part.
func onePart(st apispec.Overview, err error) iter.Seq2[apispec.Overview, error] {
	return func(yield func(apispec.Overview, error) bool) { yield(st, err) }
}
