package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// granted returns a function that sends requests of a person to whom grants give roles, as the servers find them.
func (e *engine) granted(name string, grants ...roles.Grant) asking {
	for i := range grants {
		grants[i].To = []string{"token:" + name}
	}
	policy := roles.Policy{Grants: grants, Labels: func(task string) map[string]string { return e.base.Load().LabelsInFiles(task) }}
	who := identity.OfToken(name)
	return e.answers(access.Caller{Identity: who, Rights: policy.Rights(who)})
}

// forSite is a grant of roles for the tasks of a site.
func forSite(site string, all ...roles.Role) roles.Grant {
	return roles.Grant{Roles: all, Labels: map[string]string{"site": site}}
}

// firewall is a task of a site, in a task file.
func firewall(name, site, also string) string {
	return fmt.Sprintf("task {\n name = %q\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n labels = { site = %q }\n%s}\n", name, site, also)
}

// approves approves the plan of fw-1, and returns the answer.
func approves(ask asking) (int, string) {
	return ask("POST", "/v1/tasks/fw-1/approval", `{"decision": "approve", "plan": "plan-of-fw-1"}`)
}

func TestLabels_RolesForASiteAreForItsTasksAlone(t *testing.T) {
	e := waiting(t, "fw-1", "fw-2", "fw-3") // at muc, ber and muc
	ask := e.granted("ann", forSite("muc", roles.Approve, roles.Operate))
	if _, said := ask("GET", "/v1/overview", ""); !strings.Contains(said, `"name":"fw-3"`) || strings.Contains(said, "fw-2") {
		t.Errorf("other tasks are listed: %s", said)
	}
	ask.wants(t, "POST", "/v1/approvals", `{"plans": [{"task": "fw-1", "plan": "plan-of-fw-1"}, {"task": "fw-2", "plan": "plan-of-fw-2"}, {"task": "fw-3", "plan": "plan-of-fw-3"}]}`, http.StatusOK,
		"token:ann needs the role approve for task fw-2, and has it only for site=muc: an administrator can give it")
	for task, want := range map[string]bool{"fw-1": true, "fw-2": false, "fw-3": true} {
		if e.resumes(task) != want {
			t.Errorf("that %s is approved is %t", task, !want)
		}
	}
	ask.wants(t, "POST", "/v1/tasks/fw-3/hold", "{}", http.StatusOK)
	ask.wants(t, "PATCH", "/v1/tasks/fw-3", `{"enabled": false}`, http.StatusForbidden, "token:ann may view, operate and approve, but needs the role administer for task fw-3: ")
	ask.wants(t, "GET", "/v1/metrics", "", http.StatusForbidden, "may view only site=muc, but needs the role view for all tasks")
	if entries := e.entries(); entries[len(entries)-1].Action != audit.Refused && entries[0].Action != audit.Refused {
		t.Errorf("the audit record has no refusal: %+v", entries)
	}
}

// Between the request of a list and an approval, somebody changes the task files.
func TestLabels_ThoseAtTheTimeOfAnActDecide(t *testing.T) {
	for name, tt := range map[string]struct {
		files string // what they have then
		by    roles.Grant
		code  int
		says  string
	}{
		"the label has changed, for the old site":         {firewall("fw-1", "ber", ""), forSite("muc", roles.Approve), http.StatusForbidden, "token:ann needs the role approve for task fw-1, and has it only for site=muc"},
		"the label has changed, for the new site":         {firewall("fw-1", "ber", ""), forSite("ber", roles.Approve), http.StatusAccepted, ""},
		"the task was removed, by its label":              {firewall("fw-9", "muc", ""), forSite("muc", roles.Approve), http.StatusForbidden, "needs the role approve for task fw-1"},
		"the task was removed, by its name":               {firewall("fw-9", "muc", ""), roles.Grant{Roles: []roles.Role{roles.Approve}, Tasks: []string{"fw-1"}}, http.StatusNotFound, "a task with name 'fw-1' does not exist"},
		"the task was renamed, by the label of the new":   {firewall("edge", "muc", "moved_from = \"fw-1\"\n"), forSite("muc", roles.Approve), http.StatusForbidden, "needs the role approve for task fw-1"},
		"another task was added, by the name and a label": {firewall("fw-1", "muc", "") + firewall("fw-9", "ber", ""), roles.Grant{Roles: []roles.Role{roles.Approve}, Tasks: []string{"fw-*"}, Labels: map[string]string{"site": "muc"}}, http.StatusAccepted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := waiting(t, "fw-1")
			before := e.granted("ann", forSite("muc", roles.View))
			before.wants(t, "GET", "/v1/tasks/fw-1/plan", "", http.StatusOK)
			ask := e.granted("ann", tt.by)
			e.base.Store(load(t, tt.files))
			code, said := approves(ask)
			if code != tt.code || !strings.Contains(said, tt.says) || e.resumes("fw-1") != (tt.code == http.StatusAccepted) {
				t.Errorf("%d %s; it is approved: %t", code, said, e.resumes("fw-1"))
			}
		})
	}
}

