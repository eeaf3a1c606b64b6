package decide

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// ahead is how far a clock is ahead for a while, such as a hardware clock in local time
// until NTP has answered.
const ahead = 6 * time.Hour

func TestDecide_BufferPeriodEndsAfterClockWasAhead(t *testing.T) {
	task := webTask()
	task.BufferPeriod = config.BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 20 * time.Second}
	changed := noon.Add(ahead)
	known := state.Task{Observed: state.Observed{Digest: "B", At: changed}, Applied: state.Applied{Digest: "A", At: noon}, Requests: state.Requests{Pending: &state.Pending{First: changed, Latest: changed}}}
	if d := Decide([]Input{{Task: task, State: known}}, noon.Add(time.Minute))[0]; d.Action != Run {
		t.Errorf("the change waits: %+v", d.Reason)
	}
}

// A runner's clock that is ahead by less than clocks may be apart shortens
// neither the wait after a failure nor the buffer period.
func TestDecide_ClocksThatAreApartShortenNoWait(t *testing.T) {
	const skew = 30 * time.Second
	task := webTask()
	task.BufferPeriod = config.BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 5 * time.Second}
	later := noon.Add(2 * time.Second)
	for name, known := range map[string]state.Task{
		"retry": {Observed: state.Observed{Digest: "B", At: noon}, Applied: state.Applied{Digest: "A", At: noon}, Attempted: state.Attempt{Observed: "B"}, Failing: state.Failing{Count: 3, RetryAt: later.Add(state.Backoff(task.Name, 3))},
			Ended: state.Ended{Last: &state.Result{State: state.RunFailed}}},
		"buffer": {Observed: state.Observed{Digest: "B", At: noon}, Applied: state.Applied{Digest: "A", At: noon}, Requests: state.Requests{Pending: &state.Pending{First: later, Latest: later}}},
	} {
		if d := Decide([]Input{{Task: task, State: known, Skew: skew}}, noon)[0]; d.Action != Wait {
			t.Errorf("%s: it does not wait: %+v", name, d.Reason)
		}
		if d := Decide([]Input{{Task: task, State: known, Skew: skew}}, noon.Add(-skew))[0]; d.Action != Run {
			t.Errorf("%s: it waits although the clock was wrong: %+v", name, d.Reason)
		}
	}
}

func TestDecide_ScheduleSkipsAtMostOneTimeAfterClockWasAhead(t *testing.T) {
	task := webTask()
	task.Condition = config.Condition{Spec: condition.Schedule{Cron: "*/10 * * * *"}}
	known := state.Task{Observed: state.Observed{Digest: "B", At: noon}, Applied: state.Applied{Digest: "A", At: noon}}
	for _, tt := range []struct {
		name      string
		scheduled time.Time
		due       time.Time
	}{
		{"far ahead", noon.Add(ahead), noon.Add(10 * time.Minute)},
		{"ahead by less than the clocks may be apart", noon.Add(10*time.Minute + time.Second), noon.Add(20 * time.Minute)},
	} {
		known.Scheduled = tt.scheduled
		d := Decide([]Input{{Task: task, State: known}}, noon.Add(9*time.Minute+55*time.Second))[0]
		if d.Action != Wait || !d.State.Due.Equal(tt.due) {
			t.Errorf("%s: it is due at %s: %+v", tt.name, d.State.Due, d.Reason)
		}
	}
}
