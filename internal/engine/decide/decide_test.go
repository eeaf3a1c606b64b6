package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// noon lies in the future: the store removes what expired by the real clock.
var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

// cameAPI is a change.
var cameAPI = &state.EntryChanges{Added: 1, Entries: []state.EntryChange{
	{Action: state.EntryAdded, Name: "api-1.node.dc1", Group: "web", ID: "api-1", Address: "10.0.0.1:80"}}}

// keptRemoved is how long the records of a removed task are kept.
const keptRemoved = 30 * 24 * time.Hour

func webTask() *config.Task {
	return &config.Task{Name: "web", Enabled: true,
		Condition:    config.Condition{Spec: condition.Services{{Names: []string{"web"}}}},
		BufferPeriod: config.BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 20 * time.Second}}
}

func hourlyTask() *config.Task {
	return &config.Task{Name: "hourly", Enabled: true,
		Condition: config.Condition{Spec: condition.Schedule{Cron: "0 * * * *"}}}
}

// applied is the state of a task that applied digest "A" an hour ago.
func applied() state.Task {
	at := noon.Add(-time.Hour)
	return state.Task{Applied: state.Applied{Definition: "def", Digest: "A", At: at}, Observed: state.Observed{Digest: "A", At: at}, Attempted: state.Attempt{Definition: "def", Observed: "A"}, Requests: state.Requests{Scheduled: at}}
}

func with(s state.Task, change func(*state.Task)) state.Task {
	change(&s)
	return s
}

