package lifecycle

import "github.com/terrapulse/terrapulse/internal/record/state"

// Event is something that happens to a task that is stopped: an index of Events and Stop.On.
type Event int

// The events.
const (
	OnStart Event = iota
	OnDisable
	OnInput
	OnDefinition
	OnRequest
	OnOnce
)

// Events has what the table in docs/reference/reasons.md calls each event.
var Events = [...]string{"start, takeover", "disable and enable", "new input", "new definition", "request for a run", "`-once`"}

// Effect is what an event does to a stop.
type Effect string

// The effects.
const (
	Keeps    Effect = "stays"
	Ends     Effect = "ends"
	Holds    Effect = "held"          // it ends, and what it was for waits for new input, as of a task that was enabled without a run
	Refused  Effect = "refused"       // the request is refused, and the stop stays
	Deferred Effect = "request waits" // the stop stays, and the request is kept until it has ended
	Never    Effect = "–"             // the event cannot happen
)

// Stop is one way in which a task is stopped.
type Stop struct {
	Name   string
	Reason state.ReasonCode // that its decisions have
	On     [len(Events)]Effect
	Rename string // what a rename does to it
}

// Stops are all stops. Tests of package reconcile try each event with each of them, and each of
// them together with the others.
var Stops = []Stop{
	{"disabled", state.ReasonDisabled,
		[...]Effect{Keeps, Ends, Keeps, Keeps, Refused, Keeps}, "moves: `terrapulse task enable` ends it; without a command, the key `enabled` of the new name counts"},
	{"on hold", state.ReasonOnHold,
		[...]Effect{Keeps, Keeps, Keeps, Keeps, Deferred, Keeps}, "moves"},
	{"paused", state.ReasonPaused,
		[...]Effect{Keeps, Holds, Keeps, Keeps, Deferred, Deferred}, "keeps"},
	{"plan rejected", state.ReasonRejected,
		[...]Effect{Keeps, Keeps, Ends, Ends, Ends, Keeps}, "moves"},
	{"run cancelled", state.ReasonCancelled,
		[...]Effect{Keeps, Keeps, Ends, Ends, Ends, Keeps}, "moves"},
	{"destroyed by hand", state.ReasonDestroyed,
		[...]Effect{Keeps, Keeps, Keeps, Ends, Ends, Keeps}, "moves"},
	{"created without a run", state.ReasonHeld,
		[...]Effect{Keeps, Keeps, Ends, Never, Ends, Keeps}, string(Never)},
	{"enabled without a run", state.ReasonHeld,
		[...]Effect{Keeps, Keeps, Ends, Ends, Ends, Keeps}, "moves"},
	{"plan waits for an approval", state.ReasonWaiting,
		[...]Effect{Keeps, Holds, Ends, Ends, Keeps, Keeps}, "needs a new approval: the plan is withdrawn, and the task is planned under its new name"},
	{"outside its window", state.ReasonOutside,
		[...]Effect{Keeps, Holds, Keeps, Keeps, Deferred, Deferred}, "judged again, by the windows of the new name"},
	{"after another task", state.ReasonAfter,
		[...]Effect{Keeps, Holds, Keeps, Keeps, Deferred, Deferred}, "judged again, by the `after` of the new name"},
	{"Consul was replaced", state.ReasonReplaced,
		[...]Effect{Keeps, Holds, Keeps, Keeps, Deferred, Deferred}, "moves"},
	{"perhaps renamed", state.ReasonRenamed,
		[...]Effect{Keeps, Keeps, Keeps, Keeps, Ends, Keeps}, "ends if `moved_from` names the removed task"},
	{"state not saved", state.ReasonUnsaved,
		[...]Effect{Keeps, Holds, Keeps, Keeps, Ends, Keeps}, "moves"},
	{"unreadable", state.ReasonUnreadable,
		[...]Effect{Keeps, Keeps, Keeps, Keeps, Deferred, Deferred}, "judged again"},
	{"blocked", state.ReasonBlocked,
		[...]Effect{Keeps, Keeps, Keeps, Keeps, Deferred, Deferred}, "waits: if the new name is blocked, everything stays under the former name until the cause is gone"},
	{"broken record", state.ReasonCorrupt,
		[...]Effect{Keeps, Refused, Keeps, Keeps, Refused, Keeps}, "waits"},
	{"backing off", state.ReasonBackoff,
		[...]Effect{Keeps, Holds, Ends, Ends, Ends, Ends}, "moves"},
	{"buffering", state.ReasonBuffering,
		[...]Effect{Keeps, Holds, Keeps, Ends, Ends, Ends}, "moves"},
	{"queued", state.ReasonQueued,
		[...]Effect{Keeps, Holds, Keeps, Keeps, Deferred, Deferred}, "leaves the queue, and is queued under its new name"},
	{"removed", state.ReasonRemoved,
		[...]Effect{Keeps, Refused, Keeps, Keeps, Refused, Keeps}, "becomes the new name's"},
}

// Renames is what a rename does to what is no stop.
var Renames = []struct{ Before, After string }{
	{"plan approved, and not applied", "needs a new approval: the plan has other addresses"},
	{"input approved, and not applied", "moves with its content"},
	{"some of several approvals are given", "all are needed again: the plan is withdrawn, and the task is planned under its new name"},
	{"input approved by several, and not applied", "moves if those who approved may approve under the new name; otherwise all must approve again"},
	{"a check for drift is under way", "its outcome is dropped: the new name is checked at its next time"},
	{"a run was given up, and continues", "runs again as soon as this is known"},
	{"what a run has applied is being verified", "waits for the end: that is recorded under the former name, and moves; a hold of `on_failure` holds the new name"},
	{"not verified", "moves: the run that takes the state along is verified"},
}
