package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/record/state"
	rules "github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// ruledWorld is one task with rules, with the people and the runner around it.
type ruledWorld struct {
	task     *config.Task
	state    state.Task
	now      time.Time
	consul   string // digest of what Consul shows
	force    string // who requests a run at the next tick
	next     int
	shown    string // what Consul showed when the waiting run was planned
	replaced bool   // Consul was, and the task loses entries by that
	approved bool   // by a person, the plan of the waiting run
	until    time.Time
	paused   *state.Paused

	remotely bool              // runs go on in another system
	remote   state.RemotePhase // of the run's remote run there
}

// tick decides, and checks what is decided.
func (w *ruledWorld) tick(t *rapid.T, read bool) {
	in := Input{Task: w.task, Definition: "def", State: w.state, Request: Request{Force: w.force}, Paused: w.paused}
	if w.force = ""; read || w.replaced || !w.state.Observed.Current() {
		in.Observed = &Observed{Digest: w.consul, Entries: cameAPI}
	}
	if w.replaced && w.state.Applied.Digest != w.consul {
		in.Observed.Lost, in.Replaced = &Loss{Entries: 1, Text: "1 of 2 entries are gone"}, &state.Replaced{Why: "it is another"}
	}
	if w.remotely {
		in.Driver = "terraform-cloud"
	}
	if w.remotely && w.state.Waits() != nil {
		in.Remote = &state.RemoteStatus{Phase: w.remote}
	}
	d := Decide([]Input{in}, w.now)[0]
	was := w.state
	if w.state = d.State; was.GivenUp() != nil && was.Run == nil && d.Action != Run {
		w.state = w.state.Stopped(false)
	}
	open := len(w.task.Windows) == 0 || w.now.Minute() < 30
	switch d.Action {
	case Run:
		switch {
		case w.paused != nil:
			t.Fatalf("a task is run while everything is paused: %+v", d.Reason)
		case was.OnHold != nil:
			t.Fatalf("a task on hold is run: %+v", d.Reason)
		case was.Run != nil:
			t.Fatalf("a second run: %+v", d.Reason)
		case in.Replaced != nil:
			t.Fatalf("a run with what a replaced Consul shows: %+v", d.Reason)
		case !open && !w.task.PlansFirst():
			t.Fatalf("a run outside of the window: %+v", d.Reason)
		}
		w.next++
		w.state.Run = &state.LiveRun{ID: fmt.Sprintf("r%d", w.next), Created: w.now}
	case Resume:
		switch what := was.Run.Wait.For; {
		case w.remotely && w.remote.PastApproval(): // that is a fact
		case what == state.WaitRemotePlan && w.remote == state.RemotePlanning:
			t.Fatalf("a run goes on before its remote run is planned: %+v", d.Reason)
		case what == state.WaitRemotePlan && w.state.Observed.Digest != w.shown:
			t.Fatalf("a run goes on with other input than its remote run has: %+v", d.Reason)
		case w.paused != nil:
			t.Fatalf("a run goes on while everything is paused: %+v", d.Reason)
		case was.OnHold != nil:
			t.Fatalf("a run of a task on hold goes on: %+v", d.Reason)
		case !open && !(what == state.WaitRemotePlan && w.task.PlansFirst()):
			t.Fatalf("a run goes on outside of the window: %+v", d.Reason)
		case was.Run.Wait.For == state.WaitApproval && !(w.approved && w.now.Before(w.until)):
			t.Fatalf("a run goes on without a valid approval: %+v", d.Reason)
		case was.Run.Wait.For == state.WaitApproval && w.state.Observed.Digest != w.shown:
			t.Fatalf("a run goes on with other input than was approved: %+v", d.Reason)
		}
		w.state.Run = &state.LiveRun{ID: was.Run.ID, Created: was.Run.Created}
	case End:
		w.end(t, d.EndAs)
	case Wait:
		explained := w.state.OnHold != nil || was.Waits() != nil || d.Reason.Code != state.ReasonOnHold && d.Reason.Code != state.ReasonWaiting
		if d.Reason.Code == "" || d.Reason.Text == "" || !explained {
			t.Fatalf("the task waits for no reason: %+v", d.Reason)
		}
		w.shows(t, d)
	}
}

