package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// TickOptions say what is special about one tick.
type TickOptions struct {
	// Lease is one that is held already. Without it the tick takes the lease
	// if it finds something to do, and releases it.
	Lease *lease.Lease
	// close makes changes, and releases a lease that the tick has taken; nil if it has not.
	close func(ctx context.Context, changes ...state.Change) ([]state.Record, error)
	// Marks are what the watched gates showed last, and GatesErr why some of
	// them cannot be read. Without marks, the tick polls the gates.
	Marks    consul.Marks
	GatesErr error
	// Ended says that a run has ended: the tick is not idle then.
	Ended bool
	// Notified says that another system has sent a notification: the tick is not idle then if
	// a remote run is waited for.
	Notified bool
	// Moved, if not nil, has the status of remote runs that have come further since the latest tick: the tick is
	// not idle then, and does not poll.
	Moved map[string]state.RemoteStatus
	// Ends, if set, makes Window tick when it receives: a run of this process has ended.
	Ends <-chan struct{}
	// Force requests a run of these tasks and names who requests it.
	Force map[string]string
	// Only, if set, are the tasks that are decided about.
	Only map[string]bool
	// All says that Force names all tasks, and nobody has asked for one of them: what a
	// person has stopped stays so, and a task that was perhaps renamed stays held.
	All bool
	// Leads says that this process begins to lead: the tick reads every condition.
	Leads bool
	// Until, if set, is when the tick stops beginning launches: other runs wait for
	// the next tick.
	Until time.Time
	// Replaces is the version of the reconcile record whose bundle the
	// Reconciler's bundle may replace. The caller that sets it has read after that
	// record that the Reconciler's bundle is the one to be in force. A digest
	// would not do: the same bundle may be in force a second time.
	Replaces string
}

// OtherBundleError is returned by a tick whose bundle is not the one in force.
type OtherBundleError struct {
	Bundle  string // digest of the one that is
	Version string // of the reconcile record that says so
}

func (e *OtherBundleError) Error() string {
	return fmt.Sprintf("bundle %.12s is in force, not the one that this process has read", e.Bundle)
}

// Report is what a tick did.
type Report struct {
	Idle      bool // nothing had moved and nothing was due
	Decisions []decide.Decision
	Launches  []state.Launch
	Checks    []state.Launch  // of checks for drift
	Taken     int             // launches that runners which lingered have taken
	Withdrawn int             // launches that were offered to such runners and not taken
	Left      []string        // tasks left to the next tick: they, or tasks that they must not overtake, were changed meanwhile
	Postponed []string        // tasks to be run whose launch has to wait for time or capacity
	Record    state.Reconcile // as the tick leaves it; an idle tick does not write it
	Stalled   error           // why a launch could not be started: it is retried
	Due       time.Time       // when to tick again even if no gate moves
	Again     bool            // something is due at once that may not be possible yet: tick again before long
}

// Tick reads once, decides and launches. A tick that finds nothing to do reads one
// record and the gates, and writes nothing. The error is a *lease.HeldError if
// there is something to do and another process leads, and an *OtherBundleError if
// another bundle is in force.
func (r *Reconciler) Tick(ctx context.Context, opts TickOptions) (Report, error) {
	t := &tick{Reconciler: r, opts: opts, dead: map[string]state.Stored[state.Run]{}, shown: map[string]bool{}}
	if r.Spans != nil {
		t.began = r.Now()
	}
	rec, err := t.look(ctx)
	if err != nil {
		return Report{}, err
	}
	if t.idle(rec.Data) {
		return Report{Idle: true, Due: clock.Earlier(rec.Data.Due, t.deliverAt), Record: rec.Data}, nil
	}

	if t.opts.Lease == nil {
		taken, err := r.acquireAgain(ctx)
		if err != nil {
			return Report{}, err
		}
		held := r.hold(ctx, taken)
		defer r.release(ctx, held)
		t.opts.Lease, t.opts.close = taken, held.closeWith
		if !taken.Again() { // another tick may have written before this one had the lease
			if rec, err = t.look(ctx); err != nil {
				return Report{}, err
			}
		}
	}
	return t.act(ctx, rec)
}

// look reads the record that the last tick has left, and polls the gates if their marks are not known.
func (t *tick) look(ctx context.Context) (state.Stored[state.Reconcile], error) {
	before := t.watched
	rec, err := t.read(ctx)
	if err != nil {
		return rec, err
	}
	if !slices.Equal(before.Keys(), t.watched.Keys()) {
		t.opts.Marks = nil // they are those of other gates
	}
	polls := t.opts.Marks == nil
	if t.polledHere = t.polledHere || polls; t.polledHere && !t.Windowed {
		t.gates = t.polled
	} else {
		t.gates = t.watched
	}
	if polls {
		t.opts.Marks, t.opts.GatesErr = t.Consul.Poll(ctx, t.gates)
		if err := ctx.Err(); err != nil {
			return rec, fmt.Errorf("watch Consul: %w", err)
		}
	}
	return rec, nil
}

// read reads the record that the last tick has left.
func (t *tick) read(ctx context.Context) (state.Stored[state.Reconcile], error) {
	rec, err := state.ReadReconcile(ctx, t.Store)
	if err != nil {
		return rec, err
	}
	if inForce := rec.Data.Bundle; inForce != "" && inForce != t.Bundle && rec.Version != t.opts.Replaces {
		return rec, &OtherBundleError{Bundle: inForce, Version: rec.Version}
	}
	t.noteVersion(rec.Version)
	t.version = rec.Version
	return rec, t.Prepare(ctx, rec.Data.Overrides)
}

