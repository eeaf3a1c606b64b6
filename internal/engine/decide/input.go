package decide

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Input is all that is known about one task at the moment of a decision.
type Input struct {
	Task       *config.Task
	Definition string     // digest of the task's definition
	State      state.Task // as it was read from the store
	// Corrupt is why a record of the task cannot be decoded: nothing is decided.
	Corrupt error
	// Blocked is why the task cannot be run where this is decided; or why one that
	// was made through the API is Removed, though nobody has deleted it.
	Blocked error
	// Unreached is why the instance that keeps the state of State.Unsaved cannot be given a run; "" if
	// it can, or if none keeps it.
	Unreached string
	// Repaired says that the task fails, and that its local module was changed after its latest run.
	Repaired bool
	// Paused is set if no task is to run.
	Paused *state.Paused
	// Skew is how far apart the clocks may be that write and read the times in
	// State.
	Skew time.Duration

	Request
	Reading
	Replacement
	Dead
	Elsewhere
	Removal
	Renaming
}

// Request is what is requested of the task, whatever its condition shows.
type Request struct {
	// Force requests a run, and names who requests it. All says that who requests it has
	// requested all tasks: that is no request against what a person has stopped.
	Force string
	All   bool
	Check bool // permits to check the task for drift now
}

// Reading is what was read of Consul for the task in this tick.
type Reading struct {
	// Observed is what the condition showed, nil if its views were not read because
	// nothing hinted at a change.
	Observed *Observed
	// Unreadable is why a view that should have been read was not.
	Unreadable error
	// ConsulUnreachable is set where Unreadable is an outage that concerns all tasks and is
	// logged as such.
	ConsulUnreachable bool
	// Datacenters are those that the task reads; "" is that of the agent.
	Datacenters []string
}

// Observed is what a condition showed.
type Observed struct {
	Digest  string
	Entries *state.EntryChanges // how it differs from what was last applied; nil if it does not, or if that is not known
	Lost    *Loss               // what is missing of what was last applied; nil if nothing is
	// Inputs identifies all inputs of the task, also the module inputs, as
	// consul.DigestOf does; "" if they were not read. If they were, Lost is of all of
	// them, and Excess says why the input guard would hold them.
	Inputs, Excess string
}

// Loss is what a condition does not show any more of what was applied.
type Loss struct {
	Entries int // 0 if it is not known
	Text    string
}

// Replacement is what follows for the task if another Consul has replaced the one that showed
// what was applied.
type Replacement struct {
	// Replaced is set if Consul was replaced in one of the task's datacenters, and the task
	// loses entries by that. Accepted says that a person has approved it.
	Replaced *state.Replaced
	Accepted *state.Accepted
	// Unconfirmed is Task.Unconfirmed from now on.
	Unconfirmed bool
	// ChangedBy are those who have changed the task through the API.
	ChangedBy []string
}

// Dead are the runs and checks of State of which it is known that no runner works on them any more.
type Dead struct {
	Lost *state.Run // the run of State.Run, ended as lost; nil if it is not known to be dead
	// EndedCheck is the check for drift of State.Drift as it has ended, or as lost; nil if it is under way.
	EndedCheck *state.Run
}

// Elsewhere is what is known of the task in another system.
type Elsewhere struct {
	// Driver is the name of the driver if another system carries out its runs, and "" otherwise. Remote
	// is the status of the remote run that the task waits for; nil if it is not known.
	Driver string
	Remote *state.RemoteStatus
}

// Removal is what is known of a task that is in the store only, no longer in the configuration.
type Removal struct {
	Removed bool          // it is such a task
	Keep    time.Duration // how long its records are kept
	// Destroy says that it is to be destroyed: Task is then what it was applied with.
	// Undestroyable is why that is not possible.
	Destroy       bool
	Undestroyable error
}

// Renaming is what is known of the task under other names.
type Renaming struct {
	// MovedTo is the task that takes over what a removed one has, and Unmoved why a task
	// cannot do so yet.
	MovedTo, Unmoved string
	// Kept is why nothing of a removed task is destroyed or forgotten: it has another name, or perhaps has.
	Kept string
}
