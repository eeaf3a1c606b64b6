package api_test

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestInspect_ChangesPresentIfOnlyOutputsImportsMovesOrForgetsChange(t *testing.T) {
	e := start(t, files)
	for _, c := range []struct {
		planned state.Changes
		present string
	}{{state.Changes{Uncounted: true}, "true"}, {state.Changes{Destroy: 1}, "true"}, {state.Changes{}, "false"}} {
		e.mu.Lock()
		e.planned = &c.planned
		e.mu.Unlock()
		same(t, e.ask("PATCH", "/v1/tasks/off?run=inspect", `{"enabled":true}`),
			`{"inspect":{"changes_present":`+c.present+`,"plan":"Plan: 1 to add, 0 to change, 0 to destroy."}}`)
	}
}
