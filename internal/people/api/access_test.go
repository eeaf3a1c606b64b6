package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// with is a caller with roles for patterns of tasks.
func with(tasks map[roles.Role][]string) access.Caller {
	return access.Caller{Identity: identity.OfToken("ci"), Rights: roles.Given(tasks)}
}

// asking sends requests of a caller.
type asking func(method, path, body string) (int, string)

// wants fails the test if a request is answered with another status, or without these words.
func (ask asking) wants(t *testing.T, method, path, body string, status int, words ...string) {
	t.Helper()
	code, said := ask(method, path, body)
	if code != status {
		t.Errorf("%s %s %.60s: %d, want %d: %s", method, path, body, code, status, said)
	}
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%s %s %.60s lacks %q: %s", method, path, body, w, said)
		}
	}
}

// answers returns what sends requests of a caller.
func (e *engine) answers(c access.Caller) asking {
	handler := api.New(e.options)
	return func(method, path, body string) (int, string) {
		r := httptest.NewRequestWithContext(access.With(e.t.Context(), c), method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
}

// someTasks are definitions of tasks with these names.
func someTasks(names ...string) string {
	var hcl strings.Builder
	for _, name := range names {
		after := "" // of hidden tasks, some come before and some after those that a viewer may view
		switch name {
		case "web-b":
			after = "after = [\"web-a\", \"*n*\"]\n"
		case "secret":
			after = "after = [\"web-a\"]\n"
		}
		fmt.Fprintf(&hcl, "task {\n"+after+" name = %q\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n}\n", name)
	}
	return hcl.String()
}

// changing matches what differs with each engine.
var changing = regexp.MustCompile(volatile.String() + `|"digest":"\w+"|/tmp/\S+/m"`)

// With tasks that a viewer may not view, answers are as if there were no such tasks.
func TestView_TasksThatTheViewerMayNotViewLeaveNoTrace(t *testing.T) {
	world := func(also ...string) *engine {
		e := newEngine(t, someTasks(append([]string{"web-a", "web-b"}, also...)...))
		for i, name := range append([]string{"web-a", "web-b"}, also...) {
			var changes []state.Change
			how := []state.RunState{state.RunSucceeded, state.RunFailed}[i%2]
			known := e.conclude(name, state.Task{}, how, &changes)
			known.Reason = state.Reason{Code: state.ReasonUnchanged}
			if _, err := e.store.Apply(t.Context(), append(changes, state.Create(state.TaskKey(name), state.Encode(known)))...); err != nil {
				t.Fatal(err)
			}
		}
		return e
	}
	alone, crowded := world(), world("vpn", "secret", "zone")
	reconcile := state.Reconcile{LastSuccess: time.Now(), Sight: state.Sight{ConsulError: "vpn cannot be read"},
		Unreadable: &state.Unreadable{Tasks: []string{"secret"}, Count: 1, Error: "secret", Since: time.Now()},
		Replaced:   &state.Replaced{Why: "it is another", Tasks: 3, Entries: 9, Shown: "x"}}
	crowded.put(t, state.ReconcileKey, reconcile)
	reconcile = state.Reconcile{LastSuccess: time.Now(), Sight: state.Sight{ConsulError: "something"}}
	alone.put(t, state.ReconcileKey, reconcile)
	admin := crowded.answers(with(map[roles.Role][]string{roles.Administer: {"*"}}))
	for _, request := range [][3]string{{"POST", "/v1/tasks/vpn/hold", "{}"}, {"PATCH", "/v1/tasks/secret", `{"enabled": false}`}, {"DELETE", "/v1/tasks/zone", ""}} {
		if code, said := admin(request[0], request[1], request[2]); code >= 300 {
			t.Fatalf("%s: %d %s", request[1], code, said)
		}
	}
	viewer := with(map[roles.Role][]string{roles.View: {"web-*"}})
	one, other := alone.answers(viewer), crowded.answers(viewer)
	for _, path := range []string{
		"/v1/overview", "/v1/overview?limit=1&attention=5", "/v1/overview?sort=-phase", "/v1/overview?search=vpn", "/v1/overview?phase=stopped", "/v1/overview?after=vpn&limit=5", "/v1/overview?task=secret", "/v1/overview?task=web-a&task=web-b", "/v1/tasks/web-a/overview", "/v1/tasks/web-b/overview", "/v1/order", "/v1/map", "/v1/audit",
		"/v1/status", "/v1/status/tasks", "/v1/status/tasks?include=events", "/v1/status/tasks?limit=1", "/v1/tasks", "/v1/tasks?limit=1&after=secret", "/v1/runs", "/v1/runs?limit=1", "/v1/events", "/v1/health", "/v1/version",
	} {
		code, want := one("GET", path, "")
		got, said := other("GET", path, "")
		if code != got || code != http.StatusOK {
			t.Errorf("%s: %d and %d: %s", path, code, got, said)
		}
		if diff := cmp.Diff(changing.ReplaceAllString(want, "*"), changing.ReplaceAllString(said, "*")); diff != "" {
			t.Errorf("%s tells of tasks that may not be viewed (-without them +with them):\n%s", path, diff)
		}
	}
	for _, path := range []string{"", "/overview", "/runs", "/runs/1", "/runs/1/log", "/runs/1/output", "/runs/1/plan", "/runs/1/plan-data", "/plan"} {
		for _, task := range []string{"secret", "nosuch"} {
			other.wants(t, "GET", "/v1/tasks/"+task+path, "", http.StatusForbidden, "token:ci needs the role view for task "+task)
		}
	}
	digest := regexp.MustCompile(`"digest":"\w+"`)
	_, before := other("GET", "/v1/overview?limit=0", "")
	for task, changes := range map[string]bool{"vpn": false, "web-a": true} {
		if code, said := admin("DELETE", "/v1/tasks/"+task+"/hold", ""); task == "vpn" && code != http.StatusOK {
			t.Fatal(said)
		} else if task == "web-a" {
			admin("POST", "/v1/tasks/web-a/hold", "{}")
		}
		_, now := other("GET", "/v1/overview?limit=0", "")
		if digest.FindString(now) == "" || (digest.FindString(before) != digest.FindString(now)) != changes {
			t.Errorf("a change of %s changes the digest: %s, %s", task, before, now)
		}
		before = now
	}
	other.wants(t, "GET", "/v1/metrics", "", http.StatusForbidden, "may view only web-*, but needs the role view for all tasks")
}

func TestCreate_NeedsTheRoleForTheNameAndForFormerNames(t *testing.T) {
	e := newEngine(t, files)
	ask := e.answers(with(map[roles.Role][]string{roles.Administer: {"web-*"}, roles.View: {"*"}}))
	for body, want := range map[string]string{
		`{"task":{"name":"dns","module":"./m","condition":{"services":{"names":["web"]}}}}`:                                "token:ci may view, but needs the role administer for task dns",
		`{"task":{"name":"dns","Name":"web-1","module":"./m","condition":{"services":{"names":["web"]}}}}`:                 "",
		`{"task":{"name":"web-1","module":"./m","condition":{"services":{"names":["web"]}},"moved_from":["web"]}}`:         "needs the role administer for task web:",
		`{"task":{"name":"web-1","module":"./m","condition":{"services":{"names":["web"]}},"moved_from":["web-0","vpn"]}}`: "needs the role administer for task vpn:",
	} {
		for _, query := range []string{"", "?run=now", "?run=inspect"} {
			code, said := ask("POST", "/v1/tasks"+query, body)
			if code < 400 || want != "" && (code != http.StatusForbidden || !strings.Contains(said, want)) {
				t.Errorf("%s with %s: %d %s", query, body, code, said)
			}
		}
	}
	for _, request := range [][2]string{{"PATCH", "/v1/tasks/web?run=inspect"}, {"PATCH", "/v1/tasks/web?run=now"}, {"DELETE", "/v1/tasks/web"}} {
		ask.wants(t, request[0], request[1], `{"enabled": true}`, http.StatusForbidden)
	}
}
