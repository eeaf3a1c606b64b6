package driver

import "github.com/terrapulse/terrapulse/internal/state"

// WaitError is returned by Apply and Destroy if the run cannot go on now: it waits
// for a person, for its window, or for another system. The run is recorded as
// waiting. When it is resumed, possibly by another process, the driver is called
// again, and Job.Run.Wait is this wait.
type WaitError struct{ Wait state.Wait }

func (e *WaitError) Error() string { return "the run " + e.Wait.String() }
