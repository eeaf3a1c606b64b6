package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// liveCheck is how often the runs under way are checked.
const liveCheck = 10 * time.Second

// finish writes what the next tick needs.
func (t *tick) finish(ctx context.Context, rec state.Stored[state.Reconcile], now time.Time) error {
	next := rec.Data
	next.Config, next.Bundle, next.Refused = t.digest, t.Bundle, t.Refused
	if t.Refused != nil && sameRefusal(rec.Data.Refused, t.Refused) {
		next.Refused = rec.Data.Refused // with its time
	}
	// A task that was to be marked may be one of those that are left.
	if unmarked := t.replaced != nil && !t.replaced.HoldsAll() && len(t.report.Left) > 0; !unmarked {
		next.Consuls, next.Replaced = t.consuls, t.replaced
	}
	next.Stalled, next.Failing, next.Unreadable, next.Tasks = "", 0, t.unreadable(), state.TaskCounts{}
	next.Remote, next.Unpolled = 0, t.unpolled
	if t.opts.close == nil {
		next.Delivered = nil // who delivers in the background leaves none
	}
	next.LeftOut = t.leftOut.record(rec.Data.LeftOut)
	if t.report.Stalled == nil {
		t.report.Stalled = t.notBegun
	}
	if t.report.Stalled != nil {
		next.Stalled = state.Cut(t.report.Stalled.Error())
	}
	next.Unplaced = state.Cut(t.unplaced) // the tick succeeds nevertheless
	next.Due = clock.Earlier(t.expiry, t.restDue(now))
	t.report.Due = next.Due
	postponed := map[string]bool{}
	for _, task := range t.report.Postponed {
		postponed[task] = true
	}
	for _, d := range t.report.Decisions {
		if !lifecycle.RowOf(d.Reason.Code).Off {
			next.Failing = max(next.Failing, d.State.Failing.Count)
		}
		if counted := d; postponed[d.Task.Name] {
			counted.Action, counted.State.Reason.Code = decide.Wait, state.ReasonQueued
			Count(&next.Tasks, counted)
		} else {
			Count(&next.Tasks, d)
		}
		due := d.State.Due
		if d.Action == decide.Run || d.Action == decide.Resume || d.State.Run != nil && d.State.Waits() == nil {
			due = now.Add(liveCheck)
		}
		due = clock.Earlier(clock.Earlier(due, t.checksAgain(&d, now)), d.Reread)
		if due = clock.Earlier(due, d.Poll); !d.Poll.IsZero() {
			next.Remote++
		}
		next.Due = clock.Earlier(next.Due, due)
		// A task that is due and waits must not hide a later due time.
		if clock.Reached(due, now) {
			t.report.Again = true
		} else {
			t.report.Due = clock.Earlier(t.report.Due, due)
		}
	}
	next.Sight = t.sight(rec.Data, now)
	next.Concerned = t.concerned(next.Sight)
	if t.Gates != nil {
		t.Gates(next.Gates)
	}
	polled, gates := false, next.Gates
	next.Gates = withMarks(gates, rec.Data.Gates)
	if len(t.report.Left)+len(t.report.Postponed) > 0 || t.report.Stalled != nil {
		t.report.Again = true
		next.Due = now // the marks are not recorded: their views are read again
	} else if polled = !next.ConsulUnreachable; polled {
		next.Gates = gates
		// A tick that takes long may have begun before everything was to be read again.
		if t.everything && (next.Config != rec.Data.Config || clock.Passed(next.Refreshed, refreshEvery, now, t.Skew)) {
			next.Refreshed = now
		}
	}
	if next.ConsulError == "" && t.report.Stalled == nil {
		next.LastSuccess = now
	}
	t.report.Record = next
	if t.inLoop && polled && next.Fails(rec.Data.Sight) {
		quiet := next
		quiet.Gates, quiet.LastSuccess = rec.Data.Gates, rec.Data.LastSuccess // written when everything is read again
		if bytes.Equal(state.Encode(quiet), state.Encode(rec.Data)) {
			t.quiet = quietGates{rec.Version, next.Gates}
			return nil
		}
	}
	if bytes.Equal(state.Encode(next), state.Encode(rec.Data)) {
		return nil
	}
	events := slices.Concat(recorded(rec.Data, next, now), t.readability(rec.Data, now), t.leftOut.events(rec.Data.LeftOut, now))
	if t.opts.close != nil && len(events) == 0 && sameConsuls(rec.Data, next) {
		t.unsaved = &unsaved{rec, next}
		return nil
	}
	return t.saveRecord(ctx, rec, next, events)
}

