package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Remote is another system in which runs go on.
type Remote interface {
	// Poll returns the status of remote runs, by their ids, in as few requests as possible.
	// A run of which nothing is known is left out. With an error, the statuses that it
	// found are valid.
	Poll(ctx context.Context, cfg *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error)
	// Await polls the remote runs that tasks wait for as often as the system permits. It returns the
	// status of those that are in another phase than a tick has seen last; none, and not nil, if the
	// system does not answer any more, or answers again; or nil when ctx ends.
	Await(ctx context.Context, cfg *config.Config, waits []state.RemoteWait) map[string]state.RemoteStatus
	// Stop discards or cancels a remote run that is given up. One that is
	// applied is left alone unless a person has cancelled it. It reports whether the plan was
	// confirmed before it could be discarded. To stop a run that has ended is harmless.
	Stop(ctx context.Context, cfg *config.Config, r *state.RemoteRun) (applied bool, err error)
}

const (
	// pollTime limits the polls of a tick, and separately its requests to stop runs.
	pollTime = 15 * time.Second

	// stopsPerTick is how many remote runs one tick stops at most.
	stopsPerTick = 10
)

// pollRemote finds out how far the remote runs have come that tasks wait for.
func (t *tick) pollRemote(ctx context.Context, inputs []decide.Input) error {
	var runs []state.RemoteRun
	for i := range inputs {
		inputs[i].Driver = t.remoteDriver()
		if r := remoteRun(&inputs[i]); r != nil {
			runs = append(runs, *r)
		}
	}
	if len(runs) == 0 || t.Remote == nil {
		return nil
	}
	if t.takeMoved(inputs) {
		return nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, pollTime, fmt.Errorf("no answer within %s", pollTime))
	defer cancel()
	found, err := t.Remote.Poll(limited, t.effective.Config, runs)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var missed []string
	for i := range inputs {
		r := remoteRun(&inputs[i])
		if r == nil {
			continue
		}
		if status, ok := found[r.ID]; ok {
			inputs[i].Remote = &status
		} else if err != nil {
			missed = append(missed, inputs[i].Task.Name)
		}
	}
	t.noteUnpolled(missed, len(runs), err)
	return nil
}

// noteUnpolled notes for people which of the tasks that wait for a remote run learn nothing of it.
// It is not part of their decisions: an outage would write each of their records.
func (t *tick) noteUnpolled(missed []string, runs int, err error) {
	was := t.rec.Data.Unpolled
	switch {
	case len(missed) == 0 && was != nil:
		t.Log.Info("remote runs can be polled again", "runs", runs)
		return
	case len(missed) == 0:
		return
	case was == nil:
		t.Log.Warn("remote runs cannot be polled, trying again", "runs", len(missed), "error", err)
	}
	t.unpolled = &state.Unpolled{Count: len(missed), Tasks: missed[:min(len(missed), state.MaxNames)], Error: state.CutTo(err.Error(), maxGateError),
		Since: t.Now(), All: len(missed) == runs}
	if was != nil {
		t.unpolled.Since = was.Since
	}
}

// remoteDriver is the name of the driver whose remote runs this process polls and stops; "" if
// there is none.
func (t *tick) remoteDriver() string {
	if t.Remote == nil {
		return ""
	}
	return t.effective.Config.Driver().Kind().Name
}

// remoteRun is the remote run that the task's run waits for; nil if there is none, or if another
// driver began it.
func remoteRun(in *decide.Input) *state.RemoteRun {
	if r := in.State.LiveRemote(); in.Corrupt == nil && in.State.Waits() != nil && in.State.Waits().For != state.WaitVerify && r.Created() && !r.OfOther(in.Driver) {
		return r
	}
	return nil
}

// stopGivenUp stops the remote runs that are given up, unless a run begins that deals
// with them. The next tick decides on what follows from that.
func (t *tick) stopGivenUp(ctx context.Context, inputs []decide.Input) error {
	var left []*decide.Decision
	for i := range t.report.Decisions {
		in, d := &inputs[i], &t.report.Decisions[i]
		r := in.State.GivenUp()
		switch {
		case r == nil || in.Corrupt != nil || in.State.Run != nil || d.State.Run != nil:
		case r.OfOther(in.Driver):
			t.Log.Warn("a remote run that no task needs any more is left as it is, because the configuration has no driver for it any more: discard it there",
				"task", in.Task.Name, "remote_run", r.ID, "url", r.URL)
		case d.Action != decide.Run && d.State.GivenUp() != nil:
			left = append(left, d)
		}
	}
	now := t.Now()
	limited, cancel := context.WithTimeoutCause(ctx, pollTime, fmt.Errorf("no answer within %s", pollTime))
	defer cancel()
	for n, d := range inTurn(left, now) {
		r := d.State.GivenUp()
		if n == stopsPerTick || limited.Err() != nil {
			break // the others wait for the next tick
		}
		applied, err := t.Remote.Stop(limited, t.effective.Config, r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			t.Log.Warn("a remote run that no task needs any more was not stopped, trying again: until then, it blocks its workspace", "task", d.Task.Name, "remote_run", r.ID, "url", r.URL, "error", err)
			continue
		}
		t.Log.Info("a remote run that no task needs any more was stopped", "task", d.Task.Name, "remote_run", r.ID, "confirmed_before", applied)
		d.State, d.Poll = d.State.Stopped(applied), now
	}
	return nil
}

// inTurn returns the decisions, and begins with another one in each tick: remote runs that
// cannot be stopped do not prevent that a tick stops the others.
func inTurn(decisions []*decide.Decision, now time.Time) []*decide.Decision {
	if len(decisions) <= stopsPerTick {
		return decisions
	}
	first := int(now.UnixMilli() % int64(len(decisions)))
	return slices.Concat(decisions[first:], decisions[:first])
}

// takeRemote returns the changes that move the record of what another system has of a
// renamed task.
func (t *tick) takeRemote(ctx context.Context, from, to string) ([]state.Change, error) {
	before, err := t.Store.Get(ctx, state.RemoteKey(from))
	if errors.Is(err, state.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now, err := t.Store.Get(ctx, state.RemoteKey(to))
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return nil, err
	}
	now.Key = cmp.Or(now.Key, state.RemoteKey(to))
	write := state.Create(now.Key, before.Value)
	if now.Version != "" {
		write = state.Replace(now, before.Value)
	}
	return []state.Change{write, state.Delete(before)}, nil
}
