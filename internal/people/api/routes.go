package api

import (
	"net/http"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// What operations need.
var (
	free           = access.Need{Scope: access.NoTask} // handlers check the sender themselves, or say nothing about tasks
	view           = access.Need{Role: roles.View, Scope: access.SomeTask}
	viewTask       = access.Need{Role: roles.View, Scope: access.OneTask}
	viewAll        = access.Need{Role: roles.View, Scope: access.AllTasks}
	operate        = access.Need{Role: roles.Operate, Scope: access.SomeTask}
	operateAll     = access.Need{Role: roles.Operate, Scope: access.AllTasks}
	operateTask    = access.Need{Role: roles.Operate, Scope: access.OneTask}
	approve        = access.Need{Role: roles.Approve, Scope: access.SomeTask}
	approveTask    = access.Need{Role: roles.Approve, Scope: access.OneTask}
	administer     = access.Need{Role: roles.Administer, Scope: access.SomeTask}
	administerTask = access.Need{Role: roles.Administer, Scope: access.OneTask}
	administerAll  = access.Need{Role: roles.Administer, Scope: access.AllTasks}
)

// route is how requests are answered, and what the sender needs.
type route struct {
	need   access.Need
	handle handler
}

// allowed answers a request of a sender who may use the operation.
func (o route) allowed(r *http.Request) (any, error) {
	if err := o.need.Check(by(r), r.PathValue("name")); err != nil {
		return nil, err
	}
	return o.handle(r)
}

// routes are the operations of openapi.yaml, and further ones that refuse other
// methods in the words of Consul-Terraform-Sync.
func (a *api) routes() map[string]route {
	return map[string]route{
		"GET /v1/health":   {free, a.getHealth},
		"GET " + LoginPath: {free, a.getLogin},

		"GET /v1/status":                 {view, a.getStatus},
		"/v1/status":                     {free, unsupported("overallStatus", "GET")},
		"GET /v1/status/tasks":           {view, a.getTaskStatuses},
		"GET /v1/status/tasks/{name...}": {viewTask, a.getTaskStatuses},
		"/v1/status/tasks":               {free, unsupported("taskStatus", "GET")},
		"/v1/status/tasks/{name...}":     {free, unsupported("taskStatus", "GET")},
		"GET /v1/status/cluster":         {view, a.getClusterStatus},
		"/v1/status/cluster":             {free, unsupported("clusterStatus", "GET")},

		"GET /v1/tasks":           {view, a.getTasks},
		"POST /v1/tasks":          {administer, valid("/tasks", "POST", a.createTask)},
		"GET /v1/tasks/{name}":    {viewTask, a.getTask},
		"PATCH /v1/tasks":         {administer, a.updateTask},
		"PATCH /v1/tasks/{$}":     {administer, a.updateTask},
		"PATCH /v1/tasks/{name}":  {administerTask, a.updateTask},
		"DELETE /v1/tasks/{name}": {administerTask, a.deleteTask},
		"PUT /v1/tasks/{name}":    {free, unsupported("task", "PATCH")},
		"POST /v1/tasks/{name}":   {free, unsupported("task", "PATCH")},

		"GET /v1/order":                            {view, a.getOrder},
		"GET /v1/map":                              {view, valid("/map", "GET", a.getMap)},
		"GET /v1/overview":                         {view, a.getOverview},
		"GET /v1/tasks/{name}/overview":            {viewTask, a.getTaskOverview},
		"POST /v1/tasks/{name}/run":                {operateTask, valid("/tasks/{name}/run", "POST", a.runTask)},
		"POST /v1/tasks/{name}/forget":             {administerTask, a.forgetTask},
		"POST /v1/tasks/{name}/cancel":             {operateTask, valid("/tasks/{name}/cancel", "POST", a.cancelTask)},
		"GET /v1/runs":                             {view, valid("/runs", "GET", a.getRuns)},
		"GET /v1/tasks/{name}/runs":                {viewTask, valid("/tasks/{name}/runs", "GET", a.getTaskRuns)},
		"GET /v1/tasks/{name}/runs/{id}":           {viewTask, a.getRun},
		"GET /v1/tasks/{name}/runs/{id}/log":       {viewTask, a.getRunLog},
		"GET /v1/tasks/{name}/runs/{id}/output":    {viewTask, valid("/tasks/{name}/runs/{id}/output", "GET", a.getRunOutput)},
		"GET /v1/tasks/{name}/runs/{id}/plan":      {viewTask, a.getRunPlan},
		"GET /v1/tasks/{name}/runs/{id}/plan-data": {viewTask, a.getRunPlanData},
		"GET /v1/tasks/{name}/plan":                {viewTask, a.getTaskPlan},
		"POST /v1/tasks/{name}/plan":               {operateTask, valid("/tasks/{name}/plan", "POST", a.planTask)},
		"POST /v1/tasks/{name}/approval":           {approveTask, valid("/tasks/{name}/approval", "POST", withBody(a.decidePlan))},
		"POST /v1/tasks/{name}/destroy":            {administerTask, valid("/tasks/{name}/destroy", "POST", a.destroyTask)},
		"POST /v1/tasks/{name}/hold":               {operateTask, valid("/tasks/{name}/hold", "POST", withBody(a.holdTask))},
		"DELETE /v1/tasks/{name}/hold":             {operateTask, valid("/tasks/{name}/hold", "DELETE", a.releaseTask)},

		"POST /v1/approvals":        {approve, valid("/approvals", "POST", withBody(a.approvePlans))},
		"POST /v1/consul/approval":  {administerAll, valid("/consul/approval", "POST", withBody(a.approveConsul))},
		"POST /v1/pause":            {administerAll, valid("/pause", "POST", withBody(a.pause))},
		"POST /v1/resume":           {administerAll, valid("/resume", "POST", withBody(a.resume))},
		"GET /v1/tokens":            {administerAll, a.withTokens(a.getTokens)},
		"POST /v1/tokens":           {administerAll, valid("/tokens", "POST", a.withTokens(withBody(a.createToken)))},
		"DELETE /v1/tokens/{token}": {administerAll, a.withTokens(a.revokeToken)},
		"POST /v1/what-if":          {operateAll, valid("/what-if", "POST", withBody(a.askWhatIf))},
		"GET /v1/what-if/{id}":      {viewAll, a.getWhatIf},
		"GET /v1/audit":             {view, valid("/audit", "GET", a.getAudit)},
		"GET /v1/events":            {view, valid("/events", "GET", a.getEvents)},
		"POST /v1/reconcile":        {operate, a.reconcile},
		"POST " + NotificationPath:  {free, a.notified},
		"GET /v1/version":           {view, a.getVersion},
		"GET /v1/metrics":           {viewAll, a.getMetrics},
		"GET /v1/openapi.json":      {view, a.getOpenAPI},
	}
}
