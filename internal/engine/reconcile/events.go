package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// deliveryTime is how long a tick in AWS delivers events at most. What is left
// waits, and a sink that did not answer rests. endTime is that of a process that
// ends.
const (
	deliveryTime = 3 * time.Second
	endTime      = 10 * time.Second
)

// decided returns the events of a decision that changes a task from was to next.
// What assemble gives a run to be started is not in them yet.
func decided(was, next state.Task, d decide.Decision, now time.Time, backend string) []outbox.Event {
	var events []outbox.Event
	add := func(e outbox.Event) {
		e.Task, e.At = d.Task.Name, now
		events = append(events, e)
	}
	if d.Lost != nil {
		events = append(events, outbox.OfEnd(was, next, *d.Lost)...)
	}
	switch present := !lifecycle.RowOf(d.Reason.Code).Off; {
	case was.Observed.UnreadableSince.IsZero() && !next.Observed.UnreadableSince.IsZero():
		add(outbox.Event{Kind: outbox.TaskUnreadable, Error: state.Cut(d.Unreadable.Error()), Quiet: true})
	case !was.Observed.UnreadableSince.IsZero() && next.Observed.UnreadableSince.IsZero() && present:
		add(outbox.Event{Kind: outbox.TaskReadable, Since: was.Observed.UnreadableSince, Quiet: true})
	}
	if late := next.After; late != nil && late.Late && (was.After == nil || !was.After.Late) {
		add(outbox.Event{Kind: outbox.TaskDelayed, Detail: next.Reason.Text, Since: late.Since, Cause: string(late.Code)})
	}
	if was.Observed.Digest != next.Observed.Digest && !was.Observed.At.IsZero() {
		add(outbox.Event{Kind: outbox.ChangeSeen, Detail: d.Entries.String(), Entries: d.Entries})
	}
	if !was.Gone.Final && next.Gone.Final && was.Gone.Deleted == nil && was.Used() && d.Kind != state.KindDestroy && d.MovedTo == "" {
		add(outbox.Event{Kind: outbox.TaskRemoved, Until: next.Due,
			Detail: fmt.Sprintf("its state is workspace %s of backend %s", d.Task.Name, backend)})
	}
	if before := next.Unclear(d.Task.MovedFrom); len(was.Renamed) == 0 && len(before) > 0 {
		add(outbox.Event{Kind: outbox.TaskRenamed, Detail: decide.PerhapsBefore(d.Task, before)})
	}
	for _, e := range drifted(was, next, d, now) {
		add(e)
	}
	if d.Action == decide.Run {
		add(outbox.Event{Kind: outbox.RunDecided, Reason: d.Reason.Code, Detail: d.Reason.Text, Entries: d.Entries})
	}
	if d.Action == decide.Resume {
		add(outbox.Event{Kind: outbox.RunResumed, Since: was.Run.Wait.Since, WaitFor: was.Run.Wait.For, By: d.Resume.By})
	}
	return events
}

// recorded returns the events of a change of the reconcile record.
func recorded(was, next state.Reconcile, now time.Time) []outbox.Event {
	var events []outbox.Event
	add := func(e outbox.Event) {
		e.At = now
		events = append(events, e)
	}
	switch {
	case was.ConsulError == "" && next.ConsulError != "":
		add(outbox.Event{Kind: outbox.ConsulLost, Error: next.ConsulError, Count: next.Concerned})
	case was.ConsulError != "" && next.ConsulError == "":
		add(outbox.Event{Kind: outbox.ConsulFound, Since: was.Since, Count: was.Concerned})
	}
	switch r, old := next.Replaced, was.Replaced; {
	case r != nil && r.Said && (old == nil || !old.Said || old.Approved != nil):
		add(outbox.Event{Kind: outbox.ConsulReplaced, Detail: r.Detail(), Cause: r.Why})
	case old == nil || !old.Said || r != nil && r.Said:
	case old.Approved != nil:
		a := old.Approved
		add(outbox.Event{Kind: outbox.ConsulAccepted, Detail: a.Comment, By: a.By, Since: old.Since})
	default:
		add(outbox.Event{Kind: outbox.ConsulRestored, Since: old.Since})
	}
	if r := next.Refused; r != nil && !sameRefusal(was.Refused, r) {
		add(outbox.Event{Kind: outbox.ConfigurationRefused, Bundle: r.Bundle, Error: r.Error})
	}
	if was.Config != next.Config || was.Bundle != next.Bundle || was.Refused != nil && next.Refused == nil {
		add(outbox.Event{Kind: outbox.ConfigurationInForce, Config: next.Config, Bundle: next.Bundle})
	}
	return events
}

