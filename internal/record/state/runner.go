package state

import "time"

// RunnerPrefix is the collection of the runners that take launches.
const RunnerPrefix = "runner/"

// RunnerKey returns the key of the record of a runner that takes launches.
func RunnerKey(id string) string { return RunnerPrefix + element(id) }

// Runner is a runner that takes launches: a container that lingers after its runs, or an
// instance of a cluster: see packages linger and launch.
type Runner struct {
	ID         string    `json:"id"`         // as in the claims of its runs
	Definition string    `json:"definition"` // what its container was made from, or what the instance works with
	Since      time.Time `json:"since"`      // when its latest launch ended, or when the instance began
	Until      time.Time `json:"until"`      // when it ends if it gets no other launch, or when the instance writes the record again
	// Of a container: Offer is the launch that is offered to it, and Launch the one that it
	// has taken. At most one of them is set.
	Offer  string `json:"offer,omitempty"`
	Launch string `json:"launch,omitempty"`

	// Of an instance: how many runs it carries out at a time, how many more it can begin now,
	// and how many have ended since it began.
	Parallel int    `json:"parallel,omitempty"`
	Room     int    `json:"room,omitempty"`
	Ended    uint64 `json:"ended,omitempty"`
}

// Free reports whether a launch may be offered to a container.
func (r Runner) Free() bool { return r.ID != "" && r.Offer == "" && r.Launch == "" }

// KeptUntil is when the record expires. The longest run must have ended by then.
func (r Runner) KeptUntil() time.Time { return r.Until.Add(keptLaunches) }

// TakenByContainer is the taker of a launch that was offered to a runner and not
// taken: it gets a container of its own.
const TakenByContainer = "container"

// keptLaunches is how long launches are kept. They are of no use once their runs
// have ended; a day leaves people time to read them.
const keptLaunches = 24 * time.Hour

// KeptUntil is when the record of the launch expires.
func (l Launch) KeptUntil() time.Time { return l.Created.Add(keptLaunches) }

// Offered reports whether a runner that lingers may still take the launch.
func (l Launch) Offered() bool { return l.Offer != "" && l.Taker == "" }

// TakenByRunner reports whether a runner that lingered has taken the launch: then it
// gets no container.
func (l Launch) TakenByRunner() bool { return l.Taker != "" && l.Taker != TakenByContainer }
