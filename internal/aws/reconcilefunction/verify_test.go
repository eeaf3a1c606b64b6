package reconcilefunction

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// vip is a verification by a request.
func vip(url string, within time.Duration) verify.Spec {
	return verify.Spec{Name: "vip", Enabled: true, Within: within, Every: 20 * time.Millisecond, Timeout: 200 * time.Millisecond, OnFailure: verify.Report,
		HTTP: &verify.HTTP{URL: url, Method: "GET", Status: []string{"200"}, Body: "healthy$"}}
}

// toVerify starts a process whose task is being applied in another system, and then to be verified.
func (s *stack) toVerify(r *remote, all ...verify.Spec) *Handler {
	s.configs["b1"].Tasks[0].Verify = all
	h := s.elsewhere(r)
	h.executor.runner.Environ, h.executor.runner.Verify = environment, verify.Requests
	for _, phase := range []state.RemotePhase{state.RemotePlanning, state.RemoteReady} {
		r.comeTo(phase)
		s.must(h, due)
	}
	r.comeTo(state.RemoteEnded)
	return h
}

func (s *stack) task(name string) state.Task {
	s.t.Helper()
	rec, err := state.Read[state.Task](s.t.Context(), s.store, state.TaskKey(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return rec.Data
}

// Whatever answers, the function verifies what HCP Terraform has applied, and the task is applied once.
func TestVerify_FunctionSendsTheRequests(t *testing.T) {
	healthy := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("healthy")) }
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   state.VerifyState
		says   string
	}{
		"works": {healthy, state.VerifyPassed, ""},
		"never": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, state.VerifyFailed, "no result within 200ms"},
		"wrong": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ill")) }, state.VerifyFailed, `its body does not match "healthy$"`},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://192.0.2.1/", http.StatusFound)
		}, state.VerifyFailed, "a redirect to another host"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			for block := strings.Repeat("x", 1<<20); ; {
				if _, err := w.Write([]byte(block)); err != nil {
					return
				}
			}
		}, state.VerifyFailed, "its body does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			s, r := newStack(t, "web"), &remote{}
			h := s.toVerify(r, vip(server.URL, 500*time.Millisecond))
			s.must(h, due)
			run, task := s.run("web"), s.task("web")
			if v := run.Verification; run.State != state.RunSucceeded || v == nil || v.State != tt.want || !strings.Contains(v.String(), tt.says) {
				t.Errorf("%s %+v %s", run.State, run.Verification, run.Error)
			}
			if task.Applied.Digest == "" || lifecycle.Verified(task) != (tt.want == state.VerifyPassed) || len(r.steps) != 3 {
				t.Errorf("after steps %q, the task reads %+v", r.steps, task)
			}
		})
	}
}

// What answers late is verified by several invocations: none waits longer than it lives, and nothing is
// applied a second time.
func TestVerify_NextInvocationContinues(t *testing.T) {
	var asked, works atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1); works.Load() == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = w.Write([]byte("healthy"))
	}))
	defer server.Close()
	s, r := newStack(t, "web"), &remote{}
	h := s.toVerify(r, vip(server.URL, time.Minute))
	ctx, stop := context.WithTimeout(t.Context(), stopReserve+500*time.Millisecond)
	defer stop()
	if _, err := h.Handle(ctx, []byte(due)); err != nil || ctx.Err() != nil {
		t.Fatalf("the invocation ended with %v, its time is over: %v", err, ctx.Err())
	}
	run := s.run("web")
	if run.State != state.RunWaiting || run.Wait.For != state.WaitVerify || run.Verifying == nil || asked.Load() < 2 {
		t.Fatalf("%s %+v after %d requests", run.State, run.Wait, asked.Load())
	}
	if view := (lifecycle.Facts{Name: "web", Task: s.task("web"), Run: run, Setting: lifecycle.Enabled}).Assess(); view.Phase != lifecycle.Running || view.Person {
		t.Errorf("people see %+v", view)
	}
	works.Store(1)
	polls := r.polls
	s.must(s.next(r), due)
	run, task := s.run("web"), s.task("web")
	if run.State != state.RunSucceeded || run.Verification.State != state.VerifyPassed || run.Verifying != nil || run.Changes.Add != 1 {
		t.Errorf("%s %+v %s", run.State, run.Verification, run.Error)
	}
	if task.Applied.Digest == "" || !lifecycle.Verified(task) || len(r.steps) != 3 || r.polls != polls {
		t.Errorf("after steps %q and %d more polls, the task reads %+v", r.steps, r.polls-polls, task)
	}
}

// next starts another process that verifies.
func (s *stack) next(r *remote) *Handler {
	h := s.elsewhere(r)
	h.executor.runner.Environ, h.executor.runner.Verify = environment, verify.Requests
	return h
}

