package state

import (
	"reflect"
	"time"
)

// Rest says whether nothing is to be done about a task, as far as its record says.
type Rest string

// The kinds of rest. A task that has none of them concerns each tick.
const (
	RestApplied  Rest = "applied"  // everything was applied that its condition showed
	RestDisabled Rest = "disabled" // it is disabled, and nothing of it is under way
)

// Rest returns the rest of a task with this record. A field of the record that is not named here
// must not be set.
func (t Task) Rest() Rest {
	code := t.Reason.Code
	if code != ReasonUnchanged && code != ReasonDisabled || t.Unfinished() || t.Ended.In(RunLost) {
		return ""
	}
	if code == ReasonUnchanged && !t.UpToDate() {
		return ""
	}
	if d := t.Drift; d != nil && (d.Run != nil || d.Found != nil || d.Interrupted || d.Applied != "") {
		return ""
	}
	if r := t.RemoteRun; r != nil && (r.Version != "" || r.GivenUp != nil) {
		return ""
	}
	t.Observed.Digest, t.Observed.At, t.Applied = "", time.Time{}, Applied{Doubt: t.Applied.Doubt, Unverified: t.Applied.Unverified}
	t.Scheduled, t.Attempted, t.OnRemoval, t.Follows, t.Shape, t.Former.Moved = time.Time{}, Attempt{}, "", nil, "", nil
	t.Drift, t.RemoteRun, t.Reason, t.Due, t.Ended, t.Events, t.Revision = nil, nil, Reason{}, time.Time{}, Ended{}, 0, 0
	if !reflect.ValueOf(t).IsZero() {
		return ""
	}
	if code == ReasonDisabled {
		return RestDisabled
	}
	return RestApplied
}
