package reconcile

import (
	"context"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// followOrder ticks until no task can run or be destroyed any more of those that wait for others, and
// adds what the ticks do to the report. wait returns when all runs of this process have ended. Only
// tasks that have not run yet are decided about, so that nothing is retried.
func (r *Reconciler) followOrder(ctx context.Context, held *lease.Lease, wait func(), report *Report) error {
	for {
		force, only := map[string]string{}, map[string]bool{}
		for _, d := range report.Decisions {
			if !behindOthers(d) {
				continue
			}
			if only[d.Task.Name] = true; !d.Removed && d.Kind != state.KindDestroy {
				force[d.Task.Name] = "-once"
			}
		}
		if len(only) == 0 {
			return nil
		}
		next, err := r.Tick(ctx, TickOptions{Lease: held, Ended: true, Force: force, Only: only, All: true})
		wait()
		report.Include(next)
		if err != nil || report.Stalled != nil || len(next.Launches) == 0 {
			return err
		}
		if err := r.followRemote(ctx, held, wait, report); err != nil {
			return err
		}
	}
}

// behindOthers reports whether a task waits for one that comes before it, or for one that is destroyed before it.
func behindOthers(d decide.Decision) bool { return d.Reason.Code == state.ReasonAfter }
