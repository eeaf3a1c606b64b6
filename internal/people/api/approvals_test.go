package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// waiting are tasks of a site that wait with plans, each named like its task.
func waiting(t *testing.T, names ...string) *engine {
	t.Helper()
	var hcl strings.Builder
	for i, name := range names {
		fmt.Fprintf(&hcl, "task {\n name = %q\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n labels = { site = %q }\n}\n", name, []string{"muc", "ber"}[i%2])
	}
	e := newEngine(t, hcl.String()).serve()
	for i, name := range names {
		wait := &state.Wait{For: state.WaitApproval, ID: "plan-of-" + name, Since: time.Now(), Causes: []state.Cause{{Rule: state.RuleApproval, Text: "it has to be approved"}},
			Content: &state.Content{Definition: "d", Input: "i", Plan: name}}
		run := state.Run{ID: fmt.Sprintf("01a201e4-2442-7a95-affe-%012d", i), Task: name, Kind: state.KindApply, State: state.RunWaiting, Waits: state.Waits{Wait: wait}, Created: time.Now()}
		task := state.Task{Applied: state.Applied{At: time.Now()}, Run: &state.LiveRun{ID: run.ID, Created: run.Created, Wait: wait}}
		e.put(t, state.TaskKey(name), task)
		e.put(t, state.RunKey(name, run.ID), run)
	}
	return e
}

// task is the record of a task.
func (e *engine) task(name string) state.Task {
	e.t.Helper()
	known, err := state.Read[state.Task](e.t.Context(), e.store, state.TaskKey(name))
	if err != nil {
		e.t.Fatal(err)
	}
	return known.Data
}

// resumes reports whether the plan of a task was approved.
func (e *engine) resumes(task string) bool { e.t.Helper(); return e.task(task).Run.Resume != nil }

func TestApprovals_EachPlanIsApprovedForItself(t *testing.T) {
	e := waiting(t, "fw-1", "fw-2", "fw-3", "vpn")
	rights := roles.Given(map[roles.Role][]string{roles.View: {"*"}, roles.Approve: {"fw-*"}})
	ask := e.answers(access.Caller{Identity: identity.OfToken("ann"), Rights: rights})
	ask.wants(t, "POST", "/v1/approvals", `{"comment": "rack 7", "plans": [{"task": "fw-1", "plan": "plan-of-fw-1"}, {"task": "fw-2", "plan": "plan-of-another"},
		{"task": "vpn", "plan": "plan-of-vpn"}, {"task": "gone", "plan": "plan-of-gone"}, {"task": "fw-3", "plan": "plan-of-fw-3"}]}`, http.StatusOK,
		`"approved":true,"plan":"plan-of-fw-1","task":"fw-1"`, "another plan of task 'fw-2' waits for an approval now", "needs the role approve for task vpn", "needs the role approve for task gone")
	for task, want := range map[string]bool{"fw-1": true, "fw-2": false, "fw-3": true, "vpn": false} {
		if e.resumes(task) != want {
			t.Errorf("that %s is approved is %t", task, !want)
		}
	}
	var kept []string
	for _, entry := range e.entries() {
		kept = append(kept, string(entry.Action)+" "+entry.Task)
	}
	if slices.Sort(kept); !slices.Contains(kept, string(audit.Approve)+" fw-1") || !slices.Contains(kept, string(audit.Refused)+" vpn") {
		t.Errorf("the audit record has %q", kept)
	}
}

func TestApprovals_NameTheirPlansByAtLeastEightCharacters(t *testing.T) {
	e := waiting(t, "fw-1")
	for _, decision := range []string{"approve", "reject"} {
		for _, plan := range []string{"", `, "plan": ""`, `, "plan": "p"`, `, "plan": "plan-of"`} {
			e.answers(everything).wants(t, "POST", "/v1/tasks/fw-1/approval", `{"decision": "`+decision+`"`+plan+`}`, http.StatusBadRequest, "plan")
		}
	}
	for _, body := range []string{`{}`, `{"plans": []}`, `{"plans": [{"task": "fw-1"}]}`, `{"plans": [{"task": "fw-1", "plan": ""}]}`, `{"plans": [{"task": "fw-1", "plan": "plan"}]}`} {
		if code := e.sends("POST", "/v1/approvals", body, "api.token", nil); code != http.StatusBadRequest {
			t.Errorf("%s: %d", body, code)
		}
	}
	if e.resumes("fw-1") {
		t.Error("it is approved")
	}
	e.answers(everything).wants(t, "POST", "/v1/tasks/fw-1/approval", `{"decision": "approve", "plan": "plan-of-"}`, http.StatusAccepted)
}

func TestLabels_SelectTasksInEachList(t *testing.T) {
	e := waiting(t, "fw-1", "fw-2", "fw-3")
	for path, names := range lists {
		if got, _ := names(t, e.get(path+"?label=site%3Dmuc")); strings.Join(got, " ") != "fw-1 fw-3" {
			t.Errorf("%s lists %s", path, got)
		}
	}
	var o apispec.Overview
	decode(t, e.get("/v1/overview?group=site"), &o)
	if g := apispec.Deref(o.Groups); len(g) != 2 || g[1].Value != "muc" || g[1].Tasks != 2 || g[1].Phases["waiting"] != 2 {
		t.Errorf("groups are %+v", g)
	}
	if a := e.get("/v1/overview?label=muc"); a.status != http.StatusBadRequest || !strings.Contains(a.body, "use KEY=VALUE") {
		t.Error(a)
	}
}

// failing is a store that refuses to write after some changes.
type failing struct {
	state.Store
	left int
}

func (f *failing) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if f.left--; f.left < 0 {
		return nil, errors.New("the disk is full")
	}
	return f.Store.Apply(ctx, changes...)
}

func TestApprovals_StoreThatFailsInBetweenLeavesNoDoubtAboutTheOthers(t *testing.T) {
	const three = `{"plans": [{"task": "fw-1", "plan": "plan-of-fw-1"}, {"task": "fw-2", "plan": "plan-of-fw-2"}, {"task": "fw-3", "plan": "plan-of-fw-3"}]}`
	e := waiting(t, "fw-1", "fw-2", "fw-3")
	store := &failing{Store: e.store}
	e.Control.Store = store
	ask := e.answers(everything)
	ask.wants(t, "POST", "/v1/approvals", three, http.StatusInternalServerError, "the disk is full")
	store.left = 1
	code, said := ask("POST", "/v1/approvals", three)
	var answer apispec.ApprovalsResponse
	if err := json.Unmarshal([]byte(said), &answer); err != nil || code != http.StatusOK || len(answer.Results) != 3 {
		t.Fatalf("%d %s: %v", code, said, err)
	}
	for i, want := range []string{"", "it is not known whether this approval is recorded: repeat the request: ", "not tried, because the approval of task 'fw-2' failed: repeat the request"} {
		r := answer.Results[i]
		if r.Approved != (want == "") || !strings.HasPrefix(apispec.Deref(r.Error), want) || e.resumes(r.Task) != r.Approved {
			t.Errorf("%s: approved %t, %q, and the store has %t", r.Task, r.Approved, apispec.Deref(r.Error), e.resumes(r.Task))
		}
	}
	store.left = 100
	if code, said := ask("POST", "/v1/approvals", three); code != http.StatusOK || strings.Contains(said, `"approved":false`) || !e.resumes("fw-3") {
		t.Errorf("the same request again: %d %s", code, said)
	}
}
