package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// runsPerLaunch is how many runs one launch carries at most. They are
// written at once with the launch, their events and the check of the lease: two
// records each, three where a run was lost, so that 19 lost ones fill a launch
// (61 of state.MaxChanges, with the runner to which the launch is offered).
const runsPerLaunch = 25

// startsAtOnce is how many launches are started in parallel: ECS takes up to a
// second for one, and accepts 20 a second in the long run.
const startsAtOnce = 8

// start starts launches, except those that a runner that lingers takes. If that
// fails, their intents stay, so that the next tick starts them under the same ids, and
// this tick begins no others, unless the launcher has refused these alone.
func (t *tick) start(ctx context.Context, launches ...state.Launch) {
	began := t.Now()
	takers, errs := make([]string, len(launches)), make([]error, len(launches))
	offers := t.offering()
	startOne := func(i int) {
		if launches[i].Offered() {
			takers[i], errs[i] = offers.Place(ctx, launches[i])
		}
		if errs[i] == nil && (takers[i] == "" || takers[i] == state.TakenByContainer) {
			errs[i] = t.Launcher.Start(ctx, launches[i])
		}
	}
	var work sync.WaitGroup
	for i := range launches[1:] {
		work.Go(func() { startOne(i + 1) })
	}
	startOne(0)
	work.Wait()
	for i, err := range errs {
		t.exportStart(launches[i], began, err)
		switch takers[i] {
		case "":
		case state.TakenByContainer:
			t.report.Withdrawn++
		default:
			t.report.Taken++
		}
		if err == nil {
			continue
		}
		attrs := []any{"launch", launches[i].ID, "fence", launches[i].Fence, "error", err}
		if fault.IsTransient(err) {
			t.Log.Warn("launch not started, will retry", attrs...)
		} else {
			t.Log.Error("launch not started, will retry: the cause must be removed", attrs...)
		}
		refused := errors.Is(err, ErrRefused)
		if refused {
			t.noteRefused(ctx, launches[i])
		}
		if t.report.Stalled == nil || t.onlyRefused() && !refused {
			t.report.Stalled = fmt.Errorf("start launch %s: %w", launches[i].ID, err)
		}
	}
}

// onlyRefused reports whether the launches of this tick that were not started were each refused by themselves.
func (t *tick) onlyRefused() bool { return errors.Is(t.report.Stalled, ErrRefused) }

// noteRefused writes that a launch was refused, so that the next attempt is a new one. Without that, it has the
// answer of this one, and is noted then.
func (t *tick) noteRefused(ctx context.Context, launch state.Launch) {
	rec, err := state.Read[state.Launch](ctx, t.Store, state.LaunchKey(launch.ID))
	if err == nil && rec.Exists() && rec.Data.Refused == launch.Refused {
		rec.Data.Refused++
		_, err = t.opts.Lease.Apply(ctx, rec.Write(rec.Data))
	}
	if err != nil {
		t.Log.Warn("cannot note that a launch was refused", "launch", launch.ID, "fence", launch.Fence, "error", err)
	}
}

// carryOut writes the decisions and starts the runs, batch by batch, so that each
// launch starts soon after its intent is written.
func (t *tick) carryOut(ctx context.Context, states map[string]state.Stored[state.Task], now time.Time) error {
	// Beside the records of its tasks a batch writes that of its events and, if
	// it launches, that of the launch and of the runner to which it is offered. A launch of
	// applies or destroys may check the reconcile record, too.
	quiet := batch{tick: t, now: now, limit: lease.MaxChanges - 1}
	runs := batch{tick: t, now: now, limit: lease.MaxChanges - 4, launches: state.KindApply}
	destroys := batch{tick: t, now: now, limit: lease.MaxChanges - 4, launches: state.KindDestroy}
	runs.peer, destroys.peer = &destroys, &runs
	checks := batch{tick: t, now: now, limit: lease.MaxChanges - 2, launches: state.KindDrift}
	erased := 0
	for _, d := range inOrder(t.report.Decisions, states, now) {
		if d.Reason.Code == state.ReasonCorrupt {
			continue // the broken record may hold more than a new one would
		}
		if d.Action == decide.Erase {
			if erased++; erased <= erasedPerTick {
				if err := t.erase(ctx, states[d.Task.Name]); err != nil {
					return err
				}
			}
			continue
		}
		target := &quiet
		switch d.Action {
		case decide.Run, decide.Resume:
			if target = &runs; d.Kind == state.KindDestroy {
				target = &destroys
			}
		case decide.Check:
			target = &checks
		}
		if err := target.add(ctx, states[d.Task.Name], d); err != nil {
			return errors.Join(err, runs.startWritten(ctx), destroys.startWritten(ctx), t.startOffered(ctx))
		}
	}
	err := errors.Join(runs.flush(ctx), runs.startWritten(ctx), destroys.flush(ctx), destroys.startWritten(ctx))
	err = errors.Join(err, t.startOffered(ctx))
	for _, d := range append(runs.postponed, destroys.postponed...) {
		err = errors.Join(err, quiet.add(ctx, states[d.Task.Name], d))
	}
	if err == nil {
		err = checks.flush(ctx)
	}
	for _, d := range checks.postponed {
		err = errors.Join(err, quiet.add(ctx, states[d.Task.Name], d))
	}
	return errors.Join(err, quiet.flush(ctx))
}

// startOffered waits until the launches that were offered to runners that linger are
// taken, and starts the others. All wait at the same time, after other launches were started.
func (t *tick) startOffered(ctx context.Context) error {
	if len(t.offered) == 0 {
		return nil
	}
	t.start(ctx, t.offered...)
	t.offered = nil
	return ctx.Err()
}

// offering returns what makes offers to runners that linger.
func (t *tick) offering() *linger.Offers {
	if t.offers == nil {
		t.offers = &linger.Offers{Store: t.Store, Apply: t.opts.Lease.Apply, Definition: t.Definition, Now: t.Now, Skew: t.Skew, Log: t.Log}
	}
	return t.offers
}

// full says why no further launch may begin now, if so.
func (t *tick) full() string {
	under := len(t.live) + len(t.report.Launches)
	switch {
	case t.report.Stalled != nil && !t.onlyRefused():
		return cannotStart + state.Cut(t.report.Stalled.Error())
	case !t.opts.Until.IsZero() && !t.Now().Before(t.opts.Until):
		return "this tick has no time left"
	case t.MaxLaunches > 0 && under >= t.MaxLaunches:
		return fmt.Sprintf("%d launches are under way, and no more than %d may be", under, t.MaxLaunches)
	}
	return ""
}

// newID returns an id that sorts by the time of its making.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
