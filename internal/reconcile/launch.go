package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/fault"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/state"
)

// runsPerLaunch is how many runs one launch carries at most. They are
// written at once with the launch, their events and the check of the lease: two
// records each, three where a run was lost, so that 20 lost ones fill a launch
// (63 of state.MaxChanges).
const runsPerLaunch = 25

// startsAtOnce is how many launches are started in parallel: ECS takes up to a
// second for one, and accepts 20 a second in the long run.
const startsAtOnce = 8

// start starts launches. If that fails, their intents stay, so that the next tick
// starts them under the same ids, and this tick begins no others.
func (t *tick) start(ctx context.Context, launches ...state.Launch) {
	errs := make([]error, len(launches))
	var work sync.WaitGroup
	for i, launch := range launches[1:] {
		work.Go(func() { errs[i+1] = t.Launcher.Start(ctx, launch) })
	}
	errs[0] = t.Launcher.Start(ctx, launches[0])
	work.Wait()
	for i, err := range errs {
		if err == nil {
			continue
		}
		attrs := []any{"launch", launches[i].ID, "fence", launches[i].Fence, "error", err}
		if fault.IsTransient(err) {
			t.Log.Warn("launch not started, will retry", attrs...)
		} else {
			t.Log.Error("launch not started, will retry: the cause must be removed", attrs...)
		}
		if t.report.Stalled == nil {
			t.report.Stalled = fmt.Errorf("start launch %s: %w", launches[i].ID, err)
		}
	}
}

// carryOut writes the decisions and starts the runs, batch by batch, so that each
// launch starts soon after its intent is written.
func (t *tick) carryOut(ctx context.Context, states map[string]state.Stored[state.Task], now time.Time) error {
	// Beside the records of its tasks a batch writes that of its events and, if
	// it launches, that of the launch.
	quiet := batch{tick: t, now: now, limit: lease.MaxChanges - 1}
	runs := batch{tick: t, now: now, limit: lease.MaxChanges - 2, launches: state.KindApply}
	destroys := batch{tick: t, now: now, limit: lease.MaxChanges - 2, launches: state.KindDestroy}
	checks := batch{tick: t, now: now, limit: lease.MaxChanges - 2, launches: state.KindDrift}
	erased := 0
	for _, d := range t.report.Decisions {
		if d.Reason.Code == state.ReasonCorrupt {
			continue // the broken record may hold more than a new one would
		}
		if d.Action == Erase {
			if erased++; erased <= erasedPerTick {
				if err := t.erase(ctx, states[d.Task.Name]); err != nil {
					return err
				}
			}
			continue
		}
		target := &quiet
		switch d.Action {
		case Run, Resume:
			if target = &runs; d.Kind == state.KindDestroy {
				target = &destroys
			}
		case Check:
			target = &checks
		}
		if err := target.add(ctx, states[d.Task.Name], d); err != nil {
			return errors.Join(err, runs.startWritten(ctx), destroys.startWritten(ctx))
		}
	}
	err := errors.Join(runs.flush(ctx), runs.startWritten(ctx), destroys.flush(ctx), destroys.startWritten(ctx))
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

// full says why no further launch may begin now, if so.
func (t *tick) full() string {
	under := len(t.live) + len(t.report.Launches)
	switch {
	case t.report.Stalled != nil:
		return state.Cut(t.report.Stalled.Error())
	case !t.opts.Until.IsZero() && !t.Now().Before(t.opts.Until):
		return "this tick has no time left"
	case t.MaxLaunches > 0 && under >= t.MaxLaunches:
		return fmt.Sprintf("%d launches are under way, and no more than %d may be", under, t.MaxLaunches)
	}
	return ""
}

// newID returns an id that sorts by the time of its making.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
