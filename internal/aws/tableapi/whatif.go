package tableapi

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// whatIf has functions/reconcile start the plans of a what-if in containers.
func (s inspections) whatIf(ctx context.Context, w condition.WhatIf, tasks []string, by string) (state.Question, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return state.Question{}, fmt.Errorf("encode what is supposed: %w", err)
	}
	answer, err := s.function.Call(ctx, invoke.Request{Mode: invoke.Inspect, Tasks: tasks, WhatIf: text, For: by})
	switch {
	case err != nil:
		return state.Question{}, fmt.Errorf("start the plans of a what-if: %w", err)
	case answer.WhatIf == nil:
		return state.Question{}, fmt.Errorf("function %s has not answered the what-if: %s; check that it has the same version as this program", s.function.Name, answer.Problem)
	}
	return *answer.WhatIf, nil
}
