package main

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// Ann has two tokens, and Bob has more. Both approvals of one person count once, and Ann cannot approve with one
// token what she has changed with the other one.
func TestApprovers_IdentitiesOfOnePersonAreOneApprover(t *testing.T) {
	s := newParallelSite(t)
	const key = "the-token-of-the-configuration"
	access := s.write("api.hcl", `
api {
  bind_address = "127.0.0.1"
  token        = "`+key+`"
  access {
    person "ann" {
      identities = ["token:ann-laptop", "token:ann-phone"]
    }
    person "bob" {
      identities = ["cert:bob", "token:bob-*"]
    }
    group "network" {
      members = ["person:ann", "token:cho"]
    }
    grant {
      roles = ["approve", "administer"]
      to    = ["group:network", "person:bob"]
    }
  }
}
`)
	s.register("web", "web-1", 8080, "passing")
	const rules = `
  require_distinct_approver = true
  approval {
    mode    = "always"
    require = 2
    from    = ["person:ann", "person:bob", "token:cho"]
  }`
	s.namedTokens("ann-laptop", "ann-phone", "bob-1", "bob-2", "cho")
	p := s.start("-config-file", s.config(s.task("lb", onWeb+rules)+s.task("fw", onWeb+rules+"\n  enabled = false")), "-config-file", access)
	address := strings.Replace(p.served(), "localhost", "127.0.0.1", 1)
	waits := func(task string) {
		t.Helper()
		eventually(t, "the plan waits", func() bool { return s.named(task).Phase == apispec.PhaseWaiting })
	}
	applied := func(task string) {
		t.Helper()
		eventually(t, "the plan is applied", func() bool {
			return strings.Contains(s.read(task+".txt"), "8080") && s.named(task).Phase == apispec.PhaseApplied
		})
	}

	waits("lb")
	s.approvedBy(address, "ann-laptop", "lb", exitOK, "1 of 2")
	s.approvedBy(address, "ann-laptop", "lb", exitOK, "1 of 2")
	s.approvedBy(address, "ann-phone", "lb", exitError, "token:ann-phone cannot approve: ann has approved already, as token:ann-laptop")
	if s.read("lb.txt") != "" || s.named("lb").Phase != apispec.PhaseWaiting {
		t.Fatalf("one person of two is enough: %s", s.named("lb").Phase)
	}
	status := s.bare("status", "-http-addr", address, "-token", key)
	wantText(t, unwrapped(status.stdout), "1 of 2 approvals: token:ann-laptop has approved")
	s.approvedBy(address, "bob-1", "lb", exitOK, "")
	applied("lb")

	s.bare("task", "enable", "-http-addr", address, "-token", s.namedToken("ann-phone"), "-auto-approve", "fw")
	waits("fw")
	s.approvedBy(address, "ann-laptop", "fw", exitError, "require_distinct_approver")
	s.approvedBy(address, "bob-1", "fw", exitOK, "1 of 2")
	s.approvedBy(address, "bob-2", "fw", exitError, "bob has approved already, as token:bob-1")
	s.approvedBy(address, "cho", "fw", exitOK, "")
	applied("fw")

	audit := s.bare("audit", "-http-addr", address, "-token", key)
	wantText(t, audit.stdout, "token:ann-laptop", "token:ann-phone", "token:bob-1", "token:bob-2", "token:cho", "by ann-laptop")
}

// approvedBy has a named token, which is created when it is needed, approve the plan of a task.
func (s *site) approvedBy(address, name, task string, code int, says string) {
	s.t.Helper()
	r := s.bare("approve", "-http-addr", address, "-token", s.namedToken(name), "-comment=by "+name, task)
	wantCode(s.t, r, code)
	wantText(s.t, unwrapped(r.stdout+r.stderr), says)
}

// namedTokens creates named tokens. One that is made while a plan waits cannot approve it.
func (s *site) namedTokens(names ...string) {
	for _, name := range names {
		s.namedToken(name)
	}
}

// namedToken returns a named token, which is created when it is needed.
func (s *site) namedToken(name string) string {
	s.t.Helper()
	made := s.bare("token", "create", "-store", "sqlite:"+s.path("state.db"), name)
	if made.code != exitOK {
		return s.read("token-" + name)
	}
	token := strings.TrimSpace(made.stdout)
	s.write("token-"+name, token)
	return token
}
