package tableapi

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// whatIf starts the plans of a what-if. functions/reconcile starts those in containers. If they are made in
// another system, each launch gets an invocation of its own, as in start.
func (s inspections) whatIf(ctx context.Context, w condition.WhatIf, tasks []string, by string) (state.Question, error) {
	if planner, err := s.planner(ctx); err != nil {
		return state.Question{}, err
	} else if planner.Config.Driver().Kind().Remote {
		q, _, err := planner.WhatIfAll(ctx, w, tasks, reconcile.NewQuestion(), by)
		return q, err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return state.Question{}, fmt.Errorf("encode what is supposed: %w", err)
	}
	answer, err := callForPlans(ctx, s.function, invoke.Request{Mode: invoke.Inspect, Tasks: tasks, WhatIf: text, By: by, Noted: audit.Of(ctx).Noted})
	switch {
	case err != nil:
		return state.Question{}, fmt.Errorf("start the plans of a what-if: %w", err)
	case answer.WhatIf == nil:
		return state.Question{}, fmt.Errorf("function %s has not answered the what-if: %s; check that it has the same version as this program", s.function.Name, answer.Problem)
	}
	return *answer.WhatIf, nil
}
