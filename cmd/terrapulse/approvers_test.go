package main

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// Two people, each with a token, approve one plan. The first alone has nothing applied, however often.
func TestApprovers_TwoTokensApproveAPlanTogether(t *testing.T) {
	s := newParallelSite(t)
	const key = "the-token-of-the-configuration"
	access := s.write("api.hcl", `
api {
  bind_address = "127.0.0.1"
  token        = "`+key+`"
  access {
    group "network" {
      members = ["token:ann", "token:bob"]
    }
    grant {
      roles = ["approve"]
      to    = ["group:network", "token:eve"]
    }
  }
}
`)
	s.register("web", "web-1", 8080, "passing")
	p := s.start("-config-file", s.config(s.task("lb", onWeb+"\n  approval {\n    mode = \"always\"\n    require = 2\n    from = [\"group:network\"]\n  }")), "-config-file", access)
	address := strings.Replace(p.served(), "localhost", "127.0.0.1", 1)
	eventually(t, "the plan waits", func() bool { return s.named("lb").Phase == apispec.PhaseWaiting })
	approve := func(name string, code int, says string) {
		t.Helper()
		made := s.bare("token", "create", "-store", "sqlite:"+s.path("state.db"), name)
		token := strings.TrimSpace(made.stdout)
		if made.code != exitOK {
			token = s.read("token-" + name)
		} else {
			s.write("token-"+name, token)
		}
		r := s.bare("approve", "-http-addr", address, "-token", token, "-comment=by "+name, "lb")
		wantCode(t, r, code)
		wantText(t, strings.Join(strings.Fields(r.stdout+r.stderr), " "), says)
	}
	approve("eve", exitError, "is not one of those who approve")
	approve("ann", exitOK, "1 of 2")
	approve("ann", exitOK, "1 of 2")                // the same person counts once
	s.register("other", "other-1", 9090, "passing") // ticks change nothing of that
	if s.read("lb.txt") != "" || s.named("lb").Phase != apispec.PhaseWaiting {
		t.Fatalf("one approval of two is enough: %s", s.named("lb").Phase)
	}
	approve("bob", exitOK, "")
	eventually(t, "the plan is applied", func() bool {
		return strings.Contains(s.read("lb.txt"), "8080") && s.named("lb").Phase == apispec.PhaseApplied
	})
	if runs := s.shown("lb"); len(runs) != 1 {
		t.Errorf("there are %d runs", len(runs))
	}
	audit := s.bare("audit", "-http-addr", address, "-token", key, "-action=approve")
	wantText(t, audit.stdout, "token:ann", "token:bob", "by ann", "by bob")
}
