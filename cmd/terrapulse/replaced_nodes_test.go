package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// node registers a node without services, as one whose agent has no service.
func (s *site) node(name, address string) {
	s.t.Helper()
	_, err := s.consul.Client().Catalog().Register(&api.CatalogRegistration{Node: name, Address: address,
		Check: &api.AgentCheck{Node: name, CheckID: "serfHealth", Name: "Serf Health Status", Status: "passing"}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
}

// Another Consul answers at the address. It has a node of its own, as every Consul, and none of those that were
// applied: that is judged as a loss of services, also where nodes are a module input alone.
func TestStart_NodesOfAReplacedConsulAreHeld(t *testing.T) {
	// The id of the server's own node is shown to modules: with another one, it would change.
	s := newParallelSite(t, consultest.WithHCL(`node_id = "6c7a2b1e-6d0e-4c1c-9a63-2f1f6f0f5a11"`))
	register := func() {
		for n := range 3 {
			s.node(fmt.Sprintf("r1-%d", n), fmt.Sprintf("10.1.0.%d", n))
		}
	}
	web := func(port int) { s.register("web", "web-1", port, "passing") }
	register()
	web(8080)
	const ofRack = "  filter = \"Node matches \\\"^r1-\\\"\"\n"
	file := s.config(s.task("every", "condition \"nodes\" {}") + s.task("rack", "condition \"nodes\" {\n"+ofRack+"}") +
		s.task("fed", onWeb+"\nmodule_input \"nodes\" {\n"+ofRack+"}") + s.task("web", onWeb))
	nodes := func(task string) int { return strings.Count(s.read(task+".txt"), "r1-") }
	p := s.start("start", "-config-file", file)
	for _, task := range []string{"every", "rack", "fed", "web"} {
		s.awaitPhase(task, apispec.PhaseApplied, "")
	}
	if nodes("every") != 3 || nodes("rack") != 3 || nodes("fed") != 3 || !strings.Contains(s.read("every.txt"), "consul-server 127.0.0.1 passing") {
		t.Fatalf("applied: %q, %q, %q", s.read("every.txt"), s.read("rack.txt"), s.read("fed.txt"))
	}
	every, rack, fed := s.read("every.txt"), s.read("rack.txt"), s.read("fed.txt")
	held := func() (tasks []string) {
		for _, task := range s.tasks() {
			if task.Reason.Code == "consul_replaced" {
				tasks = append(tasks, task.Name)
			}
		}
		slices.Sort(tasks)
		return tasks
	}
	holds := func(tasks ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("exactly %v are held", tasks), func() bool { return slices.Equal(held(), tasks) })
	}

	s.consul.Restart() // empty
	holds("every", "fed", "rack", "web")
	// What lost nothing runs. A change of its condition does not let a task pass whose module input lost nodes.
	web(8081)
	eventually(t, "the task without nodes runs", func() bool { return strings.Contains(s.read("web.txt"), "8081") })
	holds("every", "fed", "rack")
	// A part of the nodes is not all of them.
	s.node("r1-0", "10.1.0.0")
	eventually(t, "less is missing", func() bool { return strings.Contains(s.named("rack").Reason.Text, "2 of 3 nodes") })
	holds("every", "fed", "rack")
	if s.read("every.txt") != every || s.read("rack.txt") != rack || s.read("fed.txt") != fed {
		t.Errorf("a loss was applied: %q, %q, %q", s.read("every.txt"), s.read("rack.txt"), s.read("fed.txt"))
	}

	register()
	eventually(t, "the hold ends by itself", func() bool { return strings.Contains(p.stderr.String(), saysRestored) })
	eventually(t, "the change of the service is applied, with all nodes", func() bool { return strings.Contains(s.read("fed.txt"), "8081") })
	s.awaitPhase("fed", apispec.PhaseApplied, "")
	if s.read("every.txt") != every || s.read("rack.txt") != rack || nodes("fed") != 3 {
		t.Errorf("something was applied: %q, %q, %q", s.read("every.txt"), s.read("rack.txt"), s.read("fed.txt"))
	}
	if n := s.runsOf("every")[apispec.RunStateSucceeded] + s.runsOf("rack")[apispec.RunStateSucceeded]; n != 2 {
		t.Errorf("%d runs of the tasks that lost nothing in the end, want 2", n)
	}

	// While nothing runs, Consul is replaced again. Once, nothing is applied; then somebody approves.
	p.stop()
	s.consul.Restart()
	web(8081)
	once := s.run("-once", "-config-file", file)
	wantCode(t, once, exitWaits)
	if nodes("every") != 3 || nodes("rack") != 3 || nodes("fed") != 3 {
		t.Errorf("once applies %q, %q, %q", s.read("every.txt"), s.read("rack.txt"), s.read("fed.txt"))
	}
	p = s.start("start", "-config-file", file)
	holds("every", "fed", "rack")
	wantCode(t, s.runInTest("approve", "-all", "-comment=the rack is gone"), exitOK)
	eventually(t, "the loss is applied", func() bool { return s.read("every.txt") == "consul-server 127.0.0.1 passing\n" })
	for _, task := range []string{"rack", "fed"} {
		s.awaitPhase(task, apispec.PhaseApplied, "")
		if nodes(task) != 0 {
			t.Errorf("of %s, there is %q", task, s.read(task+".txt"))
		}
	}
	p.stop()
}
