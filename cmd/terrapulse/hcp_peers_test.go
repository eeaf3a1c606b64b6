package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// peerCloud is a site whose tasks run in a stand-in of HCP Terraform with the services of a peer: lb has them in
// its condition, and mixed as a module input beside a key of this cluster.
type peerCloud struct {
	*site
	hcp   *hcptest.Server
	there *consultest.Server // the peer
	file  string
}

func newPeerCloud(t *testing.T) *peerCloud {
	t.Helper()
	s := &peerCloud{site: newParallelSite(t, consultest.WithPeering()), hcp: hcptest.New(t), there: exporter(t, 2)}
	s.env = append(s.env, "TFC_HOSTNAME="+s.hcp.URL, "TFC_ORGANIZATION="+s.hcp.Organization, "TFC_TOKEN="+s.hcp.Token)
	s.consul.ImportFrom(s.there, "cluster-02")
	s.consul.Imported("cluster-02", "web", 2)
	s.put("go", []byte("1"))
	const ofPeer = "\"services\" {\n    names = [\"web\"]\n    peer  = \"cluster-02\"\n  }\n"
	common, _, _ := strings.Cut(s.cloudFile(0, ""), "\ntask {")
	s.file = s.write("cts.hcl", common+s.task("lb", "condition "+ofPeer)+
		s.task("mixed", "condition \"consul-kv\" {\n    path = \"go\"\n    use_as_module_input = false\n  }\n  module_input "+ofPeer))
	return s
}

// exports registers one more instance at the peer, and waits until this cluster has it.
func (s *peerCloud) exports(port int) {
	s.t.Helper()
	r := &api.CatalogRegistration{Node: "n1", Address: "10.0.0.1", Service: &api.AgentService{ID: fmt.Sprint("web-", port), Service: "web", Port: port}}
	eventually(s.t, "the peer takes another instance", func() bool {
		_, err := s.there.Client().Catalog().Register(r, nil)
		return err == nil
	})
}

// runs are all runs of both workspaces, also speculative ones.
func (s *peerCloud) runs() (all []hcptest.Run) {
	return append(s.hcp.Workspace("cts-lb").Runs, s.hcp.Workspace("cts-mixed").Runs...)
}

// lacksNothing fails the test if anything that was uploaded for a run lacks the instances that the peer had at first.
func (s *peerCloud) lacksNothing(when string) {
	s.t.Helper()
	for _, run := range s.runs() {
		if text := run.Upload["terrapulse.auto.tfvars"]; !strings.Contains(text, "9000") || !strings.Contains(text, "9001") || !strings.Contains(text, "cluster-02") {
			s.t.Errorf("%s: run %s has the variables\n%s", when, run.ID, text)
		}
	}
}

// has reports whether a task has applied exactly these instances of the peer.
func (s *peerCloud) has(task string, ports ...int) func() bool {
	return func() bool {
		text := s.read(task + ".txt")
		for _, port := range ports {
			if !strings.Contains(text, fmt.Sprintf("web 10.0.0.1:%d passing\n", port)) {
				return false
			}
		}
		return strings.Count(text, "\n") == len(ports)
	}
}