func TestDecide_GivesTheReason(t *testing.T) {
	disabled := webTask()
	disabled.Enabled = false
	unbuffered := webTask()
	unbuffered.BufferPeriod = config.BufferPeriod{}
	once := &config.Task{Name: "once", Enabled: true}
	yearly := hourlyTask()
	yearly.Condition.Spec = condition.Schedule{Cron: "0 3 1 1 *"}
	newYear := time.Date(noon.Year()+1, 1, 1, 3, 0, 0, 0, noon.Location())
	live := &state.LiveRun{ID: "r1", Launch: "l1", Created: noon.Add(-time.Minute)}
	lost := &state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunLost, Times: state.Times{Ended: noon}, Work: state.Work{Error: "out of memory"}}
	b := &Observed{Digest: "B", Entries: cameAPI}

	type test struct {
		name   string
		in     Input
		action Action
		kind   state.ReasonCode
		text   string
		due    time.Time
	}
	tests := []test{
		{"a task that was never applied runs at once, without buffering",
			Input{Task: webTask(), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Run, state.ReasonFirst, "never been applied", time.Time{}},
		{"nothing happens while nothing changes",
			Input{Task: webTask(), State: applied()}, Wait, state.ReasonUnchanged, "nothing changed", time.Time{}},
		{"a condition read again and found the same triggers nothing",
			Input{Task: webTask(), State: applied(), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Wait, state.ReasonUnchanged, "nothing changed", time.Time{}},
		{"a change waits for the buffer period",
			Input{Task: webTask(), State: applied(), Reading: Reading{Observed: b}}, Wait, state.ReasonBuffering, "buffering until 2086-03-14T12:00:05Z: web: +api-1 (10.0.0.1:80)", noon.Add(5 * time.Second)},
		{"a change runs at once without a buffer period",
			Input{Task: unbuffered, State: applied(), Reading: Reading{Observed: b}}, Run, state.ReasonChanged, "web: +api-1 (10.0.0.1:80)", time.Time{}},
		{"a change that has settled runs",
			Input{Task: webTask(), State: with(applied(), func(s *state.Task) {
				s.Observed.Digest = "B"
				s.Pending = &state.Pending{First: noon.Add(-5 * time.Second), Latest: noon.Add(-5 * time.Second), Entries: cameAPI}
			})}, Run, state.ReasonChanged, "api-1", time.Time{}},
		{"a change that keeps moving runs at the maximum of the buffer period",
			Input{Task: webTask(), Reading: Reading{Observed: b}, State: with(applied(), func(s *state.Task) {
				s.Observed.Digest = "C"
				s.Pending = &state.Pending{First: noon.Add(-20 * time.Second), Latest: noon.Add(-time.Second)}
			})}, Run, state.ReasonChanged, "api-1", time.Time{}},
		{"a change that goes back to what is applied is dropped",
			Input{Task: webTask(), Reading: Reading{Observed: &Observed{Digest: "A"}}, State: with(applied(), func(s *state.Task) {
				s.Observed.Digest = "B"
				s.Pending = &state.Pending{First: noon, Latest: noon}
			})}, Wait, state.ReasonUnchanged, "nothing changed", time.Time{}},
		{"a disabled task does nothing", Input{Task: disabled, State: applied(), Reading: Reading{Observed: b}, Request: Request{Force: "x"}}, Wait, state.ReasonDisabled, "disabled", time.Time{}},
		{"a request starts no second run beside one under way",
			Input{Task: unbuffered, Reading: Reading{Observed: b}, Request: Request{Force: "x"}, State: with(applied(), func(s *state.Task) { s.Run = live })}, Wait, state.ReasonRunning, "run r1 is under way", time.Time{}},
		{"a lost run is made good at once",
			Input{Task: webTask(), Reading: Reading{Observed: &Observed{Digest: "A"}}, Dead: Dead{Lost: lost}, State: with(applied(), func(s *state.Task) { s.Run = live })}, Run, state.ReasonLost, "out of memory", time.Time{}},
		{"a task that keeps losing its runs backs off",
			Input{Task: webTask(), Reading: Reading{Observed: &Observed{Digest: "A"}}, Dead: Dead{Lost: lost}, State: with(applied(), func(s *state.Task) { s.Run, s.Failing.Count = live, 3 })},
			Wait, state.ReasonBackoff, "retry number 4", noon.Add(state.Backoff("web", 3))},
		{"a forced run needs no change", Input{Task: webTask(), State: applied(), Reading: Reading{Observed: &Observed{Digest: "A"}}, Request: Request{Force: "start"}}, Run, state.ReasonForced, "requested by start", time.Time{}},
		{"nothing is run on a partial read",
			Input{Task: webTask(), State: applied(), Request: Request{Force: "start"}, Reading: Reading{Unreadable: errors.New("read service web: no leader")}}, Wait, state.ReasonUnreadable, "no leader", time.Time{}},
		{"what cannot be run here waits, whatever is asked for",
			Input{Task: webTask(), Reading: Reading{Observed: b}, State: applied(), Request: Request{Force: "start"}, Blocked: errors.New("stat ./mod: no such file or directory")}, Wait, state.ReasonBlocked, "stat ./mod", time.Time{}},
		{"and is not run when its run was lost",
			Input{Task: webTask(), Reading: Reading{Observed: b}, State: applied(), Dead: Dead{Lost: &state.Run{ID: "r1", Task: "web"}}, Blocked: errors.New("stat ./mod")}, Wait, state.ReasonBlocked, "stat ./mod", time.Time{}},
		{"nothing is run before the condition was read", Input{Task: webTask(), Request: Request{Force: "start"}}, Wait, state.ReasonUnread, "not been read", noon},
		{"a failed task waits for its retry",
			Input{Task: webTask(), State: with(applied(), func(s *state.Task) { s.Failing.Count, s.Failing.RetryAt = 2, noon.Add(time.Second) })}, Wait, state.ReasonBackoff, "retry number 2 at 2086-03-14T12:00:01Z", noon.Add(time.Second)},
		{"a failed task is retried",
			Input{Task: webTask(), State: with(applied(), func(s *state.Task) { s.Failing.Count, s.Failing.RetryAt = 2, noon })}, Run, state.ReasonRetry, "retry number 2", time.Time{}},
		{"new input does not wait for the retry of the old",
			Input{Task: unbuffered, Reading: Reading{Observed: b}, State: with(applied(), func(s *state.Task) { s.Failing.Count, s.Failing.RetryAt = 9, noon.Add(time.Hour) })}, Run, state.ReasonChanged, "api-1", time.Time{}},
		{"a failed apply is repeated although the condition went back to what was applied before it",
			Input{Task: unbuffered, Reading: Reading{Observed: &Observed{Digest: "A"}}, State: with(applied(), func(s *state.Task) {
				s.Observed.Digest, s.Attempted, s.Failing.Count, s.Failing.RetryAt = "B", state.Attempt{Definition: "def", Observed: "B"}, 1, noon.Add(time.Hour)
			})}, Run, state.ReasonChanged, "", time.Time{}},
		{"an input that changed since the only attempt is named as the cause",
			Input{Task: unbuffered, Definition: "def", Reading: Reading{Observed: b}, State: state.Task{Attempted: state.Attempt{Definition: "def", Observed: "A"}, Failing: state.Failing{Count: 1, RetryAt: noon.Add(time.Hour)}}}, Run, state.ReasonChanged, "api-1", time.Time{}},
		{"so is a definition",
			Input{Task: unbuffered, Definition: "other", Reading: Reading{Observed: b}, State: state.Task{Attempted: state.Attempt{Definition: "def", Observed: "A"}, Failing: state.Failing{Count: 1, RetryAt: noon.Add(time.Hour)}}}, Run, state.ReasonDefinition, "definition", time.Time{}},
		{"a changed definition runs", Input{Task: webTask(), Definition: "other", Reading: Reading{Observed: &Observed{Digest: "A"}}, State: applied()}, Run, state.ReasonDefinition, "definition", time.Time{}},
		{"a task without condition runs once", Input{Task: once, Reading: Reading{Observed: &Observed{}}}, Run, state.ReasonFirst, "", time.Time{}},
		{"and never again", Input{Task: once, Reading: Reading{Observed: &Observed{}}, State: with(applied(), func(s *state.Task) { s.Observed.Digest, s.Applied.Digest = "", "" })}, Wait, state.ReasonUnchanged, "no condition", time.Time{}},
		{"a schedule that is not due waits",
			Input{Task: hourlyTask(), State: with(applied(), func(s *state.Task) { s.Scheduled = noon })}, Wait, state.ReasonUnchanged, "next scheduled at 2086-03-14T13:00:00Z", noon.Add(time.Hour)},
		{"a schedule that is due on another day says which",
			Input{Task: yearly, State: with(applied(), func(s *state.Task) { s.Scheduled = noon })}, Wait, state.ReasonUnchanged, "next scheduled at " + newYear.Format(time.RFC3339), newYear},
		{"a schedule that is due applies what changed",
			Input{Task: hourlyTask(), Reading: Reading{Observed: b}, State: with(applied(), func(s *state.Task) { s.Scheduled = noon.Add(-time.Minute) })}, Run, state.ReasonSchedule, "scheduled for 2086-03-14T12:00:00Z: web: +api-1", time.Time{}},
		{"a schedule that is due with nothing to apply is noted",
			Input{Task: hourlyTask(), Reading: Reading{Observed: &Observed{Digest: "A"}}, State: with(applied(), func(s *state.Task) { s.Scheduled = noon.Add(-time.Minute) })}, Note, state.ReasonUnchanged, "nothing to apply", noon.Add(time.Hour)},
		{"a change alone does not run a scheduled task",
			Input{Task: hourlyTask(), Reading: Reading{Observed: b}, State: with(applied(), func(s *state.Task) { s.Scheduled = noon })}, Wait, state.ReasonUnchanged, "next scheduled", noon.Add(time.Hour)},
		{"a scheduled task that failed is retried before its next time",
			Input{Task: hourlyTask(), State: with(applied(), func(s *state.Task) { s.Scheduled, s.Failing.Count, s.Failing.RetryAt = noon, 1, noon })}, Run, state.ReasonRetry, "retry number 1", time.Time{}},
	}
	interrupted := with(applied(), func(s *state.Task) {
		s.Ended.Last = &state.Result{Run: "r1", State: state.RunInterrupted, Error: "Terrapulse was told to stop"}
	})
	for _, task := range []*config.Task{webTask(), hourlyTask(), once} {
		tests = append(tests, test{"an interrupted run is followed by another at once, although nothing changed: " + fmt.Sprintf("%T", task.Condition.Spec),
			Input{Task: task, State: interrupted}, Run, state.ReasonInterrupted, "told to stop", time.Time{}})
	}
	cancelled := with(applied(), func(s *state.Task) {
		s.Observed.Digest, s.Attempted = "B", state.Attempt{Definition: "def", Observed: "B"}
		s.Stop = &state.Stop{Code: state.ReasonCancelled, Why: "cancelled by an operator", For: s.Attempted}
		s.Ended.Last = &state.Result{Run: "r1", State: state.RunCancelled}
	})
	died := with(applied(), func(s *state.Task) {
		s.Observed.Digest, s.Attempted, s.Run = "B", state.Attempt{Definition: "def", Observed: "B"}, live
	})
	cancelledAndLost := *lost
	cancelledAndLost.Cancel, cancelledAndLost.Error = "an operator", "out of memory"
	tests = append(tests, []test{
		{"a cancelled run is not repeated",
			Input{Task: webTask(), State: cancelled, Reading: Reading{Observed: b}}, Wait, state.ReasonCancelled, "cancelled by an operator", time.Time{}},
		{"another input runs a task whose run was cancelled",
			Input{Task: unbuffered, State: cancelled, Reading: Reading{Observed: &Observed{Digest: "C"}}}, Run, state.ReasonChanged, "", time.Time{}},
		{"an input that goes back to what is applied runs a task whose run was cancelled half-way",
			Input{Task: unbuffered, State: cancelled, Reading: Reading{Observed: &Observed{Digest: "A"}}}, Run, state.ReasonChanged, "its latest run did not apply everything", time.Time{}},
		{"another definition runs a task whose run was cancelled",
			Input{Task: webTask(), Definition: "def2", State: cancelled, Reading: Reading{Observed: b}}, Run, state.ReasonDefinition, "", time.Time{}},
		{"a request runs a task whose run was cancelled",
			Input{Task: webTask(), State: cancelled, Request: Request{Force: "the API"}}, Run, state.ReasonForced, "the API", time.Time{}},
		{"the schedule runs a task whose run was cancelled",
			Input{Task: hourlyTask(), State: with(cancelled, func(s *state.Task) { s.Scheduled = noon.Add(-time.Minute) })}, Run, state.ReasonSchedule, "", time.Time{}},
		{"a cancelled run whose runner died is not repeated",
			Input{Task: webTask(), State: died, Reading: Reading{Observed: b}, Dead: Dead{Lost: &cancelledAndLost}}, Wait, state.ReasonCancelled, "out of memory", time.Time{}},
	}...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.in.Definition == "" {
				tt.in.Definition = "def"
			}
			d := Decide([]Input{tt.in}, noon)[0]
			if d.Action != tt.action || d.Reason.Code != tt.kind {
				t.Fatalf("got action %v because of %q (%s), want %v because of %q", d.Action, d.Reason.Code, d.Reason.Text, tt.action, tt.kind)
			}
			if !strings.Contains(d.Reason.Text, tt.text) {
				t.Errorf("the reason reads %q, want it to say %q", d.Reason.Text, tt.text)
			}
			if !d.State.Due.Equal(tt.due) {
				t.Errorf("due again at %s, want %s", d.State.Due, tt.due)
			}
		})
	}
}

