package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

var everything = access.Caller{Identity: identity.OfToken("ann"), Rights: roles.Everything()}

// entries are those of the audit record, the latest first.
func (e *engine) entries() []audit.Entry {
	e.t.Helper()
	all, _, err := audit.List(e.t.Context(), e.store, audit.Filter{Since: time.Now().Add(-48 * time.Hour), Until: time.Now().Add(48 * time.Hour), Limit: 1000}, func(audit.Entry) bool { return true })
	if err != nil {
		e.t.Fatal(err)
	}
	return all
}

// waitsWithWeb is an engine whose task web waits with a plan.
func waitsWithWeb(t *testing.T) *engine {
	e := newEngine(t, files)
	e.options.Tokens = credentials.New(e.store, time.Now)
	e.waits()
	e.put(t, state.RunKey("new", "p"), state.Run{ID: "p", Task: "new", Kind: state.KindPlan, State: state.RunSucceeded})
	e.Control.Plan = func(_ context.Context, task string, _ json.RawMessage) (state.PlannedRun, error) {
		return state.PlannedRun{ID: "p", Task: task}, nil // a task is planned before it is made
	}
	e.put(t, state.RunKey("web", "p"), state.Run{ID: "p", Task: "web", Kind: state.KindPlan, State: state.RunSucceeded})
	e.Control.WhatIf = func(ctx context.Context, w condition.WhatIf, _ []string, by string) (state.Question, error) {
		q := state.Question{ID: "w", Supposed: w.String(), By: by, Created: time.Now()}
		_, err := e.store.Apply(ctx, state.Create(state.QuestionKey(q.ID), state.Encode(q)))
		return q, err
	}
	return e
}

// operations are requests that change something, by operationId, with the entry that each leaves.
var operations = map[string]struct {
	method, path, body string
	want               audit.Entry
	before             func(*testing.T, *engine)
}{
	"planTask":   {"POST", "/v1/tasks/web/plan", "", audit.Entry{Action: audit.Plan, Task: "web"}, nil},
	"runTask":    {"POST", "/v1/tasks/web/run?wait=false", "", audit.Entry{Action: audit.Run, Task: "web"}, func(t *testing.T, e *engine) { e.ended(t, state.RunSucceeded) }},
	"cancelTask": {"POST", "/v1/tasks/web/cancel", "", audit.Entry{Action: audit.Cancel, Task: "web", Run: "01a201e4-2442-7a95-affe-026786fc5285"}, nil},
	"decidePlan": {"POST", "/v1/tasks/web/approval", `{"decision": "approve", "plan": "plan-0001", "comment": "rack 7"}`,
		audit.Entry{Action: audit.Approve, Task: "web", Run: "01a201e4-2442-7a95-affe-026786fc5285", Plan: "plan-0001", Comment: "rack 7", Content: &state.Content{Definition: "d", Input: "i", Plan: "p"}}, nil},
	"approvePlans": {"POST", "/v1/approvals", `{"plans": [{"task": "web", "plan": "plan-0001"}], "comment": "rack 7"}`,
		audit.Entry{Action: audit.Approve, Task: "web", Run: "01a201e4-2442-7a95-affe-026786fc5285", Plan: "plan-0001", Comment: "rack 7", Content: &state.Content{Definition: "d", Input: "i", Plan: "p"}}, nil},
	"holdTask": {"POST", "/v1/tasks/web/hold", `{"comment": "by hand", "by": "somebody else"}`, audit.Entry{Action: audit.Hold, Task: "web", Comment: "by hand"}, nil},
	"releaseTask": {"DELETE", "/v1/tasks/web/hold", "", audit.Entry{Action: audit.Release, Task: "web"}, func(t *testing.T, e *engine) {
		if err := e.Control.Hold(t.Context(), "web", "bob", ""); err != nil {
			t.Fatal(err)
		}
	}},
	"destroyTask": {"POST", "/v1/tasks/web/destroy", "", audit.Entry{Action: audit.Destroy, Task: "web"}, nil},
	"updateTask":  {"PATCH", "/v1/tasks/web", `{"enabled": false}`, audit.Entry{Action: audit.Disable, Task: "web"}, nil},
	"deleteTask":  {"DELETE", "/v1/tasks/web", "", audit.Entry{Action: audit.Delete, Task: "web"}, nil},
	"createTask":  {"POST", "/v1/tasks", `{"task": {"name": "new", "module": "./m", "condition": {"services": {"names": ["a"]}}}}`, audit.Entry{Action: audit.Create, Task: "new"}, nil},
	"forgetTask": {"POST", "/v1/tasks/old/forget", "", audit.Entry{Action: audit.Forget, Task: "old"}, func(t *testing.T, e *engine) {
		e.put(t, state.TaskKey("old"), state.Task{})
	}},
	"createToken": {"POST", "/v1/tokens", `{"name": "ci"}`, audit.Entry{Action: audit.CreateToken, Detail: "token:ci"}, nil},
	"revokeToken": {"DELETE", "/v1/tokens/ci", "", audit.Entry{Action: audit.RevokeToken, Detail: "token:ci"}, func(t *testing.T, e *engine) {
		e.put(t, credentials.TokenPrefix+"ci", credentials.Token{Name: "ci"})
	}},
	"approveConsul": {"POST", "/v1/consul/approval", `{"comment": "set up anew"}`, audit.Entry{Action: audit.ApproveAll, Comment: "set up anew", Detail: "3 tasks would lose 9 entries: a and 2 more"}, func(t *testing.T, e *engine) {
		e.put(t, state.ReconcileKey, state.Reconcile{Replaced: &state.Replaced{Tasks: 3, Entries: 9, Names: []string{"a"}, Shown: "x"}})
	}},
	"pause": {"POST", "/v1/pause", `{"reason": "new firewalls"}`, audit.Entry{Action: audit.Pause, Comment: "new firewalls"}, nil},
	"resume": {"POST", "/v1/resume", `{}`, audit.Entry{Action: audit.Resume}, func(t *testing.T, e *engine) {
		e.put(t, state.ReconcileKey, state.Reconcile{Paused: &state.Paused{By: "bob"}})
	}},
	"askWhatIf": {"POST", "/v1/what-if", `{"without": [{"node": "n7"}, {"service": "web", "datacenter": "dc2"}], "tasks": ["web"]}`,
		audit.Entry{Action: audit.WhatIf, Detail: "without node n7; without service web, datacenter dc2, for web"}, nil},
}

