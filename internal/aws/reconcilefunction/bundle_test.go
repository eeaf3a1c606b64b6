package reconcilefunction

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestReconcile_NewBundleIsInForceInEveryProcess(t *testing.T) {
	s := newStack(t, "web")
	first, second := s.process(), s.process()
	s.must(first, schedule)
	s.must(second, schedule)
	s.push("b2", "web", "db")
	event := `{"version":"0","source":"aws.s3","detail-type":"Object Created","detail":{"bucket":{"name":"b"},"object":{"key":"p/current"}}}`
	if answer := s.must(first, event); answer.Bundle != "b2" || len(answer.Runs) != 1 || answer.Runs[0].Task != "db" {
		t.Fatalf("told of it: %+v", answer)
	}
	if s.started[1].Bundle != "b2" {
		t.Errorf("launched with bundle %s", s.started[1].Bundle)
	}
	if answer := s.must(second, schedule); answer.Bundle != "b2" {
		t.Errorf("not told of it: %+v", answer)
	}
	if got := s.record().Bundle; got != "b2" {
		t.Errorf("in force: %s", got)
	}
}

func TestReconcile_FindsANewBundleWithoutAnEvent(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	s.must(h, schedule)
	s.push("b2", "db")
	h.bundles.Now = func() time.Time { return time.Now().Add(5 * time.Minute) }
	answer := s.must(h, schedule)
	if answer.Bundle != "b2" {
		t.Fatalf("%+v", answer)
	}
	for _, d := range answer.Decisions {
		if d.Task == "web" && d.Reason.Code != state.ReasonRunning && d.Reason.Code != state.ReasonRemoved {
			t.Errorf("a task that is gone: %+v", d)
		}
	}
}

func TestReconcile_InvalidBundleIsNeverInForce(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	s.must(h, schedule)
	s.end(state.RunSucceeded)
	s.pointer, s.wrong["b2"] = "b2", "web.yaml:3: task \"web\" has no module"
	s.measured()
	for name, p := range map[string]*Handler{"warm": h, "cold": s.process()} {
		answer := s.must(p, `{"mode":"reconcile","refresh":true}`)
		if answer.Bundle != "b1" || !strings.Contains(answer.Problem, "web.yaml:3") {
			t.Errorf("%s: %+v", name, answer)
		}
		if rec := s.record(); rec.Bundle != "b1" || rec.Refused == nil || rec.Refused.Bundle != "b2" {
			t.Errorf("%s: the record says %+v", name, rec)
		}
		if got := s.measured()["BundleRefused"]; got != 1 {
			t.Errorf("%s: measured %v", name, got)
		}
	}
	s.digest = "B" // the last good bundle goes on working
	if answer := s.must(h, schedule); len(answer.Runs) != 1 {
		t.Errorf("%+v", answer)
	}
	delete(s.wrong, "b2") // what was damaged was put right in its place
	s.push("b2", "web")
	if answer := s.must(h, `{"mode":"reconcile","refresh":true}`); answer.Bundle != "b2" || answer.Problem != "" {
		t.Errorf("pushed again: %+v", answer)
	}
	s.push("b3", "web", "db")
	if answer := s.must(h, `{"mode":"reconcile","refresh":true}`); answer.Bundle != "b3" || answer.Problem != "" || s.record().Refused != nil {
		t.Errorf("put right: %+v, %+v", answer, s.record())
	}
}

func TestReconcile_WithoutAValidBundle(t *testing.T) {
	s := newStack(t)
	for _, manual := range []string{`{"mode":"once"}`, `{"mode":"inspect"}`} {
		if _, err := s.invoke(s.process(), manual); err == nil || !strings.Contains(err.Error(), "terrapulse bundle push") {
			t.Errorf("%s, and nothing was pushed: %v", manual, err)
		}
	}
	s.measured()
	s.pointer, s.wrong["b1"] = "b1", "web.yaml:3: nonsense"
	if answer, err := s.invoke(s.process(), schedule); err != nil || !strings.Contains(answer.Problem, "web.yaml:3: nonsense") {
		t.Errorf("the first is wrong: %+v, %v", answer, err)
	}
	if rec := s.record(); rec.Refused == nil || rec.Refused.Bundle != "b1" {
		t.Errorf("status would not say so: %+v", rec)
	}
	if got := s.measured(); got["BundleRefused"] != 1 || got["GoodTicks"] != 0 {
		t.Errorf("measured %v", got)
	}
}

func TestReconcile_StackToWhichNothingWasPushedRaisesNoAlarm(t *testing.T) {
	s := newStack(t)
	h := s.process()
	h.engine.common.BeginsPaused = true
	for range 2 {
		if answer := s.must(h, schedule); !strings.Contains(answer.Skipped, "terrapulse bundle push") || answer.Problem != "" {
			t.Errorf("%+v", answer)
		}
	}
	if got := s.measured(); got["BundleRefused"] != 0 || got["GoodTicks"] != 2 {
		t.Errorf("measured %v", got)
	}
	if rec := s.record(); rec.Paused == nil {
		t.Error("a new stack does not begin paused")
	}
	s.push("b1", "web")
	if answer := s.must(h, `{"mode":"reconcile","refresh":true}`); len(answer.Runs) != 0 || answer.Paused == nil {
		t.Errorf("the first bundle: %+v", answer)
	}
	if got := s.measured(); got["Paused"] != 1 || got["GoodTicks"] != 1 {
		t.Errorf("measured %v", got)
	}
}

