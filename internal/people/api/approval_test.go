package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// waits has the task web wait for an approval.
func (e *engine) waits() {
	e.t.Helper()
	wait := &state.Wait{For: state.WaitApproval, ID: "plan-0001", Since: time.Now(), Causes: []state.Cause{{Rule: state.RuleInputGuard, Text: "40 of 60 service instances are gone"}},
		Content: &state.Content{Definition: "d", Input: "i", Plan: "p"}}
	run := state.Run{ID: "01a201e4-2442-7a95-affe-026786fc5285", Task: "web", Kind: state.KindApply, State: state.RunWaiting, Waits: state.Waits{Wait: wait}, Created: time.Now(),
		Work: state.Work{Changes: &state.Changes{Destroy: 40}, Entries: &state.EntryChanges{Removed: 40, Entries: []state.EntryChange{
			{Action: state.EntryRemoved, Name: "web-1.n1.dc1", Group: "web", ID: "web-1", Address: "10.0.0.1:80"}}}}}
	task := state.Task{Applied: state.Applied{At: time.Now()}, Run: &state.LiveRun{ID: run.ID, Created: run.Created, Wait: wait}}
	e.put(e.t, state.TaskKey("web"), task)
	e.put(e.t, state.RunKey("web", run.ID), run)
}

// sends sends a request with the token or the certificate of this name, if any, and decodes the answer.
func (e *engine) sends(method, path, body, token string, out any) int {
	e.t.Helper()
	ctx := e.t.Context()
	if token != "" {
		who := identity.OfToken(token)
		if strings.HasPrefix(token, "cert:") {
			who = identity.Identity{Name: token, Proof: identity.Certificate}
		}
		ctx = access.With(ctx, access.Caller{Identity: who, Rights: roles.Everything()})
	}
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	api.New(e.options).ServeHTTP(w, r)
	if out != nil {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
			e.t.Fatalf("%v: %s", err, w.Body)
		}
	}
	return w.Code
}

func TestApproval_WaitingPlanIsShownAndApprovedByWhoIsProven(t *testing.T) {
	for name, test := range map[string]struct {
		token, by     string
		authenticated bool
	}{
		"a token":       {"api.token", "token:api.token", true},
		"a certificate": {"cert:ann", "cert:ann", true},
		"neither":       {"", "jo@laptop (not proven)", false},
	} {
		e := newEngine(t, files)
		e.waits()
		var shown apispec.WaitingPlanResponse
		if code := e.sends("GET", "/v1/tasks/web/plan", "", test.token, &shown); code != http.StatusOK {
			t.Fatal(code)
		}
		if w := shown.Waiting; w.ID != "plan-0001" || w.Causes[0].Text != "40 of 60 service instances are gone" || w.Content.Input != "i" || w.Changes.Destroy != 40 {
			t.Errorf("%+v", shown)
		}
		if e := shown.Waiting.Entries; e == nil || e.Removed != 40 || e.Text != "web: -web-1 (10.0.0.1:80) and 39 more removed" || *(*e.Entries)[0].Address != "10.0.0.1:80" {
			t.Errorf("the entries are %+v", e)
		}
		for body, want := range map[string]int{
			`{"decision": "approve", "plan": "plan-0002"}`: http.StatusConflict,
			`{"decision": "perhaps"}`:                      http.StatusBadRequest,
			`{}`:                                           http.StatusBadRequest,
			`{"decision": "approve", "plan": "plan-0001", "by": "jo@laptop", "comment":"c"}`: http.StatusAccepted,
		} {
			if code := e.sends("POST", "/v1/tasks/web/approval", body, test.token, nil); code != want {
				t.Errorf("%s: %s: %d, want %d", name, body, code, want)
			}
		}
		if !e.resumes("web") {
			t.Fatalf("%s: %+v", name, e.task("web"))
		}
		if a := e.task("web").Run.Resume.Approval; a.By != test.by || a.Authenticated != test.authenticated || a.Comment != "c" || a.Content.Plan != "p" {
			t.Errorf("%s: %+v", name, a)
		}
		e.sends("GET", "/v1/tasks/web/plan", "", test.token, &shown)
		if a := shown.Waiting.Approved; a == nil || a.By != test.by || a.Authenticated != test.authenticated {
			t.Errorf("%s: shown as %+v", name, a)
		}
	}
}

// A name that the sender gives is no fact, wherever it is read.
func TestClaimedName_IsMarkedWhereverItIsShown(t *testing.T) {
	for _, c := range []struct{ method, path, body, read string }{
		{"POST", "/v1/tasks/web/approval", `{"decision": "approve", "plan": "plan-0001", "by": "the-boss"}`, "/v1/tasks/web/overview"},
		{"POST", "/v1/tasks/web/approval", `{"decision": "approve", "plan": "plan-0001", "by": "the-boss"}`, "/v1/tasks/web/plan"},
		{"POST", "/v1/tasks/web/approval", `{"decision": "reject", "plan": "plan-0001", "by": "the-boss (not proven)"}`, "/v1/tasks/web/runs"},
		{"POST", "/v1/tasks/web/hold", `{"by": "the-boss"}`, "/v1/overview"},
		{"POST", "/v1/tasks/web/hold", `{"by": "token:api.token"}`, "/v1/overview"},
		{"POST", "/v1/pause", `{"by": "the-boss"}`, "/v1/overview"},
	} {
		e := newEngine(t, files)
		e.waits()
		if code := e.sends(c.method, c.path, c.body, "", nil); code >= 300 {
			t.Fatalf("%s %s: %d", c.method, c.path, code)
		}
		var said json.RawMessage
		e.sends("GET", c.read, "", "", &said)
		name, _, _ := strings.Cut(strings.Split(c.body, `"by": "`)[1], `"`)
		name = strings.TrimSuffix(name, " (not proven)")
		if text := string(said); !strings.Contains(text, name) || strings.Count(text, name) != strings.Count(text, name+" (not proven)") {
			t.Errorf("%s shows %s as a fact, or not at all: %s", c.read, name, said)
		}
	}
}

