package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// oddNames are what a stranger writes for the name of a task into a path, to reach the task vpn with roles for
// web-* alone.
var oddNames = []string{"web-%2F..%2Fvpn", "web-a%2F..%2F..%2Ftasks%2Fvpn", "..%2Fvpn", "web-*", "*", "%2A", "web-a%00vpn", "web-a%0Avpn", "web-%0A", "vpn%20", "VPN", "%76pn%2F", "web-a%2Fvpn", "web-%2f", ".", "%2e%2e", "web-a;vpn", "web-a,vpn", "web-a%3Fname=vpn", "web-%F0%9F%92%A5", "web-%FF"}

func TestRoles_OddNamesOfTasksLeadToNoOtherTask(t *testing.T) {
	e := newEngine(t, someTasks("web-a", "vpn"))
	e.put(t, state.TaskKey("vpn"), state.Task{Reason: state.Reason{Code: state.ReasonUnchanged, Text: "the secret of the tunnel"}})
	e.put(t, state.RunKey("vpn", "r1"), state.Run{ID: "r1", Task: "vpn", Kind: state.KindApply, State: state.RunFailed, Work: state.Work{Error: "the secret of the tunnel"}})
	ask := e.answers(with(map[roles.Role][]string{roles.Administer: {"web-*"}, roles.Approve: {"web-*"}}))
	before := e.all(t)
	for _, name := range oddNames {
		for _, path := range []string{"/v1/tasks/%s", "/v1/tasks/%s/overview", "/v1/tasks/%s/runs", "/v1/tasks/%s/runs/r1", "/v1/tasks/%s/runs/..%%2Fvpn%%2Fr1", "/v1/tasks/%s/runs/r1/output", "/v1/tasks/%s/plan", "/v1/status/tasks/%s", "/v1/overview?q=%s", "/v1/runs?task=%s", "/v1/audit?task=%s", "/v1/events?task=%s"} {
			if code, said := ask("GET", fmt.Sprintf(path, name), ""); strings.Contains(said, "secret") || strings.HasPrefix(path, "/v1/tasks/") && code == http.StatusOK {
				t.Errorf("GET "+path+": %d %s", name, code, said)
			}
		}
		for _, r := range [][2]string{{"POST", "/v1/tasks/%s/run?wait=false"}, {"POST", "/v1/tasks/%s/hold"}, {"POST", "/v1/tasks/%s/destroy"}, {"POST", "/v1/tasks/%s/forget"}, {"POST", "/v1/tasks/%s/cancel"},
			{"PATCH", "/v1/tasks/%s"}, {"DELETE", "/v1/tasks/%s"}} {
			if code, said := ask(r[0], fmt.Sprintf(r[1], name), `{"enabled": false}`); code < 300 || strings.Contains(said, "secret") {
				t.Errorf(r[0]+" "+r[1]+": %d %s", name, code, said)
			}
		}
	}
	for _, body := range []string{`{"name": "vpn"}`, `{"name": "web-a/../vpn"}`, `{"name": "web-b\u0000"}`, `{"name": "web-\u202evpn"}`, `{"name": "web-b", "moved_from": ["vpn"]}`, `{"name": "web-b", "NAME": "vpn"}`,
		`{"name": "web-b", "name": "vpn"}`} {
		task := strings.TrimSuffix(body, "}") + `, "module": "./m", "condition": {"services": {"names": ["a"]}}}`
		if code, said := ask("POST", "/v1/tasks", `{"task": `+task+`}`); code < 300 {
			t.Errorf("%s is made: %d %s", body, code, said)
		}
	}
	if after := e.all(t); after != before {
		t.Errorf("the store was\n%s\nand is\n%s", before, after)
	}
}

func TestAudit_RefusedAttemptsHaveNoHiddenCharacters(t *testing.T) {
	e := newEngine(t, someTasks("web-a"))
	ask := e.answers(with(map[roles.Role][]string{roles.View: {"web-*"}}))
	ask.wants(t, "POST", "/v1/tasks/x%1b%5b2Jx%0a%e2%80%aeevil/hold", "{}", http.StatusForbidden)
	all := e.entries()
	if len(all) != 1 || all[0].Action != audit.Refused || strings.ContainsAny(all[0].Task+all[0].Detail, "\x1b\n\u202e") || !strings.HasSuffix(all[0].Task, "evil") {
		t.Errorf("%+v", all)
	}
}
