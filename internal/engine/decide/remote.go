package decide

import (
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// remoteWentOn is the trigger of a run whose remote run has gone on while it waited. With a
// plan of outdated input, a run does not go on: it is replaced, or the input comes back.
func (d *decider) remoteWentOn(outdated bool) (trigger, bool) {
	live := *d.state.Run
	switch {
	case d.Remote == nil || d.state.LiveRemote() == nil || !live.Wait.For.EndedBy(d.Remote.Phase):
		return trigger{}, false
	case outdated && !d.Remote.Phase.PastApproval():
		return trigger{}, false
	}
	remote := *d.Remote
	d.state.NoteRemote(remote)
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
	if d.Remote == nil || d.Remote.Text == "" || !live.Wait.For.OnRemote() || live.Wait.Text == d.Remote.Text && live.Wait.Person == d.Remote.Person {
		return
	}
	next, wait := *live, *live.Wait
	wait.Text, wait.Person = state.Cut(d.Remote.Text), d.Remote.Person
	next.Wait = &wait
	d.state.Run = &next
}

// says is why a run waits on, in words.
func (d *decider) says(wait *state.Wait) string {
	text := wait.String()
	if limit := d.Task.RunTimeout; limit > 0 && d.state.LiveRemote() != nil && wait.For.OnRemote() && d.now.Sub(wait.Since) >= limit {
		text += fmt.Sprintf("; for more than %s, which is its run_timeout: look at the remote run, or end it with `terrapulse cancel %s`", block.Brief(limit), d.Task.Name)
	}
	return text
}

// pastApproval reports whether the remote run of a waiting run goes on, whatever is
// decided here.
func (d *decider) pastApproval() bool { return d.waits() && d.state.LiveRemote().PastApproval() }

// polled is when the remote run of a task is polled next, or stopped; zero if there is
// none.
func (d *decider) polled() time.Time {
	switch {
	case d.Driver == "" || d.Corrupt != nil:
		return time.Time{}
	case d.waits() && d.state.LiveRemote() != nil && d.state.Waits().For != state.WaitVerify:
		return NextPoll(d.state.Waits().Since, d.now)
	}
	left := d.state.GivenUp()
	switch {
	case left == nil:
		return time.Time{}
	case d.State.GivenUp() == nil || d.State.Run != nil:
		return d.now // it is written first
	case d.state.Run == nil:
		return NextPoll(left.GivenUp.Since, d.now)
	}
	return time.Time{}
}