func TestApproval_DistinctApproverMustBeAnotherProvenPerson(t *testing.T) {
	e := newEngine(t, "require_distinct_approver = true\n"+files)
	e.waits()
	var overview apispec.TaskOverviewResponse
	if e.sends("PATCH", "/v1/tasks/web", `{"enabled": false}`, "api.token", nil); e.sends("GET", "/v1/tasks/web/overview", "", "", &overview) != http.StatusOK || overview.Task.Enabled {
		t.Fatalf("%+v", overview)
	}
	for _, token := range []string{"api.token", ""} {
		if code := e.sends("POST", "/v1/tasks/web/approval", `{"decision": "approve", "plan": "plan-0001", "by": "ann@host"}`, token, nil); code != http.StatusForbidden {
			t.Errorf("with %q: %d", token, code)
		}
	}
}

func TestApproval_RejectedPlanIsGoneAndTheTaskIsHeld(t *testing.T) {
	e := newEngine(t, files)
	e.waits()
	if code := e.sends("POST", "/v1/tasks/web/approval", `{"decision": "reject", "plan": "plan-0001", "by": "jo@laptop", "comment": "they come back"}`, "", nil); code != http.StatusAccepted {
		t.Fatal(code)
	}
	var overview apispec.TaskOverviewResponse
	e.sends("GET", "/v1/tasks/web/overview", "", "", &overview)
	if overview.Task.Phase != apispec.PhaseStopped || apispec.Deref(overview.Task.LastRun.Error) != "rejected by jo@laptop (not proven): they come back" {
		t.Errorf("%+v", overview.Task)
	}
	for path, want := range map[string]string{
		"/v1/tasks/web/plan":  "no plan of task 'web' waits for an approval",
		"/v1/tasks/nope/plan": "a task with name 'nope' does not exist",
	} {
		var said apispec.ErrorResponse
		if code := e.sends("GET", path, "", "", &said); code != http.StatusNotFound || !strings.Contains(said.Error.Message, want) {
			t.Errorf("%s: %d %+v", path, code, said)
		}
	}
}

func TestHold_RequestedRunIsAnsweredWithWhatItWaitsFor(t *testing.T) {
	e := newEngine(t, files)
	hold := func(method string, want int) {
		t.Helper()
		if code := e.sends(method, "/v1/tasks/web/hold", `{"comment": "change freeze", "by": "jo@laptop"}`, "", nil); code != want {
			t.Errorf("%s: %d, want %d", method, code, want)
		}
	}
	hold("POST", http.StatusOK)
	hold("POST", http.StatusOK)
	var said apispec.ErrorResponse
	if code := e.sends("POST", "/v1/tasks/web/run?wait=true", "", "", &said); code != http.StatusConflict || !strings.Contains(said.Error.Message, "on hold by jo@laptop") {
		t.Errorf("%d %+v", code, said)
	}
	if code := e.sends("POST", "/v1/tasks/nope/hold", `{}`, "", nil); code != http.StatusNotFound {
		t.Error(code)
	}
	hold("DELETE", http.StatusOK)
	hold("DELETE", http.StatusConflict)
}

func TestRun_WaitingForAnApprovalIsReturned(t *testing.T) {
	e := newEngine(t, files)
	e.waits()
	var answer apispec.RunResponse
	if code := e.sends("POST", "/v1/tasks/web/run?wait=true", "", "", &answer); code != http.StatusOK || answer.Run.State != apispec.RunStateWaiting || answer.Run.Wait == nil {
		t.Errorf("%d %+v", code, answer)
	}
}

// A removed task is listed, and may wait for something else than an approval.
func TestApproval_TaskWithoutAPlanSaysWhatItWaitsFor(t *testing.T) {
	e := newEngine(t, files)
	for name, reason := range map[string]state.Reason{
		"gone": {Code: state.ReasonRenamed, Text: "perhaps it is task edge under a new name"},
		"web":  {Code: state.ReasonAfter, Text: "waits for firewall: it fails: no answer"},
	} {
		e.put(t, state.TaskKey(name), state.Task{Reason: reason})
		for method, path := range map[string]string{"GET": "/plan", "POST": "/approval"} {
			var said apispec.ErrorResponse
			code := e.sends(method, "/v1/tasks/"+name+path, `{"decision":"approve","plan":"plan-0001"}`, "api.token", &said)
			if text := said.Error.Message; code != http.StatusNotFound || !strings.Contains(text, "no plan of task '"+name+"' waits for an approval; it is ") || !strings.Contains(text, reason.Text) {
				t.Errorf("%s %s: %d %s", method, name, code, text)
			}
		}
	}
	var said apispec.ErrorResponse
	if e.sends("GET", "/v1/tasks/nope/plan", "", "api.token", &said); !strings.Contains(said.Error.Message, "a task with name 'nope' does not exist") {
		t.Error(said.Error.Message)
	}
}
