package main

import (
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

func TestOnce_BesideAnInstanceThatLeadsThatOneRunsTheTasks(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.env = append(s.env, "API_TOKEN=0123456789abcdef")
	file := s.config("api {\n  token = \"{{ env \\\"API_TOKEN\\\" }}\"\n}\n" + s.task("lb", onWeb) + s.task("off", "enabled = false\n"+onWeb))
	p := s.start("-config-file", file)
	p.served()
	eventually(t, "the first apply", func() bool { return strings.Contains(s.run("status").stdout, "applied") })

	s.write("lb.txt", "changed by hand")
	r := s.run("-once", "-config-file", file)
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "lb", "succeeded", "off", "disabled")
	if got := s.read("lb.txt"); !strings.HasPrefix(got, "web ") {
		t.Errorf("the change by hand was not put right: %q", got)
	}
	if n := strings.Count(p.stderr.String(), "run succeeded"); n != 2 {
		t.Errorf("the instance that leads has carried out %d runs", n)
	}

	other := s.path("other.hcl")
	s.write("other.hcl", strings.Replace(s.read("tasks.hcl"), `"lb"`, `"another"`, 1))
	r = s.run("-once", "-config-file", other)
	wantCode(t, r, exitError)
	wantText(t, strings.Join(strings.Fields(r.stderr), " "), "Task another was not run", "a task with name 'another' does not exist")
}

func TestOnce_EndsWithAdviceWhereTheInstanceThatLeadsCannotBeReached(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	store, err := sqlite.Open(t.Context(), s.path("state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := lease.Acquire(t.Context(), store, state.LeaderLease, "another", lease.Options{TTL: time.Hour, Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	r := s.run("-once", "-wait", "0", "-config-file", s.config(s.task("lb", onWeb)))
	wantCode(t, r, exitError)
	wantText(t, r.stdout, "lb", "not run")
	wantText(t, r.stderr, "another", "recorded no address", "-http-addr", "-wait", "-store")
}