func TestLabels_RenamedTaskIsFoundByItsNewNameAndLabel(t *testing.T) {
	e := newEngine(t, firewall("fw-1", "ber", ""))
	ask := e.granted("ann", forSite("muc", roles.Operate))
	ask.wants(t, "POST", "/v1/tasks/fw-1/hold", "{}", http.StatusForbidden)
	e.base.Store(load(t, firewall("edge", "muc", "moved_from = \"fw-1\"\n")))
	ask.wants(t, "POST", "/v1/tasks/edge/hold", "{}", http.StatusOK)
}

func TestLabels_WhoMakesATaskThroughTheAPIGainsNoRightByThem(t *testing.T) {
	e := newEngine(t, firewall("fw-1", "muc", ""))
	const definition = `{"name":"web-9","module":"./m","condition":{"services":{"names":["web"]}},"labels":{"site":"muc"}}`
	ask := e.granted("eve", forSite("muc", roles.Administer, roles.Approve), roles.Grant{Roles: []roles.Role{roles.Operate}, Tasks: []string{"web-*"}})
	for _, query := range []string{"", "?run=now", "?run=inspect"} {
		ask.wants(t, "POST", "/v1/tasks"+query, `{"task":`+definition+`}`, http.StatusForbidden, "token:eve may view and operate, but needs the role administer for task web-9, and has it only for site=muc")
	}
	if _, _, err := e.Create(t.Context(), []byte(definition), control.ChangeOptions{By: "token:boss"}); err != nil {
		t.Fatal(err)
	}
	e.granted("boss", roles.Grant{Roles: []roles.Role{roles.View}}).wants(t, "GET", "/v1/tasks/web-9/overview", "", http.StatusOK, `"labels":{"site":"muc"}`)
	for role, request := range map[roles.Role][3]string{roles.Administer: {"DELETE", "/v1/tasks/web-9", ""}, roles.Approve: {"POST", "/v1/tasks/web-9/approval", `{"decision": "approve", "plan": "plan-of-web-9"}`}} {
		ask.wants(t, request[0], request[1], request[2], http.StatusForbidden, "needs the role "+string(role)+" for task web-9")
	}

	// When a file has a task of that name, the labels of the file count.
	e.base.Store(load(t, firewall("fw-1", "muc", "")+firewall("web-9", "muc", "")))
	ask.wants(t, "PATCH", "/v1/tasks/web-9", `{"enabled": false}`, http.StatusOK)
}

func TestLabels_TaskThatWasDeletedThroughTheAPIKeepsThoseOfItsFile(t *testing.T) {
	e := newEngine(t, firewall("fw-1", "muc", ""))
	ask := e.granted("ann", forSite("muc", roles.Administer))
	ask.wants(t, "DELETE", "/v1/tasks/fw-1", "", http.StatusAccepted)
	if code, said := ask("GET", "/v1/tasks/fw-1/runs", ""); code == http.StatusForbidden {
		t.Errorf("%d %s", code, said)
	}
	e.granted("bob", forSite("ber", roles.Administer)).wants(t, "GET", "/v1/tasks/fw-1/runs", "", http.StatusForbidden)
}