func TestReconcile_PushedBundleWaitsForTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		h := s.process()
		s.must(h, schedule)
		s.end(state.RunSucceeded)
		s.must(h, schedule)
		s.push("b2", "web", "db")
		s.leads("another", 2*time.Second)
		if answer := s.must(h, `{"mode":"reconcile","refresh":true}`); answer.Skipped != "" || answer.Bundle != "b2" || s.record().Bundle != "b2" {
			t.Errorf("%+v; in force is %s", answer, s.record().Bundle)
		}
	})
}

func TestReconcile_ContinuesWithoutTheBucket(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	s.must(h, schedule)
	s.bucket = errors.New("access denied")
	s.digest = "B"
	s.end(state.RunSucceeded)
	if answer := s.must(h, `{"mode":"reconcile","refresh":true}`); len(answer.Decisions) != 1 {
		t.Errorf("%+v", answer)
	}
	s.objects = s.bucket
	if _, err := s.invoke(s.process(), schedule); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("a process that has never read it: %v", err)
	}
}

// Two warm processes, one of which has read only the previous bundle.
func TestReconcile_OlderBundleDoesNotReplaceANewerOne(t *testing.T) {
	s := newStack(t, "web", "old")
	first, second := s.process(), s.process()
	s.must(first, schedule)
	s.must(second, schedule)
	s.end(state.RunSucceeded)
	s.must(first, `{"mode":"reconcile","ended":true}`)
	s.push("b2", "web")
	s.configs["b2"].Tasks[0].Module = "./other"
	s.must(first, `{"mode":"reconcile","refresh":true}`)
	s.end(state.RunSucceeded)
	s.must(first, `{"mode":"reconcile","ended":true}`)
	launches := len(s.started)

	s.bucket = errors.New("SlowDown")
	for n := range 4 {
		answer := s.must([]*Handler{second, first}[n%2], schedule)
		if answer.Bundle != "b2" || s.record().Bundle != "b2" {
			t.Errorf("tick %d works with bundle %s, and %s is in force", n, answer.Bundle, s.record().Bundle)
		}
		if n == 0 && !strings.Contains(answer.Problem, "SlowDown") {
			t.Errorf("the answer does not say why the pointer was not read: %+v", answer)
		}
	}
	if len(s.started) != launches {
		t.Errorf("launched %+v", s.started[launches:])
	}

	s.push("b3", "web")
	third := s.process() // reads the pointer to b3, but cannot read that bundle
	s.bucket, s.objects = nil, errors.New("SlowDown")
	if _, err := s.invoke(third, schedule); err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("a process that can read no bundle: %v", err)
	}
	if answer := s.must(first, `{"mode":"reconcile","refresh":true}`); answer.Bundle != "b2" {
		t.Errorf("a warm process works with %+v", answer)
	}
	s.objects = nil
	if answer := s.must(first, `{"mode":"reconcile","refresh":true}`); answer.Bundle != "b3" || answer.Problem != "" || s.record().Bundle != "b3" {
		t.Errorf("the bucket answers again: %+v", answer)
	}
}

func TestReconcile_ContinuesWithoutThePointer(t *testing.T) {
	s := newStack(t, "web")
	warm := s.process()
	s.must(warm, schedule)
	s.end(state.RunSucceeded)
	s.pointer = ""
	for name, h := range map[string]*Handler{"warm": warm, "cold": s.process()} {
		s.digest = name
		s.measured()
		answer := s.must(h, `{"mode":"reconcile","refresh":true}`)
		if len(answer.Runs) != 1 || answer.Bundle != "b1" || !strings.Contains(answer.Problem, "pointer to the current bundle is gone") {
			t.Errorf("%s: %+v", name, answer)
		}
		if rec := s.record(); rec.Bundle != "b1" || rec.Refused == nil || !strings.Contains(rec.Refused.Error, "terrapulse bundle push") {
			t.Errorf("%s: the record says %+v", name, rec)
		}
		if got := s.measured(); got["BundleRefused"] != 1 || got["GoodTicks"] != 1 {
			t.Errorf("%s: measured %v", name, got)
		}
		for _, c := range s.must(h, `{"mode":"doctor"}`).Checks {
			if c.Name == "bundle" && (c.OK || !strings.Contains(c.Found, "b1 stays in force")) {
				t.Errorf("%s: %+v", name, c)
			}
		}
		s.pointer = "b1"
		s.end(state.RunSucceeded)
		s.pointer = ""
	}
	s.pointer = "b1"
	if answer := s.must(warm, `{"mode":"reconcile","refresh":true}`); answer.Problem != "" || s.record().Refused != nil {
		t.Errorf("the pointer is back: %+v, %+v", answer, s.record())
	}
}
