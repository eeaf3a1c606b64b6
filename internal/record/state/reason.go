package state

// Reason is why a task runs, or why it does not.
type Reason struct {
	Code    ReasonCode `json:"code,omitempty"`
	Text    string     `json:"text,omitempty"`    // one sentence for people; no program reads it
	Attempt int        `json:"attempt,omitempty"` // of ReasonRetry and ReasonBackoff, from 1
}

// ReasonCode identifies a reason for programs. docs/reference/reasons.md lists all codes.
type ReasonCode string

// The reasons for a run.
const (
	ReasonFirst       ReasonCode = "first"
	ReasonDefinition  ReasonCode = "definition_changed"
	ReasonChanged     ReasonCode = "condition_changed"
	ReasonSchedule    ReasonCode = "schedule"
	ReasonForced      ReasonCode = "forced"
	ReasonRetry       ReasonCode = "retry"
	ReasonLost        ReasonCode = "lost"
	ReasonInterrupted ReasonCode = "interrupted"
	ReasonDoubt       ReasonCode = "doubt"
	ReasonWindow      ReasonCode = "window_opened"
	ReasonDrift       ReasonCode = "drift"
	ReasonDestroy     ReasonCode = "destroy"
	ReasonUnverified  ReasonCode = "unverified"
)

// The reasons why a task does not run now.
const (
	ReasonUnchanged  ReasonCode = "unchanged"
	ReasonRunning    ReasonCode = "running"
	ReasonWaiting    ReasonCode = "waiting"
	ReasonQueued     ReasonCode = "queued"
	ReasonBuffering  ReasonCode = "buffering"
	ReasonBackoff    ReasonCode = "backing_off"
	ReasonHeld       ReasonCode = "held"
	ReasonDestroyed  ReasonCode = "destroyed"
	ReasonCancelled  ReasonCode = "cancelled"
	ReasonRejected   ReasonCode = "rejected"
	ReasonOnHold     ReasonCode = "on_hold"
	ReasonPaused     ReasonCode = "paused"
	ReasonOutside    ReasonCode = "outside_window"
	ReasonAfter      ReasonCode = "after"
	ReasonReplaced   ReasonCode = "consul_replaced"
	ReasonRenamed    ReasonCode = "renamed"
	ReasonUnsaved    ReasonCode = "state_not_saved"
	ReasonRules      ReasonCode = "rules_changed"
	ReasonDisabled   ReasonCode = "disabled"
	ReasonRemoved    ReasonCode = "removed"
	ReasonBlocked    ReasonCode = "blocked"
	ReasonUnreadable ReasonCode = "unreadable"
	ReasonUnread     ReasonCode = "not_yet_read"
	ReasonCorrupt    ReasonCode = "corrupt"
)
