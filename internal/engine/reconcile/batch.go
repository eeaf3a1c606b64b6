package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// batch gathers decisions until they fill one Apply, and writes them under the
// lease. A batch that launches also writes the launch, and starts it.
type batch struct {
	tick     *tick
	now      time.Time
	limit    int        // changes, without the lease's check and the launch
	launches state.Kind // of the runs that it launches; empty for none
	peer     *batch     // launches runs of another kind; nil if there is none
	items    []item
	changes  int
	bytes    int

	written   []state.Launch    // and not yet started
	postponed []decide.Decision // to wait for the next tick
}

// item is one decision with the changes that it needs.
type item struct {
	decision  *decide.Decision
	was       state.Stored[state.Task]
	since     time.Time // when it came due
	run       *state.PlannedRun
	resumed   *state.Stored[state.Run] // the waiting run that run resumes
	assembled state.Run                // the record of run as it was written last; only for spans
	changes   []state.Change
	events    []outbox.Event
	ended     []state.Run // whose traces end with the decision; only for spans
}

// add puts the decision into the batch, which is written first if it is full.
// A decision that changes nothing needs no writing.
func (b *batch) add(ctx context.Context, was state.Stored[state.Task], d decide.Decision) error {
	it := item{decision: &d, was: was, since: dueSince(was.Data, b.now)}
	if d.Lost != nil {
		if run := b.tick.dead[d.Lost.ID]; run.Exists() && !run.Data.State.Ended() {
			it.changes = append(it.changes, run.Write(*d.Lost))
			b.endsTrace(&it, *d.Lost)
		}
	}
	if check := d.EndedCheck; check != nil {
		d.Forget = append(d.Forget, was.Data.Drift.Forgotten(d.State.Drift)...)
		if run := b.tick.dead[check.ID]; run.Exists() {
			it.changes = append(it.changes, run.Write(*check).Until(check.KeptUntil()))
			b.endsTrace(&it, *check)
		}
	}
	next := d.State
	if (b.tick.opts.Leads || b.tick.opts.Force[d.Task.Name] != "") && !was.Data.Observed.UnreadableSince.IsZero() && d.Unreadable != nil {
		// The log of this process does not have it yet.
		b.tick.Log.Warn("the task cannot be read, it waits", "task", d.Task.Name, "error", d.Unreadable)
	}
	switch d.Action {
	case decide.Run, decide.Check:
		it.run = &state.PlannedRun{ID: newID(), Task: d.Task.Name, Definition: d.Definition, Unconfirmed: next.Unconfirmed}
	case decide.Resume, decide.End:
		run, waits, err := b.waitingRun(ctx, d.Task.Name, was.Data)
		if err != nil {
			return err
		}
		if !waits {
			b.tick.report.Left = append(b.tick.report.Left, d.Task.Name)
			return nil
		}
		if d.Action == decide.End {
			next = b.ended(&it, next, run)
			break
		}
		it.resumed = &run
		it.run = &state.PlannedRun{ID: run.Data.ID, Task: d.Task.Name, Definition: d.Definition, Unconfirmed: next.Unconfirmed}
	case decide.Note:
		run := state.Run{ID: newID(), Task: d.Task.Name, Kind: state.KindApply, Reason: d.Reason, Created: b.now,
			State: state.RunUnchanged, Times: state.Times{Started: b.now, Ended: b.now}, Work: state.Work{Digest: next.Observed.Digest}}
		next, d.Forget = next.Conclude(run, "")
		it.changes = append(it.changes, state.Create(state.RunKey(run.Task, run.ID), state.Encode(run)))
		it.events = append(it.events, outbox.OfRun(run))
	}
	definition, err := b.tick.keep(ctx, d, &next)
	if err != nil {
		return err
	}
	if definition != nil {
		it.changes = append(it.changes, *definition)
	}
	it.events = outbox.NumberAll(&next, b.tick.rec.Data, append(decided(was.Data, next, d, b.now, b.tick.effective.Config.Terraform.Backend.Type), it.events...))
	if err := state.Forget(ctx, b.tick.Store, d.Task.Name, d.Forget); err != nil {
		return err
	}
	if it.run == nil && bytes.Equal(state.Encode(next), state.Encode(was.Data)) && len(it.changes) == 0 {
		return nil
	}
	it.changes = append(it.changes, next.Accepted.Records(d.Task.Name, was.Data.Accepted)...)
	d.State = next
	it.changes = append(it.changes, was.Write(next))

	// The run to be started is written with the launch: its reason, what changed and,
	// twice over, its ids, its times and the name of its task.
	size := len(state.Encode(d.Reason)) + 2*len(was.Key) + 1024
	if d.Entries != nil {
		size += len(state.Encode(d.Entries))
	}
	if b.tick.Traces != nil {
		size += 512
	}
	if it.resumed != nil {
		size += len(state.Encode(it.resumed.Data))
	}
	for _, e := range it.events {
		size += outbox.Size(e)
	}
	for _, c := range it.changes {
		size += len(c.Value) + len(c.Key)
	}
	with := 1 // its run
	if b.apart() {
		with, size = 2, size+1024 // and its launch
	}
	full := b.changes+len(it.changes)+with+len(b.checks(append(b.items, it)...)) > b.limit || b.bytes+size > state.MaxBytes/2 ||
		b.launches != "" && len(b.items) == runsPerLaunch
	if full {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.items = append(b.items, it)
	b.changes += len(it.changes) + with
	b.bytes += size
	return nil
}

// flush writes the batch and starts its launch. A decision whose record another
// process has changed meanwhile is dropped, and made again by the next tick. If no
// launch may begin, all decisions are postponed. If its peer has been due for longer, it
// is flushed first.
func (b *batch) flush(ctx context.Context) error {
	if p := b.peer; p != nil && len(b.items) > 0 && len(p.items) > 0 && p.items[0].since.Before(b.items[0].since) {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	defer func() { b.items, b.changes, b.bytes = nil, 0, 0 }()
	if b.launches != "" && len(b.items) > 0 {
		if why := b.tick.full(); why != "" {
			b.postpone(why, b.items...)
			return nil
		}
	}
	for len(b.items) > 0 {
		runner := b.takerOf(ctx)
		launches, changes, events := b.assemble(runner)
		_, err := b.tick.opts.Lease.Apply(ctx, append(changes, b.checks(b.items...)...)...)
		var conflict *state.ConflictError
		if errors.As(err, &conflict) {
			if runner.Exists() && conflict.Change.Key == runner.Key {
				b.tick.offers.Drop() // it has ended, or has another offer
				continue
			}
			n, other := len(b.items), state.TaskName(conflict.Change.Key)
			b.items = slices.DeleteFunc(b.items, func(it item) bool {
				uses := conflict.Change.Op == state.OpCheck && slices.Contains(b.tick.uses[it.decision.Task.Name], other)
				own := it.resumed != nil && it.resumed.Key == conflict.Change.Key || slices.ContainsFunc(it.changes, func(c state.Change) bool { return c.Key == conflict.Change.Key })
				if own {
					b.tick.report.Left = append(b.tick.report.Left, it.decision.Task.Name)
				} else if uses {
					b.postpone(fmt.Sprintf("task %s has changed meanwhile", other), it)
				}
				return own || uses
			})
			if len(b.items) < n {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("write decisions: %w", err)
		}
		for _, e := range events.All() {
			if e.Kind == outbox.TaskReadable {
				b.tick.readable = append(b.tick.readable, e)
			}
		}
		b.exportSpans()
		for _, it := range b.items {
			d := it.decision
			b.tick.Log.Debug("decided", "task", d.Task.Name, "reason", d.Reason.Code, "detail", d.Reason.Text)
		}
		b.tick.eventLog().Now(ctx, events)
		if b.launches == "" {
			return nil
		}
		if b.launches == state.KindDrift {
			b.tick.startChecks(ctx, launches[0])
			return ctx.Err()
		}
		b.tick.report.Launches = append(b.tick.report.Launches, launches...)
		if launches[0].Offered() {
			b.tick.offers.Drop()
			b.tick.offered = append(b.tick.offered, launches...)
			return nil
		}
		if b.written = append(b.written, launches...); len(b.written) < startsAtOnce {
			return nil
		}
		return b.startWritten(ctx)
	}
	return nil
}

// takerOf returns a runner that lingers and to which the batch's launch is offered; it does
// not exist if there is none. Checks for drift get no offers: a change must not wait for them.
func (b *batch) takerOf(ctx context.Context) (none state.Stored[state.Runner]) {
	if b.tick.Linger == 0 || !b.launches.Applies() {
		return none
	}
	return b.tick.offering().Next(ctx)
}

// startWritten starts the launches whose intents were written.
func (b *batch) startWritten(ctx context.Context) error {
	if len(b.written) == 0 {
		return nil
	}
	b.tick.start(ctx, b.written...)
	b.written = nil
	return ctx.Err()
}

// apart reports whether each run of the batch has a launch of its own.
func (b *batch) apart() bool { return b.tick.Apart && b.launches.Applies() }

// newLaunch returns a launch without runs, which is offered to the runner if that exists.
func (b *batch) newLaunch(runner state.Stored[state.Runner]) state.Launch {
	launch := state.Launch{ID: newID(), Kind: b.launches, Config: b.tick.digest, Bundle: b.tick.Bundle, Fence: b.tick.opts.Lease.Fence(), Created: b.now,
		Consuls: b.tick.consuls, Replaced: b.tick.replaced, Offer: runner.Data.ID}
	if launch.Kind.Applies() {
		launch.Linger = b.tick.Linger
	}
	return launch
}

// assemble returns the changes of the whole batch and its launches: one that is offered to
// the runner if that exists, or one for each run. The task records of a launching batch
// receive the ids of their runs here.
func (b *batch) assemble(runner state.Stored[state.Runner]) ([]state.Launch, []state.Change, outbox.Events) {
	var changes []state.Change
	var numbered []outbox.Event
	if b.launches == "" {
		for _, it := range b.items {
			changes, numbered = append(changes, it.changes...), append(numbered, it.events...)
		}
		events := outbox.NewEvents(numbered...)
		return nil, append(changes, events.Changes()...), events
	}
	var launches []state.Launch
	for i := range b.items {
		it, d := b.items[i], b.items[i].decision
		if i == 0 || b.apart() {
			launches = append(launches, b.newLaunch(runner))
			if b.apart() {
				own := &launches[len(launches)-1]
				if own.For = d.State.Keeper(); own.For != "" && d.State.Unsaved == nil {
					own.ForUntil = b.now.Add(preferFor)
				}
			}
		}
		launch := &launches[len(launches)-1]
		it.run.Trace = ""
		live := &state.LiveRun{ID: it.run.ID, Launch: launch.ID, Created: b.now, Offer: launch.Offer, For: launch.For}
		if launch.Kind == state.KindDrift {
			checked := *d.State.Drift
			checked.Run, d.State.Drift = live, &checked
		} else {
			live.Scheduled = d.Scheduled
			if it.resumed != nil {
				live.Scheduled = it.was.Data.Run.Scheduled
			}
			if launch.Kind != state.KindApply {
				live.Kind = launch.Kind
			} else if it.resumed == nil {
				live.Entries = d.Entries
			}
			d.State.Run = live
		}
		record := state.Stored[state.Run]{Record: state.Record{Key: state.RunKey(it.run.Task, it.run.ID)}}
		run := state.Run{ID: it.run.ID, Task: it.run.Task, Kind: launch.Kind, Removed: d.Removed, ByHand: launch.Kind == state.KindDestroy && d.State.Destroy != nil, Reason: d.Reason, Seen: d.Seen, Replaces: d.Replaces, Created: b.now}
		if accepted := d.State.Accepted; accepted != nil {
			run.Approval = &accepted.Approval
		}
		if launch.Kind.Occupies() {
			run.Unsaved = d.State.Unsaved
			if d.State.Applied.Made != nil {
				run.Had = d.State.Applied.Made.Count
			}
			run.Moves, run.FromRemote = b.tick.moves(d.Task, d.State), d.State.RemoteRun != nil && b.tick.Remote == nil
		}
		if it.resumed != nil {
			record, run = *it.resumed, it.resumed.Data
			by := d.Resume
			run.Resumed = &state.Resume{By: by.By, At: b.now}
			if by.Approval != nil {
				run.Approval = by.Approval
			}
			run.Remote = d.State.LiveRemote()
		}
		run.Launch, run.Fence, run.State = launch.ID, launch.Fence, state.RunIntended
		if run.Traced = b.traced(it, run); run.Traced != nil {
			it.run.Trace = run.Traced.Root
		}
		launch.Runs = append(launch.Runs, *it.run)
		if b.tick.Spans != nil {
			b.items[i].assembled = run
		}
		last := len(it.changes) - 1 // the task's own record
		it.changes[last] = it.was.Write(d.State)
		changes = append(changes, it.changes...)
		changes = append(changes, record.Write(run).Until(run.KeptUntil()))
		for _, e := range it.events {
			if e.Kind == outbox.RunDecided || e.Kind == outbox.RunResumed {
				e.Run, e.Launch, e.Fence, e.Trace = run.ID, launch.ID, launch.Fence, it.run.Trace
			}
			numbered = append(numbered, e)
		}
	}
	for _, launch := range launches {
		changes = append(changes, state.Create(state.LaunchKey(launch.ID), state.Encode(launch)).Until(launch.KeptUntil()))
		if launch.Offered() {
			changes = append(changes, linger.Write(runner, launch.ID))
		}
	}
	events := outbox.NewEvents(numbered...)
	return launches, append(changes, events.Changes()...), events
}
