package credentials_test

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

// Runners can write the records of tasks, and no records of approvals.
func TestProveTask_RevokesWhatNoRecordProves(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	content := state.Content{Definition: "def", Input: "in", Plan: "plan"}
	proven, forged := state.Given{ID: "a1", By: "ann", At: now}, state.Given{ID: "b2", By: "bob", At: now}
	store := statetest.NewMemory()
	if _, err := store.Apply(t.Context(), proven.Record("net", content)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		wait    *state.Wait
		given   state.Given
		revoked bool
	}{
		"its content":            {&state.Wait{For: state.WaitApproval, Content: &content}, proven, false},
		"another content":        {&state.Wait{For: state.WaitApproval, Content: &state.Content{Plan: "other"}}, proven, true},
		"no record":              {&state.Wait{For: state.WaitApproval, Content: &content}, forged, true},
		"a wait with no content": {&state.Wait{For: state.WaitWindow}, proven, true},
		"no wait":                {nil, forged, true},
	} {
		was := state.Task{Run: &state.LiveRun{ID: "r1", Wait: tt.wait, Approvals: []state.Given{tt.given}}}
		got, err := credentials.ProveTask(t.Context(), store, "net", was)
		if err != nil || got.Run.Approvals[0].Revoked != tt.revoked || was.Run.Approvals[0].Revoked {
			t.Errorf("%s: %+v, %v", name, got.Run.Approvals, err)
		}
	}
}