func (e *engine) put(t testing.TB, key string, data any) {
	t.Helper()
	if _, err := e.store.Apply(t.Context(), state.Create(key, state.Encode(data))); err != nil {
		t.Fatal(err)
	}
}

// ended replaces the run of the task web that waits by one that has ended.
func (e *engine) ended(t *testing.T, how state.RunState) {
	t.Helper()
	rec, err := state.Read[state.Task](t.Context(), e.store, state.TaskKey("web"))
	if err != nil {
		t.Fatal(err)
	}
	next := rec.Data
	next.Run, next.Ended.Last = nil, &state.Result{Run: "r", State: how}
	if how == state.RunFailed {
		next.Failing.Count = 1
	}
	if _, err := e.store.Apply(t.Context(), rec.Write(next)); err != nil {
		t.Fatal(err)
	}
}

func TestAudit_EachOperationLeavesExactlyOneEntry(t *testing.T) {
	if listed := slices.Sorted(maps.Keys(operations)); !slices.Equal(listed, slices.Sorted(slices.Values(api.Audited))) {
		t.Fatalf("operations are %q, want those of Audited", listed)
	}
	for name, o := range operations {
		e := waitsWithWeb(t)
		if o.before != nil {
			o.before(t, e)
		}
		had := len(e.entries())
		if code, said := e.answers(everything)(o.method, o.path, o.body); code >= 300 {
			t.Errorf("%s: %d %s", name, code, said)
			continue
		}
		all := e.entries()
		if name == "createTask" { // a plan is made first
			had++
		}
		if len(all) != had+1 {
			t.Errorf("%s leaves %d entries", name, len(all)-had)
			continue
		}
		got := all[0]
		want := o.want
		want.ID, want.At, want.Request = got.ID, got.At, got.Request
		want.By, want.Proof, want.Via, want.From = "token:ann", identity.Token, audit.API, "192.0.2.1"
		if string(state.Encode(got)) != string(state.Encode(want)) || time.Since(got.At).Abs() > time.Minute {
			t.Errorf("%s leaves\n%s\nwant\n%s", name, state.Encode(got), state.Encode(want))
		}
	}
}

// refusing refuses every write of a record that begins so.
type refusing struct {
	state.Store
	prefix string
}

