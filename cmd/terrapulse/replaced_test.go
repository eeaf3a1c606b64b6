package main

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

const (
	saysReplaced = "Consul was replaced: tasks that would lose entries wait"
	saysRestored = "nothing is missing in Consul any more"
)

func TestStart_EmptyConsulAtTheSameAddressHoldsAllTasks(t *testing.T) {
	// The id of the node is shown to modules: with another one, all entries would change.
	s := newParallelSite(t, consultest.WithHCL(`node_id = "6c7a2b1e-6d0e-4c1c-9a63-2f1f6f0f5a11"`))
	register := func() { // one task has 2 entries
		s.register("web", "web-1", 8080, "passing")
		s.register("web", "web-2", 8081, "passing")
		s.register("api", "api-1", 9090, "passing")
		s.register("db", "db-1", 5432, "passing")
	}
	register()
	file := s.config(s.task("web", onWeb) + s.task("api", strings.ReplaceAll(onWeb, "web", "api")) + s.task("db", strings.ReplaceAll(onWeb, "web", "db")))
	all := func() string { return s.read("web.txt") + s.read("api.txt") + s.read("db.txt") }
	p := s.start("start", "-config-file", file)
	eventually(t, "all are applied", func() bool { return strings.Count(all(), "passing") == 4 })
	eventually(t, "the runs have ended", func() bool {
		return s.runsOf("web")[apispec.RunStateSucceeded] > 0 && s.runsOf("db")[apispec.RunStateSucceeded] > 0
	})
	before := all()
	for args, text := range map[string]string{"approve -all": "no task waits because Consul was replaced", "approve -all web": "-all is for all tasks"} {
		r := s.runInTest(strings.Fields(args)...)
		if wantText(t, unwrapped(r.stdout+r.stderr), text); r.code == exitOK {
			t.Errorf("%s succeeds", args)
		}
	}

	s.consul.Restart() // empty
	eventually(t, "it is said", func() bool { return strings.Contains(p.stderr.String(), saysReplaced) })
	eventually(t, "all tasks are held", func() bool {
		return strings.Count(s.runInTest("status", "-json").stdout, `"consul_replaced"`) == 3
	})
	wantText(t, p.stderr.String(), "3 tasks would lose 4 entries: web, api, db")

	register()
	eventually(t, "the hold ends by itself", func() bool { return strings.Contains(p.stderr.String(), saysRestored) })
	if all() != before || s.runsOf("web")[apispec.RunStateSucceeded] != 1 {
		t.Errorf("something was applied: %v\n%s", s.runsOf("web"), all())
	}
	if n := strings.Count(p.stderr.String(), saysReplaced); n != 1 {
		t.Errorf("it was said %d times", n)
	}

	// While nothing runs, Consul is replaced again.
	p.stop()
	s.consul.Restart()
	p = s.start("start", "-config-file", file)
	eventually(t, "it is said at the first tick", func() bool { return strings.Contains(p.stderr.String(), saysReplaced) })
	if all() != before {
		t.Errorf("something was applied at the start:\n%s", all())
	}
	if r := s.runInTest("approve", "-all", "-comment=moved"); r.code != exitOK {
		t.Fatalf("%d: %s%s", r.code, r.stdout, r.stderr)
	}
	eventually(t, "everything is removed", func() bool { return all() == "" })
	wantText(t, p.stderr.String(), "the replaced Consul is approved")
}
