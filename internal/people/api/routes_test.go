package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// needs are what the operations of openapi.yaml need, by operationId.
var needs = map[string]access.Need{
	"getHealth": free, "hintTerraformCloud": free,
	"getStatus": view, "getTaskStatuses": view, "getClusterStatus": view, "getTasks": view, "getRuns": view, "getOverview": view, "getOrder": view, "getEvents": view,
	"getVersion": view, "getOpenAPI": view,
	"getMetrics":    viewAll,
	"getTaskStatus": viewTask, "getTask": viewTask, "getTaskOverview": viewTask, "getTaskPlan": viewTask, "getTaskRuns": viewTask, "getRun": viewTask,
	"getRunLog": viewTask, "getRunOutput": viewTask, "getRunPlan": viewTask, "getRunPlanData": viewTask,
	"runTask": operateTask, "retryTask": operateTask, "cancelTask": operateTask, "holdTask": operateTask, "releaseTask": operateTask, "reconcile": operate,
	"decidePlan": approveTask,
	"askWhatIf":  operateAll, "getWhatIf": viewAll,
	"createTask": administer, "updateTask": administerTask, "deleteTask": administerTask, "forgetTask": administerTask, "destroyTask": administerTask,
	"approveConsul": administerAll, "pause": administerAll, "resume": administerAll,
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
		case n.Scope != access.NoTask && n.Role == roles.View != strings.HasPrefix(pattern, http.MethodGet):
			t.Errorf("%s needs the role %s", pattern, n.Role)
		}
	}
}
