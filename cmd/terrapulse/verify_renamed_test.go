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

// A task is renamed while nobody knows whether what it has applied works, and renamed back while that fails:
// what comes after it does not begin, and the hold is that of the task, whatever its name.
func TestVerify_TaskThatIsRenamedMeanwhile(t *testing.T) {
	s := newParallelSite(t)
	var asked, mended atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1); mended.Load() == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	s.register("web", "web-1", 8080, "passing")
	made := s.path("made.txt")
	once := s.module("once", `
variable "services" {}
resource "terraform_data" "once" {
  input = length(var.services)
  provisioner "local-exec" {
    command = "echo made >> `+made+`"
  }
}
`)
	configure := func(name, before, within string) string {
		return s.config(taskOf(name, once, onWeb+before+fmt.Sprintf(`
  verify "vip" {
    http { url = %q }
    within     = %q
    every      = "50ms"
    on_failure = "hold"
  }
`, server.URL, within)) + s.task("inner", onWeb+fmt.Sprintf("\nafter = [%q]", name)))
	}
	p := s.start("-config-file", configure("edge", "", "10m"))
	at := "-http-addr=" + p.served()
	eventually(t, "edge is being verified", func() bool { return asked.Load() > 0 })

	configure("border", "\nmoved_from = [\"edge\"]", "10m")
	s.awaitPhase("border", apispec.PhaseWaiting, "of task edge, which its moved_from names, has not ended")
	again := asked.Load()
	eventually(t, "edge is still verified", func() bool { return asked.Load() > again })
	if s.read("inner.txt") != "" || !strings.Contains(s.named("inner").Reason.Text, "waits for border") {
		t.Errorf("inner wrote %q: %+v", s.read("inner.txt"), s.named("inner").Reason)
	}
	mended.Store(1)
	s.awaitPhase("border", apispec.PhaseApplied, "")
	s.awaitPhase("edge", apispec.PhaseRemoved, "it was renamed to border")
	eventually(t, "inner is applied after border", func() bool { return s.read("inner.txt") != "" })
	if got := s.shown("edge"); len(got) != 1 || got[0].Verification == nil || got[0].Verification.State != apispec.VerifyStatePassed {
		t.Errorf("the run of the former name reads %+v", got)
	}

	// It is renamed back while the verification of new input fails, or a moment later.
	mended.Store(0)
	configure("border", "", "2s")
	eventually(t, "the new limit is in force", func() bool { return strings.Count(p.stderr.String(), "configuration in force") >= 3 })
	again = asked.Load()
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "border is being verified", func() bool { return asked.Load() > again })
	configure("edge", "\nmoved_from = [\"border\"]", "2s")
	s.awaitPhase("edge", apispec.PhaseUnverified, "verification vip")
	if text := s.read("inner.txt"); strings.Contains(text, "8081") {
		t.Errorf("while edge is on hold, inner wrote %q", text)
	}
	mended.Store(1)
	wantCode(t, s.run("release", at, "edge"), exitOK)
	s.awaitPhase("edge", apispec.PhaseApplied, "")
	eventually(t, "inner is applied after edge", func() bool { return strings.Contains(s.read("inner.txt"), "8081") })
	if text := s.read("made.txt"); text != "made\n" {
		t.Errorf("the renamed task made it anew: %q", text)
	}
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