func (s refusing) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if slices.ContainsFunc(changes, func(c state.Change) bool { return strings.HasPrefix(c.Key, s.prefix) }) {
		return nil, errors.New("the table is full")
	}
	return s.Store.Apply(ctx, changes...)
}

func TestAudit_NoChangeWithoutItsEntry(t *testing.T) {
	for name, o := range operations {
		e := waitsWithWeb(t)
		if o.before != nil {
			o.before(t, e)
		}
		e.Control.Store = refusing{e.store, "audit-"}
		e.options.Tokens = credentials.New(e.Control.Store, time.Now)
		before, had := e.all(t), len(e.entries())
		if code, _ := e.answers(everything)(o.method, o.path, o.body); code < 500 {
			t.Errorf("%s is answered with %d, though its entry cannot be written", name, code)
		}
		if after := e.all(t); before != after || len(e.entries()) != had {
			t.Errorf("%s changes the store without an entry:\n%s\n%s", name, before, after)
		}
	}
}

// all are the records that the operations change.
func (e *engine) all(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, prefix := range []string{"task/", "run/", "override/", "token/", "reconcile/", "outbox/", state.QuestionPrefix} {
		recs, err := e.store.List(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			text.WriteString(r.Key + " " + r.Version + "\n")
		}
	}
	return text.String()
}

func TestAudit_AWhatIfThatCannotBeAnsweredWasAskedAllTheSame(t *testing.T) {
	e := waitsWithWeb(t)
	e.Control.WhatIf = func(context.Context, condition.WhatIf, []string, string) (state.Question, error) {
		return state.Question{}, errors.New("consul.example:8500: connection refused")
	}
	ticks := 0
	e.Control.Wake = func(context.Context) { ticks++ }
	before := e.all(t)
	if code, said := e.answers(everything)("POST", "/v1/what-if", `{"without": [{"node": "n7"}]}`); code < 500 || !strings.Contains(said, "connection refused") {
		t.Errorf("%d %s", code, said)
	}
	if all := e.entries(); len(all) != 1 || all[0].Action != audit.WhatIf || all[0].By != "token:ann" || all[0].Detail != "without node n7" {
		t.Errorf("%+v", all)
	}
	if after := e.all(t); after != before || ticks != 0 {
		t.Errorf("a what-if requested %d ticks, and changed\n%s\nto\n%s", ticks, before, after)
	}
	// One that says nothing valid was not asked.
	for _, body := range []string{`{}`, `{"without": [{"node": "n7"}], "tasks": ["nobody"]}`, `{"without": [{"node": "n7"}], "tasks": ["off"]}`} {
		if code, said := e.answers(everything)("POST", "/v1/what-if", body); code < 400 || code >= 500 || len(e.entries()) != 1 {
			t.Errorf("%s: %d %s, %d entries", body, code, said, len(e.entries()))
		}
	}
}

func TestAudit_NothingClaimedIsTakenForProven(t *testing.T) {
	e := waitsWithWeb(t)
	anybody := access.Caller{Identity: identity.Identity{Name: "API client 192.0.2.1", Proof: identity.Local}, Rights: roles.Everything()}
	for _, claim := range []string{"token:ann", "token:ann ", "ann\\n2026-11-26T12:00:00Z token:ann approve", "\\u202etoken:ann", "token:ann (not proven)", "tоken:ann", "token:ann\\u0000"} {
		code, said := e.answers(anybody)("POST", "/v1/tasks/web/hold", `{"by": "`+claim+`", "comment": "x\nproof: token"}`)
		if code >= 300 {
			code, said = e.answers(anybody)("POST", "/v1/tasks/web/hold", `{"by": "`+claim+`"}`)
		}
		if code >= 300 {
			t.Fatalf("%q: %d %s", claim, code, said)
		}
		got := e.entries()[0]
		if got.Proof == identity.Token || !strings.HasSuffix(got.By, "(not proven)") || strings.ContainsAny(got.By+got.Comment, "\n\x00\u202e") {
			t.Errorf("%q leaves %+v", claim, got)
		}
		if code, said := e.answers(everything)("DELETE", "/v1/tasks/web/hold", ""); code >= 300 {
			t.Fatalf("%d %s", code, said)
		}
	}
}

