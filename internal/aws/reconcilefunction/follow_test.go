package reconcilefunction

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

const scheduled = `{"mode":"reconcile","window":true}`

// following returns a process whose schedule is a minute.
func (s *stack) following(r *remote) *Handler {
	h := s.elsewhere(r)
	h.schedule = time.Minute
	return h
}

func TestFollow_InvocationOfTheScheduleTicksWhenARemoteRunComesFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning}
		h := s.following(r)
		planned, applied := time.Now().Add(20*time.Second+200*time.Millisecond), time.Now().Add(40*time.Second+700*time.Millisecond)
		go func() {
			time.Sleep(time.Until(planned))
			r.comeTo(state.RemoteReady)
			time.Sleep(time.Until(applied))
			r.comeTo(state.RemoteEnded)
		}()
		if _, err := s.within(15*time.Minute, h, scheduled); err != nil {
			t.Fatal(err)
		}
		run := s.run("web")
		if late := run.Ended.Sub(applied); run.State != state.RunSucceeded || late > 3*time.Second {
			t.Errorf("%s %s, %s later", run.State, run.Error, late)
		}
		if time.Since(applied) > 3*time.Second {
			t.Errorf("it follows for %s although nothing is left", time.Since(applied))
		}
		if r.polls > 5 {
			t.Errorf("%d lists of all runs", r.polls)
		}
	})
}

func TestFollow_EndsWhenTheNextInvocationOfTheScheduleHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning}
		h := s.following(r)
		for name, payload := range map[string]string{"the first": scheduled, "a later one, idle": scheduled} {
			began := time.Now()
			if _, err := s.within(15*time.Minute, h, payload); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < time.Minute || took > time.Minute+2*overlap {
				t.Errorf("%s: it took %s", name, took)
			}
		}
	})
}

func TestFollow_RunThatWaitsForHoursIsPolledByTicksOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning}
		h := s.following(r)
		s.must(h, schedule)
		time.Sleep(followFor + time.Minute)
		began := time.Now()
		if _, err := s.within(15*time.Minute, h, scheduled); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		r.comeTo(state.RemoteEnded)
		if _, err := s.within(15*time.Minute, h, scheduled); err != nil {
			t.Fatal(err)
		}
		if run := s.run("web"); run.State != state.RunSucceeded {
			t.Errorf("%s %s", run.State, run.Error)
		}
	})
}

func TestFollow_OtherInvocationsAnswerAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning}
		h := s.following(r)
		for _, payload := range []string{schedule, `{"mode":"once"}`, due, `{"mode":"reconcile","notified":true}`} {
			began := time.Now()
			if _, err := s.within(15*time.Minute, h, payload); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: it took %s", payload, took)
			}
		}
	})
}

func TestFollow_ANewProcessFollowsWhatAnotherOneBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning}
		s.must(s.following(r), schedule)
		h := s.following(r)
		go func() {
			time.Sleep(31 * time.Second)
			r.comeTo(state.RemoteEnded)
		}()
		if _, err := s.within(15*time.Minute, h, scheduled); err != nil {
			t.Fatal(err)
		}
		if run := s.run("web"); run.State != state.RunSucceeded {
			t.Errorf("%s %s", run.State, run.Error)
		}
	})
}
