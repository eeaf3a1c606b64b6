package metrics

import "github.com/terrapulse/terrapulse/internal/record/state"

// OfRun returns the metrics of a run whose outcome or wait was recorded. There are some
// only if it has ended, and its kind occupies its task.
func OfRun(run state.Run) Values {
	if !run.Kind.Occupies() || !run.State.Ended() {
		return nil
	}
	values := Values{RunSeconds: run.Worked(run.Ended).Seconds()}
	switch run.State {
	case state.RunSucceeded:
		values[RunsSucceeded] = 1
		if !run.Seen.IsZero() {
			values[SeenToAppliedSeconds] = (run.Ended.Sub(run.Seen) - run.Waited).Seconds()
		}
	case state.RunFailed:
		values[RunsFailed] = 1
	case state.RunInterrupted:
		values[RunsInterrupted] = 1
	}
	if run.Changes != nil && run.Changes.Destroy > 0 {
		values[ResourcesDestroyed] = float64(run.Changes.Destroy)
	}
	return values
}
