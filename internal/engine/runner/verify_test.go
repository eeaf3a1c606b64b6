package runner

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
)

// vip verifies a server.
func vip(url, onFailure string, within time.Duration) verify.Spec {
	return verify.Spec{Name: "vip", Enabled: true, HTTP: &verify.HTTP{URL: url, Method: "GET", Status: []string{"200-299"}},
		Within: within, Every: 10 * time.Millisecond, Timeout: 5 * time.Second, OnFailure: onFailure}
}

// verified is a task that is verified like this.
func verified(t *testing.T, apply applier, all ...verify.Spec) *fixture {
	b := newFixture(t, apply)
	b.Verify = verify.Run
	b.Config().Tasks[0].Verify = all
	return b
}

// kindsOf are the events of the outcome.
func kindsOf(t *testing.T, b *fixture) (kinds string) {
	t.Helper()
	records, err := state.ReadAll[struct{ Events []outbox.Event }](t.Context(), b.store, outbox.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		for _, e := range r.Data.Events {
			kinds += string(e.Kind) + " "
		}
	}
	return strings.TrimSpace(kinds)
}

func TestVerify_RunIsVerifiedAfterItsApply(t *testing.T) {
	var asked atomic.Int32
	applied := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !applied {
			t.Error("verified before the apply")
		}
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(server.Close)
	b := verified(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		applied = true
		return succeed(ctx, out)
	}, vip(server.URL, verify.Hold, time.Minute))
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if v := run.Verification; run.State != state.RunSucceeded || v == nil || v.State != state.VerifyPassed || v.Results[0].Attempts != 3 {
		t.Errorf("the run reads %+v", run.Verification)
	}
	if !lifecycle.Verified(task) || task.OnHold != nil || kindsOf(t, b) != "run_succeeded" {
		t.Errorf("the task reads %+v, with %s", task, kindsOf(t, b))
	}
}

func TestVerify_FailureLeavesTheTaskAppliedAndSaysSo(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	for onFailure, events := range map[string]string{verify.Report: "run_succeeded run_unverified", verify.Hold: "run_succeeded run_unverified hold_begun"} {
		b := verified(t, succeed, vip(server.URL, onFailure, 30*time.Millisecond))
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		run, task := b.stored("r1"), b.task()
		if run.State != state.RunSucceeded || task.Applied.Digest != "B" || task.Failing.Count != 0 {
			t.Errorf("%s: it is applied: %+v", onFailure, task)
		}
		if run.Verification.State != state.VerifyFailed || !strings.Contains(task.Applied.Unverified.Text, "vip failed: GET "+server.URL+" answered 404") {
			t.Errorf("%s: %+v", onFailure, task.Applied.Unverified)
		}
		if held := task.OnHold; (held != nil) != (onFailure == verify.Hold) || held != nil && held.By != "verification vip" {
			t.Errorf("%s: on hold %+v", onFailure, held)
		}
		if got := kindsOf(t, b); got != events {
			t.Errorf("%s: events %s, want %s", onFailure, got, events)
		}
		if view := (lifecycle.Facts{Name: "web", Task: task, Setting: lifecycle.Enabled}).Assess(); view.Phase != lifecycle.Unverified || !view.Person || lifecycle.Verified(task) {
			t.Errorf("%s: %+v", onFailure, view)
		}
	}
}

func TestVerify_InterruptedIsAppliedAndNotVerified(t *testing.T) {
	asked := make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(server.Close)
	b := verified(t, succeed, vip(server.URL, verify.Hold, time.Minute))
	ctx, stop := context.WithCancelCause(t.Context())
	go func() { <-asked; stop(errors.New("the process is stopped")) }()
	start := time.Now()
	if err := b.run(ctx); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if run.State != state.RunSucceeded || task.Applied.Digest != "B" || run.Verification.State != state.VerifyInterrupted {
		t.Errorf("%+v", run)
	}
	if !task.Applied.Unverified.Interrupted() || task.OnHold != nil || lifecycle.Verified(task) {
		t.Errorf("%+v", task)
	}
	if view := (lifecycle.Facts{Name: "web", Task: task, Setting: lifecycle.Enabled}).Assess(); view.Phase != lifecycle.Soon {
		t.Errorf("the task does not run again: %+v", view)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s to stop", took)
	}
}

func TestVerify_OneThatIsInterruptedTwiceNeedsAPerson(t *testing.T) {
	interrupted := state.Run{ID: "r2", Task: "web", Kind: state.KindApply, State: state.RunSucceeded,
		Work: state.Work{Digest: "B", Verification: state.NewVerification([]state.Verified{{Name: "vip", State: state.VerifyInterrupted}})}}
	once, _ := state.Task{}.Conclude(interrupted, "d")
	twice, _ := once.Conclude(interrupted, "d")
	if !once.Applied.Unverified.Interrupted() || twice.Applied.Unverified.Interrupted() || lifecycle.Verified(twice) {
		t.Errorf("%+v, then %+v", once.Applied.Unverified, twice.Applied.Unverified)
	}
	interrupted.Verification = nil
	if again, _ := twice.Conclude(interrupted, "d"); !lifecycle.Verified(again) {
		t.Errorf("a run that is verified leaves %+v", again.Applied.Unverified)
	}
}