func TestDecide_MissedTimesOfAScheduleAreCaughtUpOnce(t *testing.T) {
	s := with(applied(), func(s *state.Task) { s.Scheduled, s.Observed.Digest = noon.Add(-50*time.Hour), "B" })
	in := Input{Task: hourlyTask(), Definition: "def", State: s, Reading: Reading{Observed: &Observed{Digest: "B"}}}
	first := Decide([]Input{in}, noon)[0]
	if first.Action != Run || first.Reason.Code != state.ReasonSchedule {
		t.Fatalf("50 missed times: got %v (%s), want one run", first.Action, first.Reason.Text)
	}
	in.State = first.State
	in.State.Applied.Digest = "B"
	if again := Decide([]Input{in}, noon.Add(time.Second))[0]; again.Action != Wait {
		t.Errorf("a second later: got %v (%s), want to wait for the next time", again.Action, again.Reason.Text)
	}
}

func TestBackoff_GrowsTo15Minutes(t *testing.T) {
	last := time.Duration(0)
	for n := 1; n < 100; n++ {
		wait := state.Backoff("web", n)
		if wait < last || wait > state.MaxBackoff {
			t.Fatalf("attempt %d waits %s after %s", n, wait, last)
		}
		last = wait
	}
	if last != state.MaxBackoff {
		t.Errorf("the longest wait is %s, want %s", last, state.MaxBackoff)
	}
}

