package control

import (
	"context"
	"encoding/json"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Definition is what a plan run plans. The zero value is the task as it is configured.
type Definition struct {
	JSON      json.RawMessage // the definition of a task that there is not, in the API's format
	Replacing bool            // there may be a task of this name
}

// StartPlan starts a plan run. It changes no task. The audit record says who requested it, also if the plan
// cannot be started then: a plan runs the module, with the credentials of the providers.
func (c *Control) StartPlan(ctx context.Context, task string, d Definition, by string) (state.PlannedRun, error) {
	asked := audit.Entry{Action: audit.Plan, Task: task}
	if d.JSON != nil {
		asked.Detail = "of a definition that the request has, and that is not in force"
	}
	ctx, err := audit.Note(ctx, c.Store, asked, someone(by), c.Now())
	if err != nil {
		return state.PlannedRun{}, err
	}
	if d.Replacing {
		return c.PlanReplacing(ctx, d.JSON)
	}
	return c.Plan(ctx, task, d.JSON)
}
