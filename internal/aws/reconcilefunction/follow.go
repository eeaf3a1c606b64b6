package reconcilefunction

import (
	"context"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
)

// overlap is how long an invocation of the schedule still polls remote runs when the next one is
// due, which may have to start a process.
const overlap = 5 * time.Second

// followFor is how long invocations follow a remote run in one wait: the function is paid for while it
// polls, and a run may wait for days, because its workspace is locked. Then ticks poll it.
const followFor = time.Hour

// follow polls the remote runs that tasks wait for until the next invocation of the schedule begins,
// and ticks as soon as one has come further. Only invocations of the schedule do so: otherwise, each
// push and each notification would poll, too.
func (i *invocation) follow(ctx context.Context, req invoke.Request, answer invoke.Answer) (invoke.Answer, error) {
	if !req.Window {
		return answer, nil
	}
	until := clock.Earlier(i.began.Add(i.schedule+overlap), i.end.Add(-launchReserve-stopReserve))
	for {
		r := i.engine.reconciler
		if r == nil || !r.AwaitsRemote(i.now().Add(-followFor)) || !i.now().Before(until) {
			return answer, nil
		}
		moved := r.AwaitRemote(ctx, until)
		if moved == nil {
			return answer, nil
		}
		next, err := i.again(ctx, req, reconcile.TickOptions{Moved: moved})
		if err == nil {
			next, err = i.finish(ctx, req, next)
		}
		if err != nil {
			return answer, err
		}
		next.Skipped = answer.Skipped
		answer = merge(answer, next)
	}
}