// tick is one tick on its way.
type tick struct {
	*Reconciler
	opts       TickOptions
	began      time.Time // zero if no spans are exported
	version    string    // of the reconcile record when the tick began
	rec        state.Stored[state.Reconcile]
	tasks      []task // those that concern the tick
	resting    []int  // the others, by their places in the configuration
	gates      consul.GateSet
	polledHere bool                                // Marks were polled by this tick
	expiry     time.Time                           // when the first claim of a runner that cannot be seen expires
	dead       map[string]state.Stored[state.Run]  // runs found lost, as they were read
	live       map[string]bool                     // launches under way, without checks for drift
	notBegun   error                               // why it is not known whether a launch was started, which keeps no other one from beginning
	unplaced   string                              // why a launch that was started has not begun
	checking   bool                                // checks for drift are under way
	corrupt    map[string]error                    // why records cannot be decoded, by task
	owners     map[string]string                   // the tasks that take along the Terraform state of former names, by those
	left       map[string]bool                     // tasks whose records and overrides, as they were read, do not fit each other
	uses       map[string][]string                 // the other tasks by which a run was decided on, by its task
	asRead     map[string]state.Stored[state.Task] // the records of these, as they were read last
	report     Report
	modulesAt  map[string]time.Time // when local modules were changed last, by folder, as far as it was asked
	unsaved    *unsaved             // nil if the reconcile record is as it should be

	offers  *linger.Offers // to runners that linger
	offered []state.Launch // by this tick, and not yet known to be taken

	everything bool                      // every condition is read
	shown      map[string]bool           // datacenters that showed tasks at rest what was applied
	unanswered bool                      // Consul answered no read of this tick
	readable   []outbox.Event            // of tasks that can be read again
	leftOut    leftOut                   // names of services
	modules    bool                      // so is every module input
	consuls    map[string]state.Identity // Consuls and Replaced of the reconcile record from now on
	replaced   *state.Replaced
	unpolled   *state.Unpolled // nil if all remote runs could be polled
}

// act decides and carries the decisions out, under the lease.
func (t *tick) act(ctx context.Context, rec state.Stored[state.Reconcile]) (Report, error) {
	if t.BeginsPaused {
		var err error
		if rec, err = t.beginPaused(ctx, rec); err != nil {
			return Report{}, err
		}
	}
	states, err := t.readSettled(ctx, rec)
	if err != nil {
		return Report{}, err
	}
	inputs, err := t.observeConsul(ctx, t.rec.Data, states)
	if err != nil {
		return Report{}, err
	}
	last, err := state.ReadReconcile(ctx, t.Store)
	if err != nil {
		return Report{}, err
	}
	order, err := t.orderNow(ctx, last.Data.Overrides)
	if err != nil {
		return Report{}, err
	}
	now := t.Now()
	for i := range inputs {
		inputs[i].Paused = last.Data.Paused
	}
	if err := t.findKeepers(ctx, inputs); err != nil {
		return Report{}, err
	}
	if err := t.pollRemote(ctx, inputs); err != nil {
		return Report{}, err
	}
	t.report.Decisions = order.Decide(inputs, now)
	if err := t.stopGivenUp(ctx, inputs); err != nil {
		return Report{}, err
	}
	if err := t.leaveOvertaken(ctx, order, states); err != nil {
		return Report{}, err
	}
	t.noteWaits(inputs)
	t.noteBackoffs()
	t.leaveAlone(states)
	t.warnCorrupt()
	err = t.carryOut(ctx, states, now)
	if err == nil {
		err = t.finish(ctx, t.rec, now)
	}
	folds := err == nil && t.summary.Full()
	t.deliverNow(ctx, folds)
	if folds {
		err = t.fold(ctx)
	}
	if t.unsaved != nil {
		if _, unwritten := t.close(ctx); unwritten != nil {
			err = errors.Join(err, fmt.Errorf("write the reconcile record: %w", unwritten))
		}
	}
	t.report.Due = clock.Earlier(t.report.Due, t.deliverAt)
	return t.report, err
}

// readSettled reads the records of the tasks that concern the tick, and settles first what they leave open:
// provisional changes whose run has ended, and renames. What somebody changes at the same moment is left to
// the next tick.
func (t *tick) readSettled(ctx context.Context, rec state.Stored[state.Reconcile]) (map[string]state.Stored[state.Task], error) {
	t.left = map[string]bool{}
	for settled := false; ; settled = true {
		t.rec = rec
		states, corrupt, err := t.readChosen(ctx, rec.Data)
		if err != nil {
			return nil, err
		}
		t.corrupt = corrupt
		provisional, renamed := t.hadRuns(states), t.takers(states)
		if settled {
			for _, name := range provisional {
				t.left[name] = true
			}
			for _, taker := range renamed {
				t.left[taker.task.Name], t.left[taker.former] = true, true
			}
		}
		if settled || len(provisional)+len(renamed) == 0 {
			return states, nil
		}
		if err := t.settleProvisional(ctx, provisional, states); err != nil {
			return nil, err
		}
		if err := t.takeOver(ctx, renamed, states); err != nil {
			return nil, err
		}
		if rec, err = t.look(ctx); err != nil {
			return nil, err
		}
	}
}
