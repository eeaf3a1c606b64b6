package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// vip starts a server that a task is verified with. It answers 503 until it is mended.
func vip(t *testing.T) (url string, mended *atomic.Bool) {
	t.Helper()
	mended = &atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !mended.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, mended
}

func TestVerify_UnverifiedTaskIsAppliedHeldAndFollowedByNone(t *testing.T) {
	s := newParallelSite(t)
	url, mended := vip(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("edge", onWeb+fmt.Sprintf(`
  verify "vip" {
    http { url = %q }
    within     = "300ms"
    every      = "50ms"
    on_failure = "hold"
  }`, url)) + s.task("inner", onWeb+"\nafter = [\"edge\"]"))

	// Once: edge is applied, and not verified.
	once := s.run("-once", "-config-file", file)
	wantCode(t, once, exitError)
	wantText(t, once.stdout+once.stderr, "succeeded, not verified", "vip failed: GET "+url+" answered 503")
	if s.read("edge.txt") != "web 10.0.0.1:8080 passing\n" || s.read("inner.txt") != "" {
		t.Errorf("edge wrote %q, inner wrote %q", s.read("edge.txt"), s.read("inner.txt"))
	}
	wantText(t, s.runInTest("runs", "edge").stdout, "succeeded, not verified", "not verified: vip failed")
	wantText(t, s.runInTest("status").stdout, "not verified", "verification vip")

	// Always on: the hold stays, also after the server is mended, and nothing is applied for the retry.
	p := s.start("-config-file", file)
	at := "-http-addr=" + p.served()
	edge := func() apispec.TaskOverview { return s.named("edge") }
	eventually(t, "inner waits for edge", func() bool {
		return edge().Phase == apispec.PhaseUnverified && strings.Contains(s.named("inner").Reason.Text, "waits for edge")
	})
	mended.Store(true)
	wantCode(t, s.run("run", at, "edge"), exitWaits)
	if got := edge(); got.Phase != apispec.PhaseUnverified || s.read("inner.txt") != "" {
		t.Errorf("before the release, edge is %+v, and inner wrote %q", got, s.read("inner.txt"))
	}
	wantCode(t, s.run("release", at, "edge"), exitOK)
	eventually(t, "edge is verified, and inner is applied", func() bool {
		return edge().Phase == apispec.PhaseApplied && s.read("inner.txt") != ""
	})
	if runs := s.run("runs", at, "edge").stdout; strings.Count(runs, "succeeded") != 2 || strings.Count(runs, "succeeded, not verified") != 1 {
		t.Errorf("edge ran other than twice, the second time verified:\n%s", runs)
	}
	wantText(t, p.stderr.String(), "verified again")
}

// named is a task as status shows it.
func (s *site) named(task string) apispec.TaskOverview {
	s.t.Helper()
	for _, t := range s.tasks() {
		if t.Name == task {
			return t
		}
	}
	return apispec.TaskOverview{}
}

// phase is the phase of a task in the store, and why; empty if the task is not there.
func (s *site) phase(task string) (apispec.Phase, string) {
	s.t.Helper()
	named := s.named(task)
	return named.Phase, named.Reason.Text
}

// awaitPhase waits until a task is in a phase, and its reason has a text.
func (s *site) awaitPhase(task string, phase apispec.Phase, text string) {
	s.t.Helper()
	eventually(s.t, "task "+task+" is "+string(phase)+": "+text, func() bool {
		is, why := s.phase(task)
		return is == phase && strings.Contains(why, text)
	})
}
