package consul

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// hostileNames are names with which Consul registers a service, and under which nobody can read it.
var hostileNames = []string{"web-a/../b", "web-/./x", "web-//x", "web-/..", "../web-", "web-" + strings.Repeat("x", 5000)}

func TestRegexp_HostileNamesAreLeftOutAndOthersRead(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	for _, name := range []string{"web-1", "web-2", "web-a/b", "web- with ?&#% characters"} {
		register(t, s, "n1", api.AgentService{Service: name, Port: 80})
	}
	before := observe(t, c, query(t, matching("web-")))
	if len(before.Elements) != 4 || len(before.LeftOut) > 0 {
		t.Fatalf("%v, left out are %q", before.Elements, before.LeftOut)
	}
	for _, name := range hostileNames {
		register(t, s, "n2", api.AgentService{Service: name, ID: "hostile-" + name, Port: 80})
	}
	now := observe(t, c, query(t, matching("web-")))
	if now.Digest != before.Digest {
		t.Error("names that cannot be read change what the task is applied with")
	}
	slices.Sort(hostileNames)
	if !slices.Equal(now.LeftOut, hostileNames) {
		t.Errorf("left out are %q", now.LeftOut)
	}
	snap := snapshot(t, c, task(matching("web-")))
	warning := snap.Warning()
	if snap.Condition.Digest != before.Digest || !strings.Contains(warning, `"web-a/../b"`) || !strings.Contains(warning, "and 1 more") || len(warning) > 1000 {
		t.Errorf("the warning is %q", warning)
	}
	if other := observe(t, c, query(t, matching("^db"))); len(other.LeftOut) > 0 {
		t.Errorf("a task that does not select them leaves out %q", other.LeftOut)
	}
}

// A name that was never read cannot vanish, and one that hides behind a hostile name can.
func TestRegexp_HostileNameNeitherComesNorGoes(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	register(t, s, "n1", api.AgentService{Service: "web-1", Port: 80})
	register(t, s, "n1", api.AgentService{Service: "web-2", Port: 80})
	register(t, s, "n1", api.AgentService{Service: "web-a/../b", Port: 80})
	before := observe(t, c, query(t, matching("web-")))
	known := sources(t, c, matching("web-"))
	if slices.ContainsFunc(known, func(s string) bool { return strings.Contains(s, "..") }) {
		t.Errorf("the sources are %q", known)
	}
	for _, id := range []string{"web-a/../b", "web-2"} {
		if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: "n1", ServiceID: id}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := confirm(t, c, matching("web-"), known); err != nil {
		t.Errorf("what vanished is not confirmed: %v", err)
	}
	now := observe(t, c, query(t, matching("web-")))
	d := Diff(condition.ServicesKind.Entries, before.Elements, before.Details, now)
	if d.Changes().Removed != 1 || len(now.LeftOut) > 0 {
		t.Errorf("%d entries vanished, left out are %q", d.Changes().Removed, now.LeftOut)
	}
}

// The names alone need no address, so catalog-services has them: one that vanishes must be
// confirmed all the same.
func TestVisibility_HostileNameThatWasAppliedAndVanished(t *testing.T) {
	s := consultest.Start(t)
	spec := condition.CatalogServices{Regexp: ".*"}
	c := client(t, s.Addr())
	register(t, s, "n1", api.AgentService{Service: "web", Port: 80})
	register(t, s, "n1", api.AgentService{Service: "web-a/../b", Port: 80})
	known := sources(t, c, spec)
	if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: "n1", ServiceID: "web-a/../b"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := confirm(t, c, spec, known); err != nil {
		t.Errorf("the vanished name is not confirmed: %v", err)
	}
}
