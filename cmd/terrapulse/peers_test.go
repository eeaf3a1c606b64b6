package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// exporter is a Consul in a datacenter of its own that exports web with so many instances.
func exporter(t *testing.T, instances int) *consultest.Server {
	t.Helper()
	s := consultest.Start(t, consultest.WithPeering(), consultest.WithData(), consultest.WithHCL(`datacenter = "west"`))
	for i := range instances {
		r := &api.CatalogRegistration{Node: "n1", Address: "10.0.0.1", Service: &api.AgentService{ID: fmt.Sprintf("web-%d", i), Service: "web", Port: 9000 + i}}
		if _, err := s.Client().Catalog().Register(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.Export("web")
	return s
}

// Some tasks read a peer, each in another way, and one this cluster. Nothing that happens to the peering
// removes what the first have applied, and nothing of it stops the last.
func TestABrokenPeeringStopsTheTasksThatReadItAndNoOther(t *testing.T) {
	s := newParallelSite(t, consultest.WithPeering())
	there := exporter(t, 2)
	s.register("web", "web-9", 8001, "passing")
	s.consul.ImportFrom(there, "cluster-02")
	s.consul.Imported("cluster-02", "web", 2)
	const matching = "services\" {\n    regexp = \"^web\"\n    peer  = \"cluster-02\"\n  }"
	config := s.config(s.task("here", onWeb) + s.task("far", "condition \"services\" {\n    names = [\"web\"]\n    peer  = \"cluster-02\"\n  }") +
		s.task("matching", "condition \""+matching) + s.task("listed", "condition \"catalog-services\" {\n    regexp = \"^web\"\n    peer = \"cluster-02\"\n    use_as_module_input = false\n  }\n  module_input \""+matching) +
		s.task("fed", "condition \"catalog-services\" {\n    regexp = \"^db\"\n    use_as_module_input = false\n  }\n  module_input \""+matching))
	program := s.start("-config-file", config)
	reading := []string{"far", "matching", "listed", "fed"}
	far := func(ports ...int) func() bool {
		return func() bool {
			for _, name := range reading {
				text := s.read(name + ".txt")
				for _, port := range ports {
					if !strings.Contains(text, fmt.Sprintf("web 10.0.0.1:%d passing\n", port)) {
						return false
					}
				}
				if strings.Count(text, "\n") != len(ports) {
					return false
				}
			}
			return true
		}
	}
	says := func(text string) func() bool {
		return func() bool { return strings.Contains(s.runInTest("status", "-json").stdout, text) }
	}
	port := 8001
	hereRuns := func(when string) {
		t.Helper()
		port++
		s.register("web", "web-9", port, "passing")
		eventually(t, when+": the task of this cluster runs", func() bool { return strings.Contains(s.read("here.txt"), fmt.Sprintf(":%d passing", port)) })
		if !far(9000, 9001)() {
			t.Errorf("%s: of the peer, there is %q", when, s.read("far.txt"))
		}
	}
	eventually(t, "the services of the peer are applied", far(9000, 9001))

	there.Stop()
	eventually(t, "every task that reads the peer shows its outage", func() bool {
		unreadable := 0
		for _, task := range s.tasks() {
			if task.Phase == apispec.PhaseUnreadable && strings.Contains(task.Reason.Text, "the peer does not answer") {
				unreadable++
			}
		}
		return unreadable == 4
	})
	resp, err := http.Get(program.served() + "/v1/health")
	if err != nil {
		t.Fatal(err)
	}
	health, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	wantText(t, string(health), `"unreadable_count":4`, `"far"`, `"fed"`, `"listed"`, `"matching"`)
	s.register("db", "db-1", 8100, "passing") // what triggers the task with the input
	hereRuns("the peer is down")
	there.Restart()
	eventually(t, "the outage ends, and the task with the input runs", func() bool {
		return !says("the peer does not answer")() && s.named("fed").Phase == apispec.PhaseApplied
	})
	if log := program.stderr.String(); strings.Contains(log, "failed") {
		t.Errorf("a run fails in the outage of the peer:\n%s", log)
	}

	s.consul.EndPeering("cluster-02")
	eventually(t, "that there is no peering is said", says("there is no peering with this name"))
	hereRuns("the peering is deleted")

	// Another cluster gets the name. It has one of the two instances.
	other := exporter(t, 1)
	s.consul.ImportFrom(other, "cluster-02")
	s.consul.Imported("cluster-02", "web", 1)
	eventually(t, "that it is another cluster is said", says("consul_replaced"))
	hereRuns("another cluster has the name of the peer")
	if r := s.runInTest("approve", "-all", "-comment=moved"); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	reading = reading[:2] // what only inputs lose triggers no run
	eventually(t, "the loss is applied once it is approved", far(9000))
	if log := program.stderr.String(); strings.Contains(log, "cannot watch Consul") {
		t.Errorf("an outage of a peer is one of Consul:\n%s", log)
	}
	program.stop()
}
