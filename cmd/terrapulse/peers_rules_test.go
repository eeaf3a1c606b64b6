package main

import (
	"os"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// ofPeer is a condition on a service of a peer.
const ofPeer = "condition \"services\" {\n    names = [\"web\"]\n    peer  = \"cluster-02\"\n  }"

// imported is a site whose task lb reads two instances of a peer.
func imported(t *testing.T, body string) (s *site, there *consultest.Server, task string) {
	t.Helper()
	s, there = newParallelSite(t, consultest.WithPeering()), exporter(t, 2)
	s.consul.ImportFrom(there, "cluster-02")
	s.consul.Imported("cluster-02", "web", 2)
	return s, there, s.task("lb", body+ofPeer)
}

// both reports whether the instances of the peer are applied.
func (s *site) both() bool {
	text := s.read("lb.txt")
	return strings.Contains(text, ":9000 ") && strings.Contains(text, ":9001 ")
}

func TestPeers_DriftIsFoundOnceThePeerAnswersAgain(t *testing.T) {
	s, there, task := imported(t, strings.Replace(everySecond, "%s", "report", 1))
	program := s.start("-config-file", s.config(task))
	eventually(t, "a check finds no drift", func() bool { return s.drift().Checked != nil })
	there.Stop()
	eventually(t, "the outage of the peer is said", func() bool {
		return strings.Contains(s.runInTest("status", "-json").stdout, "the peer does not answer")
	})
	if err := os.Remove(s.path("lb.txt")); err != nil {
		t.Fatal(err)
	}
	if found := s.drift().Found; found != nil {
		t.Errorf("while the peer does not answer, a check has found %+v", found)
	}
	there.Restart()
	s.inPhase(apispec.PhaseDrifted, "1 resource differs: module.lb.local_file.out (is missing)")
	wantCode(t, s.run("run", "-http-addr="+program.served(), "lb"), exitOK)
	s.inPhase(apispec.PhaseApplied, "")
	if !s.both() {
		t.Errorf("a run has applied %q", s.read("lb.txt"))
	}
	program.stop()
}