// world is one task with everything around it that a decision depends on.
type world struct {
	task    *config.Task
	state   state.Task
	now     time.Time
	consul  string     // digest of what Consul says
	changed time.Time  // when a tick last saw other data
	run     *state.Run // under way
	dead    bool       // the run's runner is dead
	blocked error
	refused bool   // a rule beside those of the program refuses every run
	force   string // who requests a run at the next tick
	next    int
}

// decide is Decide with one rule more. Whatever rule refuses a run, it is not
// decided: no trigger skips the list, and no order of the rules hides one.
func (w *world) decide(t *rapid.T, in Input) Decision {
	rules := append(slices.Clone(admission), func(*decider, trigger) *hold {
		if !w.refused {
			return nil
		}
		return refuse("refused", time.Time{}, "the rule of the test refuses")
	})
	d := Order{}.decideBy(rules, []Input{in}, w.now)[0]
	if d.Action == Run {
		again := decider{Input: in, now: w.now, state: in.State}
		again.note()
		why := again.why()
		for _, refuses := range rules {
			if h := refuses(&again, why); h != nil {
				t.Fatalf("a run because of %+v, which a rule refuses: %+v", d.Reason, h.reason)
			}
		}
	}
	return d
}

// tick decides as the loop would, with views read or not.
func (w *world) tick(t *rapid.T, readable, read bool) Decision {
	in := Input{Task: w.task, Definition: "def", State: w.state, Blocked: w.blocked, Request: Request{Force: w.force}}
	w.force = ""
	if w.dead {
		lost := *w.run
		lost.State, lost.Ended, lost.Error = state.RunLost, w.now, "killed"
		in.Lost = &lost
	}
	s := w.state
	if read || !s.Observed.Current() || in.Lost != nil || clock.Reached(s.Due, w.now) {
		if readable {
			in.Observed = &Observed{Digest: w.consul, Entries: cameAPI}
		} else {
			in.Unreadable = errors.New("no leader")
		}
	}
	if in.Observed != nil && in.Observed.Digest != s.Observed.Digest {
		w.changed = w.now
	}
	before := in.State
	d := w.decide(t, in)
	if diff := cmp.Diff(before, in.State); diff != "" {
		t.Fatalf("the decision changed its input: %s", diff)
	}
	w.state = d.State
	if d.Lost != nil {
		w.run, w.dead = nil, false
	}
	if d.Action != Run {
		return d
	}
	switch {
	case w.run != nil:
		t.Fatalf("a second run while %s lives: %+v", w.run.ID, d.Reason)
	case in.Unreadable != nil:
		t.Fatalf("a run on a partial read: %+v", d.Reason)
	case in.Blocked != nil:
		t.Fatalf("a run that is not possible here: %+v", d.Reason)
	case !w.task.Enabled:
		t.Fatalf("a disabled task is run: %+v", d.Reason)
	case w.refused:
		t.Fatalf("a run that a rule refuses: %+v", d.Reason)
	case d.Reason.Code == "" || d.Reason.Text == "":
		t.Fatalf("a run without a reason")
	case d.Reason.Code == state.ReasonChanged && w.now.Before(w.changed.Add(w.task.BufferPeriod.Min)) && w.now.Before(before.Pending.First.Add(w.task.BufferPeriod.Max)):
		t.Fatalf("run at %s, the condition changed at %s: before its buffer period was over", w.now, w.changed)
	}
	w.next++
	w.run = &state.Run{ID: fmt.Sprintf("r%d", w.next), Task: w.task.Name}
	w.state.Run = &state.LiveRun{ID: w.run.ID, Created: w.now}
	return d
}