func TestAudit_KeepsRefusedAttemptsOfProvenIdentities(t *testing.T) {
	e := waitsWithWeb(t)
	for range 20 {
		for _, c := range []access.Caller{
			{Identity: identity.OfToken("ci"), Rights: roles.Viewing()},
			{Identity: identity.Identity{Name: "token:ci", Proof: identity.None}, Rights: roles.Viewing()},
			{Identity: identity.Identity{Name: "x", Proof: identity.Local}},
		} {
			for _, o := range operations {
				e.answers(c).wants(t, o.method, o.path, o.body, http.StatusForbidden)
			}
		}
	}
	all := e.entries()
	if len(all) < 3 || len(all) > 6 { // three roles, perhaps in two hours
		t.Errorf("%d entries", len(all))
	}
	for _, got := range all {
		if got.Action != audit.Refused || got.By != "token:ci" || got.Proof != identity.Token || !strings.Contains(got.Detail, "needs the role") {
			t.Errorf("%+v", got)
		}
	}
	e.base.Load().Tasks[0].Approval = approval.Spec{Rule: approval.Always, From: []string{"token:bob"}}
	e.answers(access.Caller{Identity: identity.OfToken("dan"), Rights: roles.Everything()})("POST", "/v1/tasks/web/approval", `{"decision": "approve", "plan": "plan-0001"}`)
	if got := e.entries(); !slices.ContainsFunc(got, func(e audit.Entry) bool {
		return e.By == "token:dan" && strings.Contains(e.Detail, "is not one of those who approve")
	}) {
		t.Errorf("%+v", got)
	}
}

// A server refuses who may change nothing in the words of the operation, and with its entry.
func TestRefuse_IsAsTheOperationItselfRefuses(t *testing.T) {
	ci := access.Caller{Identity: identity.OfToken("ci"), Rights: roles.Viewing()}
	for name, o := range operations {
		itself, before := waitsWithWeb(t), waitsWithWeb(t)
		_, want := itself.answers(ci)(o.method, o.path, o.body)
		r := httptest.NewRequestWithContext(access.With(t.Context(), ci), o.method, o.path, nil)
		err := api.New(before.options).Refuse(middleware.WithID(r))
		if denied := new(access.Refused); !errors.As(err, &denied) || !strings.Contains(want, err.Error()) {
			t.Errorf("%s: %v, and the operation itself says %s", name, err, want)
			continue
		}
		kept, also := before.entries(), itself.entries()
		if len(kept) != 1 || len(also) != 1 || kept[0].Detail != also[0].Detail || kept[0].Task != also[0].Task || kept[0].Action != audit.Refused || kept[0].By != "token:ci" || kept[0].Via != audit.API || kept[0].Request == "" {
			t.Errorf("%s: the audit record has %+v, and after the operation itself %+v", name, kept, also)
		}
	}
}

func TestRefuse_WhatNobodyCanDoNeedsTheRoleOperate(t *testing.T) {
	e := newEngine(t, files)
	handler := api.New(e.options)
	for _, o := range [][2]string{{"POST", "/v1/nothing"}, {"PUT", "/v1/tasks/web"}, {"POST", "/"}, {"POST", "/v1/tasks//hold"}, {"BREW", "/v1/tasks/web"}} {
		r := httptest.NewRequestWithContext(access.With(t.Context(), access.Caller{Identity: identity.OfToken("ci"), Rights: roles.Viewing()}), o[0], o[1], nil)
		if err := handler.Refuse(r); err == nil || !strings.Contains(err.Error(), "token:ci may view, but needs the role operate: ") {
			t.Errorf("%s %s: %v", o[0], o[1], err)
		}
	}
	if all := e.entries(); len(all) != 0 {
		t.Errorf("the audit record has %+v", all)
	}
}

