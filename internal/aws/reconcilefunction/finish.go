package reconcilefunction

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// endsTogether is how long the first tick that does not wait for the end of all runs waits for the ends
// of others. Each further one waits twice as long, so that an invocation of 15 minutes has at most nine.
const endsTogether = time.Second

// ends are the tasks whose runs an invocation has ended, as far as others wait for them.
type ends struct {
	awaited map[string]bool // tasks for which others wait, after the latest tick that was not idle
	early   int             // ticks that did not wait for the end of all runs

	mu    sync.Mutex
	ended []string // tasks whose runs have ended since the latest tick began
}

// expect takes over from the report of a tick which tasks others wait for.
func (e *ends) expect(report reconcile.Report) {
	if len(report.Decisions) == 0 {
		return
	}
	e.awaited = map[string]bool{}
	for _, d := range report.Decisions {
		if d.State.After != nil && d.Reason.Code == state.ReasonAfter {
			e.awaited[d.State.After.Task] = true
		}
	}
}

// add adds a run that has ended. It may be called from several goroutines.
func (e *ends) add(run state.Run) {
	if !run.State.Ended() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = append(e.ended, run.Task)
}

// takes reports whether a tick would find that a task has ended for which another one waits.
func (e *ends) takes() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.ended, func(task string) bool { return e.awaited[task] })
}

// begin says that a tick begins, which finds all that has ended.
func (e *ends) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = nil
}

// runEnded is called with each run that the invocation has executed.
func (i *invocation) runEnded(run state.Run) {
	i.ends.add(run)
	i.ended(run)
}

// finish waits for the runs that the invocation executes, and ticks after they have ended: what
// follows a run is decided by a tick. It does not wait for the others if a task has ended for which
// another one waits. It returns when nothing is left to execute, or when the time of the invocation is over.
func (i *invocation) finish(ctx context.Context, req invoke.Request, answer invoke.Answer) (invoke.Answer, error) {
	for i.launcher.here.Busy() || i.oneEnded() {
		all := i.awaitEnds()
		if i.end.Sub(i.now()) < launchReserve+stopReserve {
			i.launcher.here.Wait()
			break
		}
		i.ends.begin()
		next, err := i.again(ctx, req, reconcile.TickOptions{Ended: true})
		if err != nil && all {
			return answer, err
		}
		if err != nil {
			continue // it was logged, and the tick after the end of all runs tries again
		}
		next.Mode, next.Skipped = answer.Mode, answer.Skipped
		answer = merge(answer, next)
	}
	return answer, nil
}

// awaitEnds waits until all runs of the invocation have ended, and reports whether they have. It waits
// for a moment only if a task has ended for which another one waits.
func (i *invocation) awaitEnds() (all bool) {
	here := i.launcher.here
	for here.Busy() && !i.ends.takes() {
		<-here.Ended() // at least of a run that was under way
	}
	together := time.NewTimer(endsTogether << i.ends.early)
	defer together.Stop()
	for here.Busy() {
		select {
		case <-here.Ended():
		case <-together.C:
			i.ends.early++
			return false
		}
	}
	here.Wait()
	i.oneEnded() // the tick is for all of them
	return true
}

// oneEnded reports whether a run that the invocation executes has ended since the last call.
func (i *invocation) oneEnded() bool {
	select {
	case <-i.launcher.here.Ended():
		return true
	default:
		return false
	}
}