// end ends the run under way with an outcome.
func (w *world) end(t *rapid.T, outcome state.RunState) {
	run := *w.run
	run.State, run.Ended = outcome, w.now
	if outcome == state.RunSucceeded {
		run.Digest = w.consul // a fresh snapshot
	}
	was := w.state.Applied.Digest
	w.state, _ = w.state.Conclude(run, "def")
	if outcome != state.RunSucceeded && w.state.Applied.Digest != was {
		t.Fatalf("a run that %s changed what counts as applied", outcome)
	}
	w.run, w.dead = nil, false
}

func TestDecide_NoHistoryLosesAChangeDoublesARunOrSkipsARule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{task: webTask(), now: noon, consul: "c0"}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			w.task.BufferPeriod = config.BufferPeriod{}
		case 1:
			w.task = hourlyTask()
		}
		changes := 0
		t.Repeat(map[string]func(*rapid.T){
			"Consul changes": func(t *rapid.T) {
				changes++
				w.consul = fmt.Sprintf("c%d", changes%5)
				w.tick(t, true, true) // the gate moved
			},
			"Consul changes unseen": func(t *rapid.T) {
				changes++
				w.consul = fmt.Sprintf("c%d", changes%5)
				w.tick(t, false, true)
				w.state.Due = w.now // the loop keeps reading until it can
			},
			"tick":           func(t *rapid.T) { w.tick(t, true, false) },
			"tick in outage": func(t *rapid.T) { w.tick(t, false, rapid.Bool().Draw(t, "read")) },
			"time passes": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "seconds")) * time.Second)
			},
			"a moment passes": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms")) * time.Millisecond)
			},
			"disable":                    func(t *rapid.T) { w.task.Enabled = false; w.tick(t, true, false) },
			"enable":                     func(t *rapid.T) { w.task.Enabled = true },
			"block":                      func(t *rapid.T) { w.blocked = errors.New("no module") },
			"unblock":                    func(t *rapid.T) { w.blocked = nil },
			"a rule refuses":             func(t *rapid.T) { w.refused = true },
			"the rule lets runs pass":    func(t *rapid.T) { w.refused = false },
			"somebody requests a run":    func(t *rapid.T) { w.force = "somebody"; w.tick(t, true, true) },
			"an instance takes the lead": func(t *rapid.T) { w.force = "start"; w.tick(t, rapid.Bool().Draw(t, "readable"), true) },
			"run ends": func(t *rapid.T) {
				if w.run == nil || w.dead {
					t.Skip("no run")
				}
				w.end(t, rapid.SampledFrom([]state.RunState{state.RunSucceeded, state.RunFailed, state.RunInterrupted}).Draw(t, "outcome"))
			},
			"runner dies": func(t *rapid.T) {
				if w.run == nil {
					t.Skip("no run")
				}
				w.dead = true
			},
		})

		// The faults end: within a bounded number of steps all is applied.
		w.task.Enabled, w.blocked, w.refused = true, nil, false
		w.state.Observed.Recheck = true // the loop's full read
		for range 50 {
			w.tick(t, true, false)
			if w.run != nil && !w.dead {
				w.end(t, state.RunSucceeded)
			}
			w.now = w.now.Add(max(time.Second, w.state.Due.Sub(w.now)))
		}
		if w.state.Applied.Digest != w.consul || w.state.Failing.Count != 0 || w.run != nil {
			t.Fatalf("Consul says %s, applied is %s (%d failures): %+v", w.consul, w.state.Applied.Digest, w.state.Failing.Count, w.state.Reason)
		}
		if len(w.state.Ended.IDs) > state.History {
			t.Fatalf("the history holds %d runs", len(w.state.Ended.IDs))
		}
	})
}

