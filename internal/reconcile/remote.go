package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/block"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Remote is another system in which runs go on, such as HCP Terraform.
type Remote interface {
	// Poll returns the status of remote runs, by their ids, in as few requests as possible.
	// A run of which nothing is known is left out. With an error, the statuses that it
	// found are valid.
	Poll(ctx context.Context, cfg *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error)
	// Stop discards or cancels a remote run that no run needs any more. One that is
	// applied is left alone unless a.Cancel is set. It reports whether the plan was
	// confirmed before it could be discarded. To stop a run that has ended is harmless.
	Stop(ctx context.Context, cfg *config.Config, a state.Abandoned) (applied bool, err error)
}

const (
	// pollMin and pollMax limit the time between two polls of a remote run. HCP Terraform
	// permits 30 in a minute.
	pollMin = 6 * time.Second
	pollMax = 5 * time.Minute

	// pollSoon is the time between the polls in the first pollEarly of a wait: a small plan takes
	// a second or two. All polls are multiples of it, so that there are at most 30 in a minute.
	pollSoon  = 2 * time.Second
	pollEarly = 6 * time.Second

	// pollTime limits the polls of a tick, and separately its requests to stop runs.
	pollTime = 15 * time.Second

	// stopsPerTick is how many remote runs one tick stops at most.
	stopsPerTick = 10
)

// nextPoll returns when a remote run is polled after now: less and less often.
func nextPoll(since, now time.Time) time.Time { return pollAfter(since, now, 10) }

// nextRead returns when a condition that cannot be read is read again after now: the wait
// doubles each time.
func nextRead(since, now time.Time) time.Time { return pollAfter(since, now, 1) }

// pollAfter returns the first time of a poll after now: after about each nth part of the
// wait until then. The times depend only on the beginning of the wait, so that a poll that
// shows nothing new needs no write. They are multiples of pollMin, so that one tick polls
// for all tasks.
func pollAfter(since, now time.Time, n time.Duration) time.Time {
	if since.After(now) {
		since = now // a clock was ahead
	}
	if at := since.Add(pollSoon / 2).Truncate(pollSoon).Add(pollSoon); now.Before(since.Add(pollEarly - pollSoon)) {
		for !at.After(now) {
			at = at.Add(pollSoon)
		}
		return at
	}
	since = since.Truncate(pollMin)
	at := since
	for !at.After(now) {
		step := max(pollMin, at.Sub(since)/n).Truncate(pollMin)
		if step >= pollMax {
			return at.Add((now.Sub(at)/pollMax + 1) * pollMax)
		}
		at = at.Add(step)
	}
	return at
}