// shows checks that people see a task that does not run although it should.
func (w *ruledWorld) shows(t *rapid.T, d Decision) {
	s := d.State
	rests := s.Observed.Digest == s.Applied.Digest && !s.Unfinished() && s.Forced.By == "" && s.OnHold == nil
	if rests && s.Waits() == nil || s.Run != nil && (s.Waits() == nil || !s.Waits().For.ForPeople()) {
		return
	}
	var shown state.TaskCounts
	lifecycle.Count(&shown, s)
	switch code := d.Reason.Code; {
	case shown.Phases == nil && code != state.ReasonCancelled:
		t.Fatalf("the task counts as applied: %s of %+v", code, s)
	case (code == state.ReasonReplaced || code == state.ReasonPaused || code == state.ReasonOnHold || code == state.ReasonRejected) && shown.Phases["stopped"]+shown.Phases["waiting"]+shown.Phases["failing"] == 0:
		t.Fatalf("the task is held, and is not shown as that: %s of %+v", code, s)
	}
}

func (w *ruledWorld) end(t *rapid.T, as state.RunState) {
	run := state.Run{ID: w.state.Run.ID, Task: "web", Kind: state.KindApply, State: as, Times: state.Times{Ended: w.now}, Waits: state.Waits{Wait: w.state.Run.Wait}, Remote: w.state.LiveRemote()}
	if as == state.RunSucceeded {
		run.Digest = w.consul
	}
	w.state, _ = w.state.Conclude(run, "def")
	w.approved = false
}

// wait has the run under way wait.
func (w *ruledWorld) wait(what state.WaitFor) {
	w.next++
	wait := &state.Wait{For: what, ID: fmt.Sprintf("w%d", w.next), Since: w.now, Rules: w.task.RulesDigest()}
	if what == state.WaitApproval {
		wait.Content = &state.Content{Definition: "def", Input: w.consul, Plan: "plan"}
	}
	w.shown, w.approved = w.consul, false
	run := state.Run{Waits: state.Waits{Wait: wait}, Work: state.Work{Digest: w.consul}}
	if w.remotely {
		w.remote = what.RemotePhase()
		run.Remote = &state.RemoteRun{Driver: "terraform-cloud", ID: "remote", Version: "cv", Phase: w.remote}
	}
	w.state = w.state.BeginWait(run)
}

func (w *ruledWorld) resume(a *state.Approval) {
	live := *w.state.Run
	live.Resume = &state.Resume{By: "ann", At: w.now, Approval: a}
	w.state.Run = &live
}

func (w *ruledWorld) approve(expires time.Duration) {
	w.approved, w.until = true, w.now.Add(expires)
	w.resume(&state.Approval{Given: state.Given{By: "ann", At: w.now, Expires: w.until}, Content: *w.state.Run.Wait.Content})
}

// waitsFor reports whether the run of the task waits for something.
func (w *ruledWorld) waitsFor(what state.WaitFor) bool {
	wait := w.state.Waits()
	return wait != nil && wait.For == what
}

