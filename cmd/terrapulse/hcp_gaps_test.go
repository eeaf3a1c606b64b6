//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// TestHCP_DestructivePlanWaitsAlsoIfTheServerCountsNothing has a server whose plans, applies and
// workspaces do not say how many resources they have.
func TestHCP_DestructivePlanWaitsAlsoIfTheServerCountsNothing(t *testing.T) {
	s, hcp := newCloudSite(t, hcptest.With(hcptest.NoCounts))
	s.start("-config-file", s.cloudConfig(testtools.FreePort(t), `approval = "destructive"`))
	eventually(t, "the service is applied", func() bool { return s.read("lb.txt") == "web 10.0.0.1:8080 passing\n" })
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	if c := s.shown("lb")[0].Changes; c == nil || c.Add != 1 || c.Unknown != nil {
		t.Errorf("the first run changed %+v", c)
	}

	s.register("web", "web-2", 8081, "passing") // which replaces the file
	s.awaitPhase("lb", apispec.PhaseWaiting, "1 resource would be destroyed or replaced")
	if strings.Contains(s.read("lb.txt"), "8081") {
		t.Error("it was applied without an approval")
	}

	hcp.Restrict(hcp.Token, hcptest.Rights{NoPlanJSON: true})
	s.register("web", "web-3", 8082, "passing")
	s.awaitPhase("lb", apispec.PhaseWaiting, "the plan does not say how many resources it destroys or replaces")
	shown := s.run("runs", "lb")
	wantText(t, shown.stdout, "unknown")
}