// What a peer exports reaches HCP Terraform. While the peering is broken, no run begins there and none is
// confirmed, neither for the task that reads it nor for one that has it as a module input, nor speculatively.
func TestHCP_ServicesOfAPeerAndABrokenPeering(t *testing.T) {
	s := newPeerCloud(t)
	p := s.start("-config-file", s.file)
	at := "-http-addr=" + p.served()
	eventually(t, "the services of the peer are applied", func() bool { return s.has("lb", 9000, 9001)() && s.has("mixed", 9000, 9001)() })
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	s.awaitPhase("mixed", apispec.PhaseApplied, "")

	s.exports(9002)
	eventually(t, "a change in the peer is applied", s.has("lb", 9000, 9001, 9002))
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	if text := s.hcp.AwaitRun("cts-lb", 2).Upload["terrapulse.auto.tfvars"]; !strings.Contains(text, "9002") {
		t.Errorf("the run for the change has the variables\n%s", text)
	}

	// The peer goes away. Nothing begins: not for a request, a key of this cluster or a what-if.
	s.there.Stop()
	s.awaitPhase("lb", apispec.PhaseUnreadable, "the peer does not answer")
	before := len(s.runs())
	s.put("go", []byte("2"))
	s.awaitPhase("mixed", apispec.PhaseUnreadable, "the peer does not answer")
	wantText(t, s.run("run", at, "-wait=false", "lb").stdout, "lb")
	whatIf := s.run("inspect", at, "-without", "instance=web-0")
	wantText(t, whatIf.stdout+whatIf.stderr, "the peer does not answer")
	whatIf = s.run("inspect", at, "-without", "peer=cluster-02", "lb")
	wantText(t, whatIf.stdout+whatIf.stderr, "the peer does not answer")
	if all := s.runs(); len(all) != before {
		t.Errorf("while the peer is down, %d runs begin: %+v", len(all)-before, all[before:])
	}
	if !s.has("lb", 9000, 9001, 9002)() || !s.has("mixed", 9000, 9001)() {
		t.Errorf("while the peer is down, there are %q and %q", s.read("lb.txt"), s.read("mixed.txt"))
	}

	s.there.Restart()
	s.exports(9003)
	eventually(t, "what has changed is applied", func() bool {
		return s.has("lb", 9000, 9001, 9002, 9003)() && strings.Contains(s.read("mixed.txt"), "9002")
	})
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	s.awaitPhase("mixed", apispec.PhaseApplied, "")

	// The peering is deleted: Consul shows no instances of it at all.
	before = len(s.runs())
	s.consul.EndPeering("cluster-02")
	s.awaitPhase("lb", apispec.PhaseUnreadable, "there is no peering with this name")
	if all := s.runs(); len(all) != before {
		t.Errorf("without the peering, %d runs begin: %+v", len(all)-before, all[before:])
	}
	s.there.EndPeering(consultest.Importer)
	s.consul.ImportFrom(s.there, "cluster-02")
	s.consul.Imported("cluster-02", "web", 4)
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	s.lacksNothing("after all")
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// HCP Terraform has planned what the peer showed, and the peer does not answer any more: the plan is not
// confirmed before it does. Then it is, because the data is the same.
func TestHCP_PlanIsNotConfirmedWhileThePeerIsDown(t *testing.T) {
	s := newPeerCloud(t)
	p := s.start("-config-file", s.file)
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	s.awaitPhase("mixed", apispec.PhaseApplied, "")
	planning := s.hcp.Hold("planning")
	defer planning.Release()
	s.exports(9002)
	run := s.hcp.AwaitRun("cts-lb", 2)
	s.hcp.Await(run.ID, "planning")
	eventually(t, "lb waits for the plan", func() bool { return s.shown("lb")[0].State == apispec.RunStateWaiting })
	s.there.Stop()
	eventually(t, "the outage of the peer is noticed", func() bool { return strings.Contains(p.stderr.String(), "the task cannot be read, it waits") })
	planning.Release()
	s.hcp.Await(run.ID, "planned")
	s.awaitPhase("lb", apispec.PhaseUnreadable, "the peer does not answer")
	if got := s.hcp.Run(run.ID); got.Status != "planned" || !got.Confirmable || s.read("lb.txt") == "" || strings.Contains(s.read("lb.txt"), "9002") {
		t.Errorf("while the peer is down, the run is %s, and applied is %q", got.Status, s.read("lb.txt"))
	}
	s.there.Restart()
	s.hcp.Await(run.ID, "applied")
	eventually(t, "the change is applied", s.has("lb", 9000, 9001, 9002))
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	if n := len(s.hcp.Workspace("cts-lb").Runs); n != 2 {
		t.Errorf("%d runs began in HCP Terraform, want 2", n)
	}
	s.lacksNothing("after all")
}