func TestDecide_NoHistoryAppliesWhatIsHeldUnapprovedExpiredOrOutsideItsWindow(t *testing.T) {
	halfHours, err := window.Window{Kind: window.Allow, Schedule: "0 * * * *", Duration: 30 * time.Minute, TimeZone: "UTC"}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := &ruledWorld{task: webTask(), now: noon, consul: "c0", remotely: rapid.Bool().Draw(t, "runs go on elsewhere")}
		if rapid.Bool().Draw(t, "windows") {
			w.task.Windows = []window.Window{halfHours}
		}
		if rapid.Bool().Draw(t, "plans are judged") {
			w.task.Approval = rules.Spec{Rule: rules.Always}
		}
		skipUnless := func(t *rapid.T, is bool) {
			if !is {
				t.Skip("not now")
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"Consul changes": func(t *rapid.T) {
				w.consul = fmt.Sprintf("c%d", rapid.IntRange(0, 3).Draw(t, "data"))
				w.tick(t, rapid.Bool().Draw(t, "seen"))
			},
			"tick": func(t *rapid.T) { w.tick(t, rapid.Bool().Draw(t, "read")) },
			"time passes": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "seconds")) * time.Second)
			},
			"somebody requests a run": func(t *rapid.T) { w.force = "somebody"; w.tick(t, true) },
			"somebody holds the task": func(t *rapid.T) { w.state.OnHold = &state.OnHold{By: "ann", At: w.now}; w.tick(t, false) },
			"somebody pauses":         func(*rapid.T) { w.paused = &state.Paused{By: "ann", Since: w.now} },
			"somebody resumes":        func(*rapid.T) { w.paused = nil },
			"somebody releases it":    func(t *rapid.T) { w.state.OnHold = nil },
			"the run waits": func(t *rapid.T) {
				skipUnless(t, w.state.Run != nil && w.state.Waits() == nil)
				w.wait(rapid.SampledFrom([]state.WaitFor{state.WaitApproval, state.WaitWindow}).Draw(t, "for"))
			},
			"the remote run is created": func(t *rapid.T) {
				skipUnless(t, w.remotely && w.state.Run != nil && w.state.Waits() == nil)
				w.wait(rapid.SampledFrom([]state.WaitFor{state.WaitRemotePlan, state.WaitRemote}).Draw(t, "for"))
			},
			"the remote run goes on": func(t *rapid.T) {
				skipUnless(t, w.remotely && w.state.Waits() != nil)
				phases := []state.RemotePhase{state.RemotePlanning, state.RemoteReady, state.RemoteApplying, state.RemoteEnded}
				w.remote = rapid.SampledFrom(phases[slices.Index(phases, w.remote):]).Draw(t, "now") // it never goes back
			},
			"the run ends": func(t *rapid.T) {
				skipUnless(t, w.state.Run != nil && w.state.Waits() == nil)
				w.end(t, rapid.SampledFrom([]state.RunState{state.RunSucceeded, state.RunFailed, state.RunInterrupted, state.RunLost}).Draw(t, "as"))
			},
			"somebody approves": func(t *rapid.T) {
				skipUnless(t, w.waitsFor(state.WaitApproval))
				w.approve(time.Duration(rapid.IntRange(1, 3000).Draw(t, "expires")) * time.Second)
			},
			"somebody approves what waited before": func(t *rapid.T) {
				skipUnless(t, w.waitsFor(state.WaitApproval))
				w.approved = false
				w.resume(&state.Approval{Given: state.Given{By: "ann", At: w.now}, Content: state.Content{Definition: "def", Input: "c9", Plan: "plan"}})
			},
			"somebody resumes the run": func(t *rapid.T) {
				skipUnless(t, w.waitsFor(state.WaitApproval))
				w.approved = false
				w.resume(nil)
			},
			"somebody rejects": func(t *rapid.T) {
				skipUnless(t, w.waitsFor(state.WaitApproval))
				w.end(t, state.RunCancelled)
			},
			"Consul is replaced": func(*rapid.T) { w.replaced = true },
			"the data is back":   func(*rapid.T) { w.replaced = false },
			"the rules change":   func(t *rapid.T) { w.task.Guard.MinEntries++ },
		})

		// People release and approve everything: within a few steps all is applied.
		w.state.OnHold, w.force, w.replaced, w.paused = nil, "somebody", false, nil
		for range 60 {
			if w.waitsFor(state.WaitApproval) {
				w.approve(24 * time.Hour)
			}
			w.remote = state.RemoteEnded
			w.tick(t, true)
			if w.state.Run != nil && w.state.Waits() == nil {
				w.end(t, state.RunSucceeded)
			}
			w.now = w.now.Add(max(time.Second, w.state.Due.Sub(w.now)))
		}
		if w.state.Applied.Digest != w.consul || w.state.Run != nil || w.state.GivenUp() != nil {
			t.Fatalf("Consul shows %s, applied is %s: %+v", w.consul, w.state.Applied.Digest, w.state.Reason)
		}
	})
}

// waitsSince is the state of a scheduled task whose run has waited with a plan since then.
func waitsSince(at time.Time) state.Task {
	return with(applied(), func(s *state.Task) {
		s.Observed.Digest, s.Scheduled, s.Attempted.Observed = "B", at, "B"
		s.Run = &state.LiveRun{ID: "r1", Input: "B", Wait: &state.Wait{For: state.WaitApproval, Since: at, Content: &state.Content{Input: "B"}}}
	})
}

func TestDecide_ScheduleReplacesThePlanThatWaitsIfTheInputHasChanged(t *testing.T) {
	for _, tt := range []struct {
		name     string
		observed string
		since    time.Time
		action   Action
		due      time.Time
	}{
		{"the schedule is not due", "C", noon, Wait, noon.Add(time.Hour)},
		{"the schedule is due", "C", noon.Add(-time.Minute), End, noon},
		{"it is due, and the input went back to what is applied", "A", noon.Add(-time.Minute), End, noon},
		{"it is due, and the input is as planned", "B", noon.Add(-time.Minute), Wait, time.Time{}},
	} {
		d := Decide([]Input{{Task: hourlyTask(), Definition: "def", State: waitsSince(tt.since), Reading: Reading{Observed: &Observed{Digest: tt.observed}}}}, noon)[0]
		if d.Action != tt.action || !d.State.Due.Equal(tt.due) {
			t.Errorf("%s: got action %v, due %s (%s), want %v, due %s", tt.name, d.Action, d.State.Due, d.Reason.Text, tt.action, tt.due)
		}
	}
}
