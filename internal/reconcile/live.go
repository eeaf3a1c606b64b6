package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/state"
)

// yieldPatience is how long a run whose claim has expired is waited for while
// the launcher cannot say whether its runner lives. A runner that cannot renew
// its claim interrupts Terraform, which has 60 seconds to end before it is
// killed; the rest is for a state that a backend does not take at once.
const yieldPatience = 5 * time.Minute

// intentPatience is how long a launch that its launcher does not know is
// asked for again and again, before its runs are taken for lost.
const intentPatience = 15 * time.Minute

// lookAfterRuns finds out which of the runs under way are dead, and asks once
// more for those whose launch may never have been asked for.
func (t *tick) lookAfterRuns(ctx context.Context, inputs []Input, states map[string]state.Stored[state.Task]) error {
	var launches []string
	for _, in := range inputs {
		if in.State.Run != nil && in.State.Waits() == nil {
			launches = append(launches, in.State.Run.Launch)
		}
	}
	if len(launches) == 0 {
		return nil
	}
	statuses, err := t.Launcher.Status(ctx, launches)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// Only the claims show which runs are alive then, and what no runner has
		// claimed waits. The other tasks go on.
		t.Log.Warn("cannot read the status of the launches under way: their runs wait until their claims have expired",
			"wait", yieldPatience, "error", err)
	}
	known := err == nil
	relaunched := map[string]relaunch{} // by launch
	for i := range inputs {
		live := inputs[i].State.Run
		if live == nil || live.Wait != nil || statuses[live.Launch].Running {
			continue
		}
		run, err := state.Read[state.Run](ctx, t.Store, state.RunKey(inputs[i].Task.Name, live.ID))
		if wrong := (*state.CorruptError)(nil); errors.As(err, &wrong) {
			t.corrupt.add(inputs[i].Task.Name, wrong)
			inputs[i].Corrupt = true
			continue
		}
		if err != nil {
			return fmt.Errorf("read run %s: %w", live.ID, err)
		}
		if !run.Data.State.Active() {
			// It has ended or waits, which is written with its task: after the task was read.
			name := inputs[i].Task.Name
			if states[name], err = state.Read[state.Task](ctx, t.Store, state.TaskKey(name)); err != nil {
				return fmt.Errorf("read task %s: %w", name, err)
			}
			inputs[i].State = states[name].Data
			if again := inputs[i].State.Run; again == nil || again.ID != live.ID || again.Wait != nil {
				continue
			}
		}
		if !known && run.Data.State == state.RunIntended {
			continue
		}
		if run, err = t.boundClaim(ctx, t.opts.Lease, run); err != nil {
			return err
		}
		now := t.Now()
		grace := t.Skew
		if !known {
			grace += yieldPatience
		}
		stopped := ""
		if status := statuses[live.Launch]; (Stopped{Runner: status.Runner}).left(run.Data) {
			stopped = status.Stopped
		}
		lost := lifeless(run.Data, stopped, now, grace)
		if lost == "" && run.Data.State == state.RunIntended {
			again, done := relaunched[live.Launch]
			if !done {
				if again, err = t.relaunch(ctx, live.Launch); err != nil {
					return err
				}
				relaunched[live.Launch] = again
			}
			if lost = again.useless; lost == "" && again.definitions[live.ID] != inputs[i].Definition {
				lost = "it was decided on another definition of the task and had not begun"
			}
		}
		if lost == "" {
			if !run.Data.Expires.IsZero() {
				t.expiry = earlier(t.expiry, run.Data.Expires.Add(grace))
			}
			continue
		}
		ended := run.Data
		ended.ID, ended.Task = live.ID, inputs[i].Task.Name
		ended.State, ended.Ended, ended.Error = state.RunLost, now, state.Cut(lost)
		ended.Dead = stopped != ""
		inputs[i].Lost = &ended
		t.dead[live.ID] = run
	}
	return nil
}

// boundClaim cuts a claim that ends later than a renewal could make it, because
// a clock was ahead, to its full time from now. A runner that lives renews it.
func (r *Reconciler) boundClaim(ctx context.Context, held *lease.Lease, run state.Stored[state.Run]) (state.Stored[state.Run], error) {
	now, next := r.Now(), run.Data
	if next.State != state.RunRunning || next.ClaimFor == 0 || next.Expires.Sub(now) <= next.ClaimFor+r.Skew {
		return run, nil
	}
	next.Expires = now.Add(next.ClaimFor)
	written, err := held.Apply(ctx, run.Write(next))
	if conflict := new(state.ConflictError); errors.As(err, &conflict) {
		return state.Read[state.Run](ctx, r.Store, run.Key) // it was renewed, or has ended
	}
	if err != nil {
		return run, fmt.Errorf("shorten the claim of run %s, which expires too late: %w", run.Data.ID, err)
	}
	r.Log.Info("the claim of a run was shortened: it was written by a clock that was ahead", "task", next.Task, "run", next.ID, "expires", next.Expires)
	return state.Stored[state.Run]{Record: written[0], Data: next}, nil
}

// lifeless says why a task's run is lost whose runner is not seen alive, and
// is known to have stopped if stopped says why. It is empty if the run may
// still come to its end. A claim counts for a grace after it has expired.
func lifeless(run state.Run, stopped string, now time.Time, grace time.Duration) string {
	switch {
	case run.ID == "":
		return "its record is gone"
	case run.State.Ended():
		return "it ended without its task being told"
	case stopped != "":
		return stopped
	case run.State == state.RunIntended && passed(run.Intended(), intentPatience, now, grace):
		return fmt.Sprintf("no runner claimed it within %s", intentPatience)
	case run.State == state.RunRunning && !now.Before(run.Expires.Add(grace)):
		return fmt.Sprintf("its runner %s has given no sign of life since %s", run.Owner, stamp(run.Expires, now))
	}
	return ""
}

// relaunch is what came of asking for a launch once more.
type relaunch struct {
	useless     string            // why it was not asked for
	definitions map[string]string // that its runs were decided on, by run
}

// relaunch asks once more for a launch that may never have been asked for: a
// process may have died between writing the intent and launching it. Runs that
// were decided on another definition of their task are refused by the runner.
func (t *tick) relaunch(ctx context.Context, id string) (relaunch, error) {
	launch, err := state.Read[state.Launch](ctx, t.Store, state.LaunchKey(id))
	corrupt := (*state.CorruptError)(nil)
	switch {
	case errors.As(err, &corrupt):
		return relaunch{useless: corrupt.Error()}, nil
	case err != nil:
		return relaunch{}, fmt.Errorf("read launch %s: %w", id, err)
	case !launch.Exists():
		return relaunch{useless: "the record of its launch is gone"}, nil
	case launch.Data.Bundle != t.Bundle:
		return relaunch{useless: "it was decided on another bundle and had not begun"}, nil
	}
	again := relaunch{definitions: map[string]string{}}
	valid := false
	for _, run := range launch.Data.Runs {
		again.definitions[run.ID] = run.Definition
		valid = valid || run.Definition == t.definitions[run.Task]
	}
	if valid {
		t.Log.Info("launching again what was decided before", "launch", id)
		t.start(ctx, launch.Data)
	}
	return again, nil
}
