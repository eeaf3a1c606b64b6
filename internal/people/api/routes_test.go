package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// needs are what the operations of openapi.yaml need, by operationId.
var needs = map[string]access.Need{
	"getHealth": free, "hintTerraformCloud": free, "getLoginConfiguration": free,
	"getStatus": view, "getTaskStatuses": view, "getClusterStatus": view, "getTasks": view, "getRuns": view, "getOverview": view, "getOrder": view, "getMap": view, "getEvents": view, "getAudit": view,
	"getVersion": view, "getOpenAPI": view,
	"getMetrics":    viewAll,
	"getTaskStatus": viewTask, "getTask": viewTask, "getTaskOverview": viewTask, "getTaskPlan": viewTask, "getTaskRuns": viewTask, "getRun": viewTask,
	"getRunLog": viewTask, "getRunOutput": viewTask, "getRunPlan": viewTask, "getRunPlanData": viewTask,
	"runTask": operateTask, "planTask": operateTask, "cancelTask": operateTask, "holdTask": operateTask, "releaseTask": operateTask, "reconcile": operate,
	"decidePlan": approveTask, "approvePlans": approve,
	"askWhatIf": operateAll, "getWhatIf": viewAll,
	"createTask": administer, "updateTask": administerTask, "deleteTask": administerTask, "forgetTask": administerTask, "destroyTask": administerTask,
	"getTokens": administerAll, "createToken": administerAll, "revokeToken": administerAll, "approveConsul": administerAll, "pause": administerAll, "resume": administerAll,
}

func TestOperations_EachNeedsExactlyOneRole(t *testing.T) {
	routes := (&api{}).routes()
	described := described()
	for path, item := range described.Paths.Map() {
		for method, operation := range item.Operations() {
			pattern := method + " /v1" + path
			route, ok := routes[pattern]
			if !ok {
				route, ok = routes[strings.Replace(pattern, "{name}", "{name...}", 1)]
			}
			want, known := needs[operation.OperationID]
			if !ok || !known || route.need != want {
				t.Errorf("%s (%s) needs %+v, want %+v: add it to needs, with a route that has it", operation.OperationID, pattern, route.need, want)
			}
			if public := operation.Security != nil && len(*operation.Security) == 0; public != (want.Scope == access.NoTask) {
				t.Errorf("%s can be used without a token by its description: %v", operation.OperationID, public)
			}
		}
	}
	for pattern, route := range routes {
		named := strings.Contains(pattern, "{name")
		switch n := route.need; {
		case n.Scope < access.OneTask || n.Scope > access.NoTask, (n.Role == "") != (n.Scope == access.NoTask):
			t.Errorf("%s needs %+v", pattern, n)
		case named != (n.Scope == access.OneTask) && n.Scope != access.NoTask:
			t.Errorf("%s needs a role for %+v, and names a task: %v", pattern, n, named)
		case n.Scope != access.NoTask && n.Role == roles.View && !strings.HasPrefix(pattern, http.MethodGet):
			t.Errorf("%s needs the role %s", pattern, n.Role)
		}
	}
}

// without are the rights that include everything but a role.
func without(role roles.Role, tasks ...string) roles.Rights {
	given := map[roles.Role][]string{}
	for _, other := range roles.All {
		given[other] = []string{"*"}
	}
	switch given[role] = tasks; role {
	case roles.View:
		given = map[roles.Role][]string{role: tasks}
	case roles.Operate:
		given[roles.Administer] = nil
	}
	return roles.Given(given)
}

func TestOperations_AreRefusedWithoutTheirRole(t *testing.T) {
	handler := New(Options{Log: slog.New(slog.DiscardHandler), Control: &control.Control{Now: time.Now}}) // it has no store: a request that passes would panic
	for pattern, route := range (&api{}).routes() {
		if route.need.Scope == access.NoTask {
			continue
		}
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{name...}", "web", "{name}", "web", "{id}", "1", "{token}", "ci", "{$}", "").Replace(path)
		lacking := map[string]roles.Rights{"all": without(route.need.Role)}
		if route.need.Scope != access.SomeTask {
			lacking["another task"] = without(route.need.Role, "dns", "web-*")
		}
		for what, rights := range lacking {
			c := access.Caller{Identity: identity.Identity{Name: "token:ci"}, Rights: rights} // not proven: the attempt is not kept
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(access.With(t.Context(), c), method, path, nil))
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "token:ci ") || !strings.Contains(w.Body.String(), "needs the role "+string(route.need.Role)) {
				t.Errorf("%s without %s for %s: %d %s", pattern, route.need.Role, what, w.Code, w.Body)
			}
		}
	}
}

// Audited are the operations that change something or ask what would happen, each of which leaves an entry in the audit record.
var Audited = []string{"runTask", "cancelTask", "holdTask", "releaseTask", "decidePlan", "createTask", "updateTask", "deleteTask", "forgetTask", "destroyTask",
	"createToken", "revokeToken", "approvePlans", "approveConsul", "pause", "resume", "askWhatIf", "planTask"}

// unaudited are those that change nothing: they only make the next tick earlier.
var unaudited = []string{"reconcile", "hintTerraformCloud"}

func TestOperations_EachThatChangesSomethingIsAudited(t *testing.T) {
	var changing []string
	for _, item := range described().Paths.Map() {
		for method, operation := range item.Operations() {
			if !access.Reads(method) {
				changing = append(changing, operation.OperationID)
			}
		}
	}
	listed := slices.Sorted(slices.Values(slices.Concat(Audited, unaudited)))
	if slices.Sort(changing); !slices.Equal(changing, listed) {
		t.Errorf("%q change something by the description, and these are known: %q", changing, listed)
	}
}