// Count adds the task of a decision to the counts that the metrics show. One that begins to run is running.
func Count(c *state.TaskCounts, d decide.Decision) {
	if d.Action == decide.Run {
		d.State.Run = &state.LiveRun{}
	}
	lifecycle.Count(c, d.State)
}

// sameConsuls reports whether a tick has learned nothing about which Consul answers: what it has learned
// must not be lost, as a replaced Consul is found by it.
func sameConsuls(was, next state.Reconcile) bool {
	for dc, id := range next.Consuls {
		before, known := was.Consuls[dc]
		if !known || id != before && (id.Cluster == "" || id.Cluster != before.Cluster) {
			return false
		}
	}
	return was.Replaced == nil && next.Replaced == nil
}

// unsaved is a reconcile record that is written when the tick releases the lease. If it is never
// written, the next tick reads again what this one has read.
type unsaved struct {
	was  state.Stored[state.Reconcile]
	next state.Reconcile
}

// closeDelivered closes the tick. The record says which records of the outbox were delivered and are left.
func (t *tick) closeDelivered(ctx context.Context, delivered []string) error {
	before := t.unsaved.next.Delivered
	t.unsaved.next.Delivered = delivered
	_, err := t.close(ctx)
	if err != nil && t.unsaved != nil {
		t.unsaved.next.Delivered = before
	}
	return err
}

// noteDelivered has the record, which is written later, say which records of the outbox were delivered and
// are left.
func (t *tick) noteDelivered(_ context.Context, delivered []string) error {
	t.unsaved.next.Delivered = delivered
	return nil
}

// fold moves what the summary has noted into its shards. A tick that has taken the lease is closed in
// the same write.
func (t *tick) fold(ctx context.Context) error {
	last := t.opts.Lease.Apply
	if t.opts.close != nil {
		last = t.close
	}
	return t.summary.Fold(ctx, t.Store, t.opts.Lease.Apply, last)
}

// close writes the record that finish has left, makes other changes and releases the lease that the
// tick has taken, in one write. It returns the records of the other changes, if they are known.
func (t *tick) close(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	u := t.unsaved
	if u == nil {
		return t.opts.close(ctx, changes...)
	}
	written, err := t.opts.close(ctx, append(slices.Clone(changes), u.was.Write(u.next))...)
	if conflict := (*state.ConflictError)(nil); errors.As(err, &conflict) && conflict.Change.Key == state.ReconcileKey {
		if err := t.saveRecord(ctx, u.was, u.next, nil); err != nil {
			return nil, err
		}
		t.unsaved = nil
		return t.opts.close(ctx, changes...)
	}
	if err != nil {
		return nil, err
	}
	if t.unsaved = nil; len(written) > len(changes) {
		t.noteVersion(written[len(changes)].Version)
		written = written[:len(changes)]
	}
	return written, nil
}

// saveRecord writes the record and its events. If somebody has changed an override,
// paused, or requested a tick meanwhile, it keeps that and makes the next tick due at once.
func (t *tick) saveRecord(ctx context.Context, rec state.Stored[state.Reconcile], next state.Reconcile, unnumbered []outbox.Event) error {
	var read *state.ReplacedApproval
	if was := rec.Data.Replaced; was != nil {
		read = was.Approved
	}
	for {
		numbered := slices.Clone(unnumbered)
		for i := range numbered {
			numbered[i] = outbox.NumberShared(&next, numbered[i])
		}
		events := outbox.NewEvents(numbered...)
		written, err := t.opts.Lease.Apply(ctx, append([]state.Change{rec.Write(next)}, events.Changes()...)...)
		if err == nil {
			t.eventLog().Now(ctx, events)
			t.noteVersion(written[0].Version)
			return nil
		}
		conflict := new(state.ConflictError)
		if !errors.As(err, &conflict) || conflict.Change.Key != state.ReconcileKey {
			return fmt.Errorf("write the reconcile record: %w", err)
		}
		if rec, err = state.ReadReconcile(ctx, t.Store); err != nil {
			return err
		}
		now := t.Now()
		next.Overrides, next.Due, t.report.Due = rec.Data.Overrides, now, now
		next.Events = rec.Data.Events
		next.Paused, next.Resumed = rec.Data.Paused, rec.Data.Resumed
		if was := rec.Data.Replaced; was != nil && was.Approved != nil && next.Replaced != nil && (read == nil || !was.Approved.Same(*read)) {
			next.Replaced.Approved = was.Approved // the next tick compares it with what Consul shows
		}
	}
}
