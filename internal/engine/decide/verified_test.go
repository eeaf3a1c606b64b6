package decide

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestRestless_TaskThatIsNotVerified(t *testing.T) {
	d := Decision{State: state.Task{Observation: state.Observation{AppliedAt: time.Unix(1, 0)}}, Reason: state.Reason{Code: state.ReasonUnchanged}}
	if why := restless(d); why != nil {
		t.Fatalf("an applied task is not at rest: %v", why)
	}
	d.State.Unverified = &state.Unverified{State: state.VerifyFailed, Text: "vip failed"}
	if why := restless(d); why == nil || why.Code != state.ReasonUnverified || !stuck(d) {
		t.Errorf("what comes after a task that is not verified begins: %v", why)
	}
}
