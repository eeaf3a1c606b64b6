package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestCancel_RunUnderWayEndsAndRetryRunsTheTaskAgain(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	p := s.start("-config-file", s.config(s.slowTask("slow")))
	s.env = append(s.env, "CTS_ADDRESS="+p.served())
	eventually(t, "the apply has begun", func() bool { return s.read("began") != "" })

	r := s.program("task", "disable", "slow")
	wantCode(t, r, exitError)
	wantText(t, unwrapped(r.stderr), "active and cannot be updated", "`terrapulse cancel slow`")

	r = s.program("cancel", "slow")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "slow", "cancelled")
	wantText(t, s.run("runs", "slow").stdout, "cancelled by")
	eventually(t, "the task waits", func() bool { return strings.Contains(s.run("status").stdout, "cancelled") })
	stored := s.run("events")
	wantText(t, stored.stdout, "slow", "run cancelled", "By: ", "leadership taken")
	if served := s.program("events", "-http-addr", p.served()); served.stdout != stored.stdout {
		t.Errorf("the API shows other events than the store:\n%s\n%s", served.stdout, stored.stdout)
	}
	var all apispec.Overview
	if err := json.Unmarshal([]byte(s.program("status", "-json", "-http-addr", p.served()).stdout), &all); err != nil {
		t.Fatal(err)
	}
	if all.Gates == nil || len(*all.Gates) == 0 || (*all.Gates)[0].Index == nil || (*all.Gates)[0].Error != nil || all.Store.Kind != "sqlite" || all.Version == nil {
		t.Errorf("the overview shows the gates %+v, the store %+v and the version %v", all.Gates, all.Store, all.Version)
	}
	if n := strings.Count(s.read("began"), "began"); n != 1 {
		t.Errorf("Terraform was run %d times", n)
	}
	r = s.program("cancel", "slow")
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "no run under way")

	s.write("go", "")
	r = s.program("run", "slow")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "succeeded")
	wantCode(t, s.program("run", "nope"), exitError)
	wantCode(t, s.program("task", "disable", "slow"), exitOK)
}