func TestAudit_EntriesAreForThoseWhoMayViewTheirTask(t *testing.T) {
	e := newEngine(t, someTasks("web-a", "vpn"))
	act := e.answers(everything)
	e.Control.WhatIf = func(context.Context, condition.WhatIf, []string, string) (state.Question, error) {
		return state.Question{}, reconcile.ErrBusy // it was asked all the same
	}
	for _, path := range []string{"/v1/tasks/web-a/hold", "/v1/tasks/vpn/hold", "/v1/pause"} {
		act.wants(t, "POST", path, "{}", http.StatusOK)
	}
	act.wants(t, "POST", "/v1/what-if", `{"without": [{"node": "n7"}], "tasks": ["web-a"]}`, http.StatusTooManyRequests)
	for query, want := range map[string][]int{"": {4, 1}, "?task=vpn": {1, 0}, "?by=ANN&action=hold": {2, 1}, "?since=2020-01-01T00:00:00Z&until=2020-02-01T00:00:00Z": {0, 0}, "?limit=1": {1, 1}} {
		for i, c := range []access.Caller{everything, with(map[roles.Role][]string{roles.View: {"web-*"}})} {
			var got apispec.AuditResponse
			code, said := e.answers(c)("GET", "/v1/audit"+query, "")
			if err := json.Unmarshal([]byte(said), &got); err != nil || code != http.StatusOK || len(got.Entries) != want[i] || (got.Next != nil) != (query == "?limit=1" && i == 0) {
				t.Errorf("%q, caller %d: %d %d entries, next %v", query, i, code, len(got.Entries), got.Next)
			}
		}
	}
	act.wants(t, "GET", "/v1/audit?since=yesterday", "", http.StatusBadRequest)
}

func TestPlan_IsRefusedWhileTooManyAreUnderWay(t *testing.T) {
	e := waitsWithWeb(t)
	e.Control.Plan = func(context.Context, string, json.RawMessage) (state.PlannedRun, error) {
		return state.PlannedRun{}, fmt.Errorf("%w: try again when some have ended", reconcile.ErrBusy)
	}
	e.Control.WhatIf = func(context.Context, condition.WhatIf, []string, string) (state.Question, error) {
		return state.Question{}, reconcile.ErrBusy
	}
	for path, body := range map[string]string{"/v1/tasks/web/plan": "", "/v1/what-if": `{"without": [{"node": "n7"}]}`} {
		e.answers(everything).wants(t, "POST", path, body, http.StatusTooManyRequests, "too many plans")
	}
}

func TestAudit_SaysWhoPlannedWhat(t *testing.T) {
	const draft = `{"task": {"name": "new", "module": "./m", "condition": {"services": {"names": ["a"]}}}}`
	const ofDraft = "of a definition that the request has, and that is not in force"
	for _, o := range []struct{ method, path, body, task, detail string }{
		{"POST", "/v1/tasks/web/plan", "", "web", ""},
		{"PATCH", "/v1/tasks/web?run=inspect", `{"enabled": true}`, "web", ""},
		{"POST", "/v1/tasks?run=inspect", draft, "new", ofDraft},
		{"POST", "/v1/tasks?run=inspect&replace=true", draft, "new", ofDraft},
	} {
		for _, fails := range []bool{false, true} {
			e := waitsWithWeb(t)
			plan := e.Control.Plan
			e.Control.PlanReplacing = func(ctx context.Context, d json.RawMessage) (state.PlannedRun, error) {
				return e.Control.Plan(ctx, "new", d)
			}
			e.Control.Plan = func(ctx context.Context, task string, d json.RawMessage) (state.PlannedRun, error) {
				if all := e.entries(); len(all) != 1 || audit.Of(ctx).Noted != all[0].ID {
					t.Errorf("%s %s: the plan begins with the entries %+v", o.method, o.path, all)
				}
				if fails {
					return state.PlannedRun{}, errors.New("no container")
				}
				return plan(ctx, task, d)
			}
			if code, said := e.answers(everything)(o.method, o.path, o.body); (code >= 300) != fails {
				t.Errorf("%s %s: %d %s", o.method, o.path, code, said)
			}
			all := e.entries()
			if len(all) != 1 || all[0].Action != audit.Plan || all[0].By != "token:ann" || all[0].Proof != identity.Token || all[0].Task != o.task || all[0].Detail != o.detail || all[0].Via != audit.API {
				t.Errorf("%s %s leaves %+v", o.method, o.path, all)
			}
		}
	}
	// Nothing is planned of a task that is not there, or disabled, and nothing by somebody without the role.
	e := waitsWithWeb(t)
	for path, want := range map[string]int{"/v1/tasks/nobody/plan": http.StatusNotFound, "/v1/tasks/off/plan": http.StatusConflict} {
		if code, said := e.answers(everything)("POST", path, ""); code != want || len(e.entries()) != 0 {
			t.Errorf("%s: %d %s, %d entries", path, code, said, len(e.entries()))
		}
	}
	e.answers(with(map[roles.Role][]string{roles.View: {"*"}, roles.Operate: {"dns"}})).wants(t, "POST", "/v1/tasks/web/plan", "", http.StatusForbidden)
}