// halfVerified is a task whose verification waits for the next invocation.
func halfVerified(t *testing.T) (*stack, *remote, *Handler) {
	s, r := newStack(t, "web"), &remote{}
	h := s.toVerify(r, vip("http://192.0.2.1", 15*time.Minute))
	h.executor.runner.Verify = func(ctx context.Context, all []verify.Spec, _ verify.Applied) []state.Verified {
		<-ctx.Done()
		return []state.Verified{{Name: all[0].Name, State: state.VerifyInterrupted}}
	}
	s.must(h, due)
	if run := s.run("web"); run.State != state.RunWaiting || run.Wait.For != state.WaitVerify {
		t.Fatalf("%s %+v", run.State, run.Wait)
	}
	return s, r, s.next(r)
}

// passes has each verification pass.
func passes(_ context.Context, all []verify.Spec, _ verify.Applied) (results []state.Verified) {
	for _, v := range all {
		results = append(results, state.Verified{Name: v.Name, State: state.VerifyPassed})
	}
	return results
}

func TestVerify_WhatHappensWhileItWaitsForTheNextInvocation(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(s *stack, c *control.Control) error
		want    state.VerifyState // empty if nothing verifies the run
	}{
		"a pause":          {func(s *stack, c *control.Control) error { _, err := c.PauseAll(s.t.Context(), "Ann", ""); return err }, state.VerifyPassed},
		"a hold":           {func(s *stack, c *control.Control) error { return c.Hold(s.t.Context(), "web", "Ann", "") }, state.VerifyPassed},
		"a cancel":         {func(s *stack, c *control.Control) error { _, err := c.Cancel(s.t.Context(), "web", "Ann"); return err }, state.VerifyCancelled},
		"a disable":        {func(s *stack, _ *control.Control) error { s.configs["b1"].Tasks[0].Enabled = false; return nil }, state.VerifyPassed},
		"another module":   {func(s *stack, _ *control.Control) error { s.configs["b1"].Tasks[0].Module = "./other"; return nil }, state.VerifyInterrupted},
		"no verify block":  {func(s *stack, _ *control.Control) error { s.configs["b1"].Tasks[0].Verify = nil; return nil }, ""},
		"one that is new":  {func(s *stack, _ *control.Control) error { s.configs["b1"].Tasks[0].Verify[0].Name = "new"; return nil }, state.VerifyPassed},
		"other input":      {func(s *stack, _ *control.Control) error { s.digest = "other"; return nil }, state.VerifyPassed},
		"nothing for days": {func(*stack, *control.Control) error { time.Sleep(72 * time.Hour); return nil }, state.VerifyPassed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r, h := halfVerified(t)
				h.executor.runner.Verify = passes
				if err := tt.happens(s, &control.Control{Store: s.store, Now: time.Now, Base: func(context.Context) (*config.Config, error) { return s.configs["b1"], nil }}); err != nil {
					t.Fatal(err)
				}
				steps := len(r.steps)
				s.must(h, due)
				run, task := s.first("web"), s.task("web")
				got := state.VerifyState("")
				if run.Verification != nil {
					got = run.Verification.State
				}
				if run.State != state.RunSucceeded || got != tt.want || task.Applied.At.IsZero() {
					t.Errorf("%s %+v %s; applied at %s", run.State, run.Verification, run.Error, task.Applied.At)
				}
				if more := len(r.steps) - steps; (name == "other input" || name == "another module") != (more > 0) {
					t.Errorf("%d steps follow", more)
				}
			})
		})
	}
}

// A bundle renames the task before the next invocation: that one verifies what was applied under the former
// name, and only then a run of the new name begins.
func TestVerify_NextInvocationContinuesForTheNewName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, h := halfVerified(t)
		h.executor.runner.Verify = passes
		s.configs["b1"].KeepRemoved = time.Hour
		is := &s.configs["b1"].Tasks[0]
		is.Name, is.MovedFrom = "edge", []string{"web"}
		steps := len(r.steps)
		s.must(h, due)
		run, edge := s.first("web"), s.task("edge")
		if run.State != state.RunSucceeded || run.Verification == nil || run.Verification.State != state.VerifyPassed {
			t.Errorf("%s %+v %s", run.State, run.Verification, run.Error)
		}
		if s.task("web").Gone.MovedTo != "edge" || edge.Ended.Last == nil || edge.Ended.Last.Run == run.ID || len(r.steps) != steps+1 {
			t.Errorf("after the steps %q, the new name has %+v", r.steps, edge)
		}
	})
}

// first is the run of a task that was decided first.
func (s *stack) first(task string) state.Run {
	s.t.Helper()
	runs, err := state.ReadAll[state.Run](s.t.Context(), s.store, state.RunPrefix(task))
	if err != nil || len(runs) == 0 {
		s.t.Fatal(len(runs), err)
	}
	return runs[0].Data
}
