package decide

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestDecide_ChangeThatOnlyARunHasMissedIsSeenNow(t *testing.T) {
	task := webTask()
	task.BufferPeriod = config.BufferPeriod{}
	known := state.Task{Applied: state.Applied{Definition: "d", Digest: "B", At: noon}, Observed: state.Observed{Digest: "A", At: noon, Recheck: true}, Attempted: state.Attempt{Definition: "d", Observed: "A"}} // the run has read B, which was there for a moment
	d := Decide([]Input{{Task: task, Definition: "d", State: known, Reading: Reading{Observed: &Observed{Digest: "A"}}}}, noon)[0]
	if d.Action != Run || d.Reason.Code != state.ReasonChanged || !d.Seen.Equal(noon) {
		t.Errorf("%+v", d)
	}
}
