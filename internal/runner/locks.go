package runner

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// clocksApart is how far the clock of a runner may be from that of whoever
// found its run lost.
const clocksApart = 30 * time.Second

// Locks finds out from the records of a task's runs whose a state lock is.
type Locks struct {
	Store state.Store
	Log   *slog.Logger
}

// Orphaned says in words why the holder of a lock of the task's state is dead;
// "" if that is not certain. It is certain of a run that took locks under a name
// of its own (Run.Who), was under way when this one was taken, and has come to
// its end: its runner waits for Terraform before it records an outcome. A run
// that was lost must be known to be dead, too: one that only gave no sign of
// life may still be at work, cut off from the store, and then the lock is all
// that keeps a second Terraform out.
func (l Locks) Orphaned(ctx context.Context, task string, lock *terraform.LockError) string {
	created := lock.CreatedAt()
	if lock.Who == "" || created.IsZero() {
		return ""
	}
	runs, err := state.ReadAll[state.Run](ctx, l.Store, state.RunPrefix(task))
	if err != nil {
		l.Log.Warn("cannot find out whether the holder of a state lock is dead", "task", task, "lock", lock.ID, "who", lock.Who, "error", err)
		return ""
	}
	for _, run := range slices.Backward(runs) { // the newest first
		run := run.Data
		if run.Who != lock.Who || !run.State.Ended() || run.State == state.RunLost && !run.Dead {
			continue
		}
		until := run.Ended
		if run.State == state.RunLost {
			until = until.Add(clocksApart)
		}
		began := run.Started
		if run.Resumed != nil {
			began = run.Resumed.At // while it waited, others may have locked the state
		}
		if created.Before(began) || created.After(until) {
			continue
		}
		return fmt.Sprintf("its holder was run %s of this task, which is dead (%s)", run.ID, said(run))
	}
	return ""
}