func TestDecide_UnreadableTaskIsMarkedUntilItIsRead(t *testing.T) {
	denied, since := errors.New("permission denied"), noon.Add(-time.Minute)
	disabled := webTask()
	disabled.Enabled = false
	marked := with(applied(), func(s *state.Task) { s.Observed.UnreadableSince = since })
	for _, tt := range []struct {
		name string
		in   Input
		want time.Time
	}{
		{"it becomes unreadable", Input{Task: webTask(), State: applied(), Reading: Reading{Unreadable: denied}}, noon},
		{"it stays unreadable", Input{Task: webTask(), State: marked, Reading: Reading{Unreadable: denied}}, since},
		{"it is not read in this tick", Input{Task: webTask(), State: marked}, since},
		{"it is read", Input{Task: webTask(), State: marked, Reading: Reading{Observed: &Observed{Digest: "A"}}}, time.Time{}},
		{"it is disabled", Input{Task: disabled, State: marked}, time.Time{}},
		{"it is removed", Input{Task: webTask(), Removal: Removal{Removed: true}, State: marked}, time.Time{}},
		{"no gate can be read", Input{Task: webTask(), State: applied(), Reading: Reading{Unreadable: denied, ConsulUnreachable: true}}, time.Time{}},
		{"it becomes unreadable while it runs", Input{Task: webTask(), Reading: Reading{Unreadable: denied},
			State: with(applied(), func(s *state.Task) { s.Run = &state.LiveRun{ID: "r1"} })}, noon},
	} {
		tt.in.Definition = "def"
		if got := Decide([]Input{tt.in}, noon)[0].State.Observed.UnreadableSince; !got.Equal(tt.want) {
			t.Errorf("%s: unreadable since %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestDecide_RunAfterASupersededOneReplacesIt(t *testing.T) {
	superseded, _ := applied().Conclude(state.Run{ID: "r1", Task: "web", State: state.RunSuperseded}, "")
	in := Input{Task: webTask(), Definition: "def", State: superseded, Reading: Reading{Observed: &Observed{Digest: "A"}}}
	d := Decide([]Input{in}, noon)[0]
	if d.Action != Run || !d.Replaces || d.State.Forced.Replaces {
		t.Errorf("got %+v, want a run that replaces the superseded one", d)
	}
	in.Force = "somebody"
	if d = Decide([]Input{in}, noon)[0]; d.Action != Run || d.Replaces {
		t.Errorf("got %+v, want the run that somebody requested", d)
	}
}
