package lifecycle

import "github.com/terrapulse/terrapulse/internal/record/state"

// RunStep is a change of a run's state.
type RunStep struct {
	From, To state.RunState // From is "" for a new run
	When     string
}

// RunSteps are all changes of a run's state. The simulation accepts no other.
var RunSteps = []RunStep{
	{"", state.RunIntended, "a tick decides on it"},
	{"", state.RunUnchanged, "its schedule is due, and there is nothing to apply"},
	{state.RunIntended, state.RunRunning, "a runner claims it"},
	{state.RunIntended, state.RunCancelled, "a person cancels it"},
	{state.RunIntended, state.RunSuperseded, "its task has changed, or is stopped"},
	{state.RunIntended, state.RunLost, "no runner claims it"},
	{state.RunRunning, state.RunWaiting, "it waits for an approval, a window, another system or the rest of its verification"},
	{state.RunRunning, state.RunSucceeded, "everything is applied"},
	{state.RunRunning, state.RunFailed, "Terraform fails"},
	{state.RunRunning, state.RunInterrupted, "its process is stopped"},
	{state.RunRunning, state.RunCancelled, "a person cancels it"},
	{state.RunRunning, state.RunSuperseded, "its task has changed, or is stopped, before anything is applied"},
	{state.RunRunning, state.RunLost, "its runner dies"},
	{state.RunWaiting, state.RunIntended, "an approval, the window, the other system or the next tick resumes it"},
	{state.RunWaiting, state.RunCancelled, "a person cancels or rejects it, or nobody approves in time"},
	{state.RunWaiting, state.RunSuperseded, "new input, a new definition or other rules replace it"},
}