// pollRemote finds out how far the remote runs have come that tasks wait for.
func (t *tick) pollRemote(ctx context.Context, inputs []Input) error {
	var runs []state.RemoteRun
	for i := range inputs {
		inputs[i].Remotely = t.Remote != nil
		if r := inputs[i].remoteRun(); r != nil {
			runs = append(runs, *r)
		}
	}
	if len(runs) == 0 || t.Remote == nil {
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
		r := inputs[i].remoteRun()
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

// remoteRun is the remote run that the task's run waits for; nil if there is none.
func (in *Input) remoteRun() *state.RemoteRun {
	if in.Corrupt != nil || in.State.Waits() == nil || in.State.Run.Remote == nil || in.State.Run.Remote.ID == "" {
		return nil
	}
	return in.State.Run.Remote
}

// stopAbandoned stops the remote runs that no run needs, unless a run begins that deals
// with them. It reports whether it has stopped one: the tick decides again then.
func (t *tick) stopAbandoned(ctx context.Context, inputs []Input) (bool, error) {
	var abandoned []*Input
	for i, d := range t.report.Decisions {
		in := &inputs[i]
		if in.State.Abandoned != nil && in.Corrupt == nil && in.State.Run == nil && d.State.Run == nil && d.Action != Run && d.State.Abandoned != nil {
			abandoned = append(abandoned, in)
		}
	}
	stopped := false
	limited, cancel := context.WithTimeoutCause(ctx, pollTime, fmt.Errorf("no answer within %s", pollTime))
	defer cancel()
	for n, in := range inTurn(abandoned, t.Now()) {
		a := in.State.Abandoned
		if t.Remote == nil {
			t.Log.Warn("a remote run that no task needs any more is left as it is, because the configuration has no driver for it any more: discard it there",
				"task", in.Task.Name, "remote_run", a.Run.ID, "url", a.Run.URL)
			in.Stopped, stopped = &Stopped{}, true
			continue
		}
		if n == stopsPerTick || limited.Err() != nil {
			break // the others wait for the next tick
		}
		applied, err := t.Remote.Stop(limited, t.effective.Config, *a)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			t.Log.Warn("a remote run that no task needs any more was not stopped, trying again", "task", in.Task.Name, "remote_run", a.Run.ID, "url", a.Run.URL, "error", err)
			continue
		}
		t.Log.Info("a remote run that no task needs any more was stopped", "task", in.Task.Name, "remote_run", a.Run.ID, "confirmed_before", applied)
		in.Stopped, stopped = &Stopped{Applied: applied}, true
	}
	return stopped, nil
}

// inTurn returns the inputs, and begins with another one in each tick: remote runs that
// cannot be stopped do not prevent that a tick stops the others.
func inTurn(inputs []*Input, now time.Time) []*Input {
	if len(inputs) <= stopsPerTick {
		return inputs
	}
	first := int(now.UnixMilli() % int64(len(inputs)))
	return slices.Concat(inputs[first:], inputs[:first])
}

// Stopped says that the abandoned remote run of a task is stopped.
type Stopped struct {
	Applied bool // it was confirmed before that
}

// remoteWentOn is the trigger of a run whose remote run has gone on while it waited. With a
// plan of outdated input, a run does not go on: it is replaced, or the input comes back.
func (d *decider) remoteWentOn(outdated bool) (trigger, bool) {
	live := *d.state.Run
	switch {
	case d.Remote == nil || live.Remote == nil || !live.Wait.For.EndedBy(d.Remote.Phase):
		return trigger{}, false
	case outdated && !d.Remote.Phase.PastApproval():
		return trigger{}, false
	}
	remote := *live.Remote
	remote.Phase, remote.Text = d.Remote.Phase, d.Remote.Text
	live.Remote = &remote
	if live.Resume == nil {
		live.Resume = &state.Resume{By: "its remote run", At: d.now}
	}
	d.state.Run = &live
	return triggered(state.ReasonRunning, "run %s goes on: its remote run is %s", live.ID, remoteSays[remote.Phase]), true
}

// remoteSays are the phases in words.
var remoteSays = map[state.RemotePhase]string{
	state.RemoteReady: "planned", state.RemoteApplying: "being applied", state.RemoteEnded: "at its end",
}

// noteRemote takes over what the other system says about a wait that goes on.
func (d *decider) noteRemote() {
	live := d.state.Run
	if d.Remote == nil || d.Remote.Text == "" || live.Wait.For.ForPeople() || live.Wait.Text == d.Remote.Text {
		return
	}
	next, wait := *live, *live.Wait
	wait.Text = state.Cut(d.Remote.Text)
	next.Wait = &wait
	d.state.Run = &next
}

// says is why a run waits on, in words.
func (d *decider) says(wait *state.Wait) string {
	text := wait.String()
	if limit := d.Task.RunTimeout; limit > 0 && d.state.Run.Remote != nil && !wait.For.ForPeople() && d.now.Sub(wait.Since) >= limit {
		text += fmt.Sprintf("; for more than %s, which is its run_timeout: look at the remote run, or end it with `terrapulse cancel %s`", block.Brief(limit), d.Task.Name)
	}
	return text
}

// pastApproval reports whether the remote run of a waiting run goes on, whatever is
// decided here.
func (d *decider) pastApproval() bool {
	return d.waits() && d.state.Run.Remote != nil && d.state.Run.Remote.Phase.PastApproval()
}

// polled is when the remote run of a task is polled next, or stopped; zero if there is
// none.
func (d *decider) polled() time.Time {
	switch {
	case !d.Remotely || d.Corrupt != nil:
		return time.Time{}
	case d.waits() && d.state.Run.Remote != nil:
		return nextPoll(d.state.Waits().Since, d.now)
	case d.state.Abandoned != nil && (d.State.Abandoned == nil || d.State.Run != nil):
		return d.now // it is written first
	case d.state.Abandoned != nil && d.state.Run == nil:
		return nextPoll(d.state.Abandoned.Since, d.now)
	}
	return time.Time{}
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
