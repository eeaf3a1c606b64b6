package outbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// told concludes the runs of a task, and gathers what people hear of them.
type told struct {
	task     state.Task
	events   int
	messages []outbox.Event
}

func (b *told) ends(s state.RunState, at time.Time) {
	run := state.Run{ID: "r", Task: "web", Kind: state.KindApply, State: s, Times: state.Times{Ended: at}, Work: state.Work{Error: "exit 1"}}
	next, _ := b.task.Conclude(run, "d")
	for _, e := range outbox.OfEnd(b.task, next, run) {
		if b.events++; !e.Quiet {
			b.messages = append(b.messages, e)
		}
	}
	b.task = next
}

func (b *told) kinds() (kinds []outbox.Kind) {
	for _, e := range b.messages {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestOfEnd_FailingTaskThatWasCancelledHasRecoveredWhenItSucceeds(t *testing.T) {
	for name, then := range map[string]state.RunState{"at once": "", "after it has failed again": state.RunFailed} {
		var people told
		want := []outbox.Kind{outbox.RunFailed, outbox.RunCancelled}
		people.ends(state.RunFailed, noon)
		people.ends(state.RunFailed, noon.Add(time.Minute))
		people.ends(state.RunCancelled, noon.Add(2*time.Minute))
		if then != "" {
			people.ends(then, noon.Add(3*time.Minute))
			want = append(want, outbox.RunFailed)
		}
		people.ends(state.RunSucceeded, noon.Add(5*time.Minute))
		if got := people.kinds(); !slices.Equal(got, append(want, outbox.TaskRecovered)) {
			t.Errorf("%s: people hear %v", name, got)
			continue
		}
		if last := people.messages[len(people.messages)-1]; !last.Since.Equal(noon) {
			t.Errorf("%s: it has failed since %s", name, last.Since)
		}
		people.ends(state.RunSucceeded, noon.Add(6*time.Minute))
		if last := people.messages[len(people.messages)-1]; last.Kind != outbox.RunSucceeded {
			t.Errorf("%s: a later success is %+v", name, last)
		}
	}
}

// verifies concludes a run that has succeeded, with what came of its verification of the VIP; "" if it has none.
func (b *told) verifies(s state.VerifyState, at time.Time) {
	run := state.Run{ID: "r " + at.String(), Task: "web", Kind: state.KindApply, State: state.RunSucceeded, Times: state.Times{Ended: at}}
	if s != "" {
		run.Verification = state.NewVerification([]state.Verified{{Name: "vip", State: s, Detail: "connection refused"}})
	}
	next, _ := b.task.Conclude(run, "d")
	for _, e := range outbox.OfEnd(b.task, next, run) {
		if b.events++; !e.Quiet {
			b.messages = append(b.messages, e)
		}
	}
	b.task = next
}

func TestOfEnd_PeopleHearOnceThatATaskIsNotVerifiedAndOnceThatItIsAgain(t *testing.T) {
	const failed, interrupted, passed = state.VerifyFailed, state.VerifyInterrupted, state.VerifyPassed
	for name, tt := range map[string]struct {
		runs []state.VerifyState
		want []outbox.Kind // beside run_succeeded
	}{
		"passes":                            {[]state.VerifyState{passed, passed}, nil},
		"has none":                          {[]state.VerifyState{""}, nil},
		"fails, and passes":                 {[]state.VerifyState{failed, passed, passed}, []outbox.Kind{outbox.RunUnverified, outbox.TaskVerified}},
		"fails repeatedly":                  {[]state.VerifyState{failed, failed, failed}, []outbox.Kind{outbox.RunUnverified}},
		"fails, and the next run has none":  {[]state.VerifyState{failed, ""}, []outbox.Kind{outbox.RunUnverified, outbox.TaskVerified}},
		"is cancelled":                      {[]state.VerifyState{state.VerifyCancelled}, []outbox.Kind{outbox.RunUnverified}},
		"is interrupted, and passes":        {[]state.VerifyState{interrupted, passed}, nil},
		"is interrupted, and fails":         {[]state.VerifyState{interrupted, failed, passed}, []outbox.Kind{outbox.RunUnverified, outbox.TaskVerified}},
		"is interrupted twice":              {[]state.VerifyState{interrupted, interrupted, passed}, []outbox.Kind{outbox.RunUnverified, outbox.TaskVerified}},
		"fails, is interrupted, and passes": {[]state.VerifyState{failed, interrupted, passed}, []outbox.Kind{outbox.RunUnverified, outbox.TaskVerified}},
	} {
		var people told
		for i, s := range tt.runs {
			people.verifies(s, noon.Add(time.Duration(i)*time.Minute))
		}
		got := slices.DeleteFunc(people.kinds(), func(k outbox.Kind) bool { return k == outbox.RunSucceeded })
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: people hear %v, want %v", name, got, tt.want)
		}
		for _, e := range people.messages {
			if e.Kind == outbox.TaskVerified && !e.Since.Equal(noon) || e.Kind == outbox.RunUnverified && e.Detail == "" {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

func TestOfEnd_CancelOfATaskThatDoesNotFailIsNoFailure(t *testing.T) {
	var people told
	people.ends(state.RunCancelled, noon)
	people.ends(state.RunSucceeded, noon.Add(time.Minute))
	if got := people.kinds(); !slices.Equal(got, []outbox.Kind{outbox.RunCancelled, outbox.RunSucceeded}) {
		t.Errorf("people hear %v", got)
	}
}

// TestOfEnd_FailingTaskIsAMessageWhenItBeginsAfterAnHourAndWhenItHasRecovered concludes a failed
// run every 10 minutes, and a success after two hours.
func TestOfEnd_FailingTaskIsAMessageWhenItBeginsAfterAnHourAndWhenItHasRecovered(t *testing.T) {
	var people told
	for at := noon; at.Before(noon.Add(2 * time.Hour)); at = at.Add(10 * time.Minute) {
		people.ends(state.RunFailed, at)
	}
	people.ends(state.RunSucceeded, noon.Add(2*time.Hour))
	events, messages := people.events, people.messages
	if events != 14 || len(messages) != 3 {
		t.Fatalf("%d events, of which people get %v", events, messages)
	}
	begins, still, recovered := messages[0], messages[1], messages[2]
	if begins.Kind != outbox.RunFailed || begins.Failures != 1 || !begins.Since.IsZero() {
		t.Errorf("it begins with %+v", begins)
	}
	if still.Kind != outbox.RunFailed || still.Failures != 7 || !still.Since.Equal(noon) || !still.At.Equal(noon.Add(time.Hour)) {
		t.Errorf("after an hour: %+v", still)
	}
	if recovered.Kind != outbox.TaskRecovered || recovered.Failures != 12 || !recovered.Since.Equal(noon) || recovered.Run != "r" {
		t.Errorf("it has recovered: %+v", recovered)
	}
}

func TestEvent_PlanThatWaitsForAPersonIsAWarning(t *testing.T) {
	for wait, want := range map[state.WaitFor]slog.Level{state.WaitApproval: slog.LevelWarn, state.WaitWindow: slog.LevelInfo, state.WaitRemote: slog.LevelInfo, state.WaitRemotePlan: slog.LevelInfo, state.WaitVerify: slog.LevelInfo} {
		e := outbox.OfRun(state.Run{ID: "r", Task: "web", Kind: state.KindApply, State: state.RunWaiting, Waits: state.Waits{Wait: &state.Wait{For: wait, ID: "w1", Since: noon}}})
		if e.Level() != want {
			t.Errorf("a run that waits for %s is %s", wait, e.Level())
		}
		var logged bytes.Buffer
		if err := (outbox.Log{To: slog.New(slog.NewTextHandler(&logged, nil))}).Deliver(t.Context(), e); err != nil || !strings.Contains(logged.String(), "level="+want.String()) {
			t.Errorf("a run that waits for %s is logged as %s: %v", wait, &logged, err)
		}
		e.Kind = outbox.RunResumed
		if e.Level() != slog.LevelInfo {
			t.Errorf("a run that waited for %s and is resumed is %s", wait, e.Level())
		}
	}
}

// patient is a sink that gathers events.
type patient struct{ *sink }

func (patient) Patience() time.Duration { return 10 * time.Second }

func TestDelivery_PatientSinkGathersEvents(t *testing.T) {
	b := inMemory(t)
	people, log := patient{&sink{name: "people"}}, &sink{name: "log"}
	b.happens("first", b.now, "web")
	report, err := b.delivery(people, log).Run(t.Context())
	if err != nil || report.Left != 1 || !report.Again.Equal(noon.Add(10*time.Second)) || people.heard() != "" || log.heard() != "web:first" {
		t.Fatalf("at once: %+v, %v; people heard %q and the log %q", report, err, people.heard(), log.heard())
	}
	b.now = noon.Add(9 * time.Second)
	b.happens("second", b.now, "db")
	b.deliver(2, nil, people, log)
	b.now = noon.Add(10 * time.Second)
	if b.deliver(0, nil, people, log); people.heard() != "web:first db:second" {
		t.Errorf("after a while people heard %q", people.heard())
	}

	b.happens("third", b.now, "web")
	last := b.delivery(people, log)
	last.Last = true
	if _, err := last.Run(context.Background()); err != nil || people.heard() != "web:first db:second web:third" {
		t.Errorf("a process that ends: people heard %q, %v", people.heard(), err)
	}
}
