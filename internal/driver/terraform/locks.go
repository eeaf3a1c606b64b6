package terraform

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// clocksApart is the maximum difference between the clock of a runner and the clock of
// the process that found its run lost.
const clocksApart = 30 * time.Second

// Locks finds the holder of a state lock in the records of a task's runs.
type Locks struct {
	Store state.Store
	Log   *slog.Logger
}

// Orphaned returns why the holder of a lock of the task's state is dead; "" if that is
// not certain. It is certain if a run took locks under its own name (Run.Who), was
// under way when this lock was taken, and has ended: a runner waits for Terraform
// before it records an outcome. A lost run must be known to be dead, too: it may still
// work without a connection to the store, and then only the lock keeps a second
// Terraform out.
func (l Locks) Orphaned(ctx context.Context, task string, lock *terraformcli.LockError) string {
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
		how := string(run.State)
		if run.Error != "" {
			how = fmt.Sprintf("%s with %q", how, run.Error)
		}
		return fmt.Sprintf("its holder was run %s of this task, which is dead (%s)", run.ID, how)
	}
	return ""
}