// takes returns the event of a process that begins to lead. Fencing tokens number
// the events about the leadership: nobody else writes one with this token.
func (r *Reconciler) takes(next, last lease.Holder) []state.Change {
	e := outbox.Event{Kind: outbox.LeadershipTaken, Seq: 2 * next.Fence, At: r.Now(), By: next.Owner, Fence: next.Fence}
	if last.Owner != "" && last.Owner != next.Owner {
		e.Cause = fmt.Sprintf("%s has not reported in time", last.Owner)
	}
	return outbox.NewEvents(e).Changes()
}

// givesUp returns the event of a process that stops leading.
func (r *Reconciler) givesUp(fence uint64) []state.Change {
	return outbox.NewEvents(outbox.Event{Kind: outbox.LeadershipGivenUp, Seq: 2*fence + 1, At: r.Now(), By: r.Owner, Fence: fence}).Changes()
}

func (r *Reconciler) eventLog() outbox.Log {
	if r.Said == nil {
		r.Said = new(outbox.Said)
	}
	return outbox.Log{To: r.Log, Said: r.Said}
}

// delivery returns what delivers the events in the store under the lease.
func (r *Reconciler) delivery(held *lease.Lease) outbox.Delivery {
	if r.rests == nil {
		r.rests = new(outbox.Rests)
	}
	pages := outbox.Pages{URL: r.Config.API.URL, Stack: r.Stack, Links: r.Links}
	return outbox.Delivery{Store: r.Store, Apply: held.Apply, Known: &r.outbox, Pages: pages, Rests: r.rests, Now: r.Now, Log: r.Log, Backlog: r.Backlog, Sinks: func() []outbox.Sink {
		sinks := []outbox.Sink{r.eventLog()}
		if r.Sinks != nil {
			sinks = append(sinks, r.Sinks()...)
		}
		return sinks
	}}
}

// DeliverRest delivers the events of runs that ended after this process had given
// the lease back. If another process leads, that one delivers them.
func (r *Reconciler) DeliverRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*endTime)
	defer cancel()
	held, err := r.acquire(ctx)
	if err != nil {
		return // they are kept
	}
	delivery := r.delivery(held)
	delivery.Last = true
	r.deliver(ctx, delivery)
	_ = held.Release(ctx) // else it expires
}

// deliver delivers the events in the store. It comes last in a tick, so that it
// delays no launch. What cannot be delivered is tried again by a later tick.
func (r *Reconciler) deliver(ctx context.Context, delivery outbox.Delivery) {
	longest := deliveryTime
	if delivery.Last {
		longest = endTime
	}
	limited, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	report, err := delivery.Run(limited)
	switch {
	case ctx.Err() != nil, errors.Is(err, lease.ErrLost): // the next leader delivers them
	case err == nil && report.Left == 0:
		r.undelivered, r.deliverAt = 0, time.Time{}
	default:
		if report.Taken > 0 {
			r.undelivered = 0 // the time was too short
		}
		r.undelivered++
		wait := max(delay.Doubled(failedTickWait, failedTickMax, r.undelivered), report.Again.Sub(r.Now()))
		r.deliverAt = r.Now().Add(wait)
		if err != nil {
			r.Log.Warn("events were not delivered, trying again", "left", report.Left, "again_in", wait, "error", err)
		}
	}
}

// follow delivers events beside the ticks until stop is called.
func (r *Reconciler) follow(ctx context.Context, held *lease.Lease) (stop func()) {
	wake := make(chan struct{}, 1)
	r.eventLog() // makes Said, which the ticks use, too
	delivery := r.delivery(held)
	end := background.Run(ctx, func(ctx context.Context) { delivery.Follow(ctx, wake) })
	r.delivers, r.undelivered, r.deliverAt = wake, 0, time.Time{}
	return func() {
		r.delivers = nil
		end()
	}
}

// deliverNow delivers the events of a tick, or starts their delivery. It does not close a tick that
// folds the summary after it.
func (t *tick) deliverNow(ctx context.Context, folds bool) {
	if t.delivers == nil {
		delivery := t.delivery(t.opts.Lease)
		delivery.Delivered = t.rec.Data.Delivered
		if t.opts.close != nil && !folds {
			delivery.Close = t.close
		}
		if t.unsaved != nil {
			delivery.Leave = t.closeDelivered
			if folds {
				delivery.Leave = t.noteDelivered
			}
		}
		t.deliver(ctx, delivery)
		return
	}
	select {
	case t.delivers <- struct{}{}:
	default: // it has not begun with what it was woken for before
	}
}
