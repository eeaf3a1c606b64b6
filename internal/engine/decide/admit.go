package decide

import (
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// rule is one reason why a task may not run now. It returns nil if it lets the
// run pass. It sees the trigger because some rules concern some triggers only,
// but no trigger skips a rule. A rule changes the task's state only if it
// refuses the run.
type rule func(*decider, trigger) *hold

// admission are the rules that every run must pass, whatever triggers it. The
// first that refuses gives the reason. Whether there is room for a launch is
// found out when it is to be started: see full in package reconcile.
var admission = []rule{
	holdCorrupt,
	holdRunning,
	holdRemoved,
	holdDisabled,
	holdOnHold,
	holdRenamed,
	holdUnreadable,
	holdBlocked,
	holdUnread,
	holdReplaced,
	holdUnsaved,
	holdBackingOff,
	holdBuffering,
	holdOutsideWindow,
	holdAfter,
	holdPaused,
}

// hold is why a task may not run now.
type hold struct {
	reason state.Reason
	due    time.Time // when to decide again if nothing happens until then; zero if only an event ends it
	action Action    // Wait, or what is to be done instead of a run
	reread time.Time // Decision.Reread

	endAs state.RunState // how a waiting run ends
}

func refuse(code state.ReasonCode, due time.Time, format string, args ...any) *hold {
	return &hold{reason: state.Reason{Code: code, Text: fmt.Sprintf(format, args...)}, due: due}
}

// holdCorrupt refuses a task with a record that cannot be decoded: what is there
// may be worth more than what would be written.
func holdCorrupt(d *decider, _ trigger) *hold {
	if d.Corrupt == nil {
		return nil
	}
	return refuse(state.ReasonCorrupt, time.Time{}, "%s", state.Cut(d.Corrupt.Error()))
}

// holdRunning refuses a second run of a task. A waiting run goes on.
func holdRunning(d *decider, _ trigger) *hold {
	if d.state.Run == nil || d.state.Waits() != nil {
		return nil
	}
	return refuse(state.ReasonRunning, time.Time{}, "run %s is under way", d.state.Run.ID)
}

// holdRemoved refuses a task that is in no configuration, except for the end of a verification. Its
// records are erased once they were kept for long enough.
func holdRemoved(d *decider, t trigger) *hold {
	if !d.Removed || d.verifies() && !d.missing() {
		return nil
	}
	s := &d.state
	if d.missing() {
		at := s.Gone.Since.Add(removalLasts)
		return refuse(state.ReasonRemoved, at, "the task is not in the configuration any more: this counts as its removal if it lasts until %s", clock.Stamp(at, d.now))
	}
	if d.Destroy || d.Undestroyable != nil {
		if d.Kept != "" {
			return refuse(state.ReasonRenamed, time.Time{}, "nothing is destroyed: %s", d.Kept)
		}
		return d.holdUndestroyed(t)
	}
	if d.Kept == "" { // else they move to the new name
		s.DropRequests()
		s.DropDestroy()
	}
	if d.Blocked != nil {
		return refuse(state.ReasonRemoved, time.Time{}, "the task, created through the API, is without effect: %s", state.Cut(d.Blocked.Error()))
	}
	until := s.Gone.Since.Add(d.Keep)
	if left := s.GivenUp(); left != nil && !left.OfOther(d.Driver) && !clock.Reached(until, d.now) {
		return refuse(state.ReasonRemoved, until, "the task is not in the configuration any more; remote run %s is to be stopped first", left.ID)
	}
	if d.Kept != "" {
		until = time.Time{} // its records are kept until they move, or until it is known that they do not
	} else if s.Gone.Deleted != nil || clock.Reached(until, d.now) {
		h := refuse(state.ReasonRemoved, d.now, "the task is not in the configuration any more: its records are removed")
		h.action = Erase
		return h
	}
	stays := "its infrastructure stays"
	switch {
	case s.Destroyed():
		stays = "everything that it had made was destroyed"
	case s.Gone.MovedTo != "":
		stays = "it was renamed to " + s.Gone.MovedTo
	case d.Kept != "":
		stays += "; " + d.Kept
	}
	return refuse(state.ReasonRemoved, until, "the task is not in the configuration any more; %s", stays)
}

// holdDisabled refuses a disabled task.
func holdDisabled(d *decider, _ trigger) *hold {
	if d.Task.Enabled || d.destroys() || d.pastApproval() {
		return nil
	}
	d.state.DropRequests()
	d.state.After = nil
	return refuse(state.ReasonDisabled, time.Time{}, "the task is disabled")
}

// holdOnHold refuses a task that a person has put on hold.
func holdOnHold(d *decider, _ trigger) *hold {
	h := d.state.OnHold
	if h == nil || d.elsewhere() {
		return nil
	}
	text := fmt.Sprintf("on hold by %s since %s", h.By, clock.Stamp(h.At, d.now))
	if h.Comment != "" {
		text += ": " + h.Comment
	}
	return refuse(state.ReasonOnHold, time.Time{}, "%s", text)
}

// holdUnreadable refuses a task if not everything that it watches was read. The end of a verification
// needs nothing from Consul.
func holdUnreadable(d *decider, _ trigger) *hold {
	if d.Unreadable == nil || d.destroys() || d.verifies() {
		return nil
	}
	h := refuse(state.ReasonUnreadable, time.Time{}, "%s", state.Cut(d.Unreadable.Error()))
	if since := d.state.Observed.UnreadableSince; since.IsZero() {
		h.due = d.overdue()
	} else {
		h.reread = nextRead(since, d.now)
	}
	return h
}

// holdBlocked refuses a task that cannot run where this is decided.
func holdBlocked(d *decider, _ trigger) *hold {
	if d.Blocked == nil || d.Removed && d.verifies() {
		return nil
	}
	return refuse(state.ReasonBlocked, time.Time{}, "it cannot be run on the instance that leads: %s", state.Cut(d.Blocked.Error()))
}

// holdUnread refuses a task whose condition was not read, or not since its
// latest run. A run whose remote run needs no approval any more only records how that ends,
// even if the task is disabled and its condition is not read any more.
func holdUnread(d *decider, _ trigger) *hold {
	if d.state.Observed.Current() || d.destroys() || d.pastApproval() {
		return nil
	}
	return refuse(state.ReasonUnread, d.overdue(), "its condition has not been read yet")
}

// maxChased is how many runs in a row may change themselves what their task watches, before the next one waits.
// If others change it as often, that ends the wait.
const maxChased = 10

// holdBackingOff refuses to repeat what failed before its pause is over, and a task whose runs trigger it again
// and again.
func holdBackingOff(d *decider, t trigger) *hold {
	if n := d.state.Observed.Chased - maxChased; n > 0 && t.reason.Code == state.ReasonChanged && d.state.Ended.Last != nil {
		at := d.state.Ended.Last.Ended.Add(state.Backoff(d.Task.Name, n))
		if d.ahead(at, state.MaxBackoff) {
			return refuse(state.ReasonBackoff, at, "the next run is at %s: what the task watches has changed during each of its last %d runs, and not since, so they seem to change it themselves: %s",
				clock.Stamp(at, d.now), d.state.Observed.Chased, t.reason.Text)
		}
	}
	if t.reason.Code != state.ReasonRetry || d.Repaired || !d.backingOff() {
		return nil
	}
	h := refuse(state.ReasonBackoff, d.state.Failing.RetryAt, "retry number %d at %s", t.reason.Attempt, clock.Stamp(d.state.Failing.RetryAt, d.now))
	h.reason.Attempt = t.reason.Attempt
	return h
}

// holdBuffering refuses to run a change before its buffer period is over.
func holdBuffering(d *decider, t trigger) *hold {
	pending := d.pending()
	at := bufferedUntil(d.Task.BufferPeriod, pending)
	if t.reason.Code != state.ReasonChanged || !d.ahead(at, d.Task.BufferPeriod.Max) {
		return nil
	}
	d.state.Pending = &pending
	return refuse(state.ReasonBuffering, at, "buffering until %s: %s", clock.Stamp(at, d.now), t.reason.Text)
}

// holdOutsideWindow refuses to apply outside of the task's windows. A plan that
// has to be judged is made all the same, so that it can be approved meanwhile: the
// runner does not apply it outside of the windows either.
func holdOutsideWindow(d *decider, t trigger) *hold {
	change := window.Change{Action: window.Apply, Removals: d.state.Pending != nil && d.state.Pending.Entries.OnlyRemovals() && d.state.Applied.Definition == d.Definition}
	planned := d.Task.PlansFirst()
	if d.destroys() {
		change, planned = window.Change{Action: window.Destroy}, d.Task.PlansDestroyFirst()
	}
	if !t.run || d.elsewhere() || planned && (!d.waits() || d.state.Waits().For == state.WaitRemotePlan) {
		return nil
	}
	v := window.Judge(d.Task.Windows, change, d.now)
	if v.Open {
		return nil
	}
	return refuse(state.ReasonOutside, v.Next, "%s: %s", v.Text, t.reason.Text)
}

// elsewhere reports whether the work of the task's run has begun in another system.
func (d *decider) elsewhere() bool {
	return d.state.Elsewhere()
}

// overdue is the due time of a task that waits for Consul. It is the time since
// when the task waits, so that nothing changes and nothing is written meanwhile.
func (d *decider) overdue() time.Time {
	code := d.state.Reason.Code
	if (code == state.ReasonUnreadable || code == state.ReasonUnread) && clock.Reached(d.state.Due, d.now) {
		return d.state.Due
	}
	return d.now
}

// backingOff reports whether the next attempt has to wait.
func (d *decider) backingOff() bool {
	return d.ahead(d.state.Failing.RetryAt, state.Backoff(d.Task.Name, max(d.state.Failing.Count, 1)))
}

// ahead reports whether a time, which was at most an interval ahead when it was
// written, has still to come. A time further ahead than that, and than clocks may
// be apart, was written by a clock that was wrong.
func (d *decider) ahead(at time.Time, interval time.Duration) bool {
	left := at.Sub(d.now)
	return left > 0 && left <= interval+d.Skew
}

// bufferedUntil is when a pending change may be run: min after the latest
// change, but never later than max after the first.
func bufferedUntil(b config.BufferPeriod, p state.Pending) time.Time {
	if !b.Enabled {
		return p.First
	}
	at := p.Latest.Add(b.Min)
	if limit := p.First.Add(b.Max); at.After(limit) {
		return limit
	}
	return at
}
