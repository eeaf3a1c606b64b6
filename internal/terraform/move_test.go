package terraform

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

// states is a Consul that keeps the states of a fixture.
type states struct {
	*fixture
	server *consultest.Server
}

// in has the fixture's state at a path from now on.
func (s states) in(path string) {
	s.t.Helper()
	s.cfg.Terraform.Backend = config.Backend{Type: "consul", Body: config.Body{Attributes: map[string]cty.Value{
		"address": cty.StringVal(s.server.Addr()), "path": cty.StringVal(path), "gzip": cty.False}}}
	s.render("api")
}

func (s states) get(key string) string {
	s.t.Helper()
	pair, _, err := s.server.Client().KV().Get(key, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if pair == nil {
		return ""
	}
	return string(pair.Value)
}

func (s states) put(key, value string) {
	s.t.Helper()
	if _, err := s.server.Client().KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
		s.t.Fatal(err)
	}
}

// lineage tells a state from others of the same content.
func lineage(t *testing.T, state string) string {
	t.Helper()
	var s struct{ Lineage string }
	if err := json.Unmarshal([]byte(state), &s); err != nil || s.Lineage == "" {
		t.Fatalf("%v in %.200s", err, state)
	}
	return s.Lineage
}

// nothing fails the test if the apply finds something to do.
func (s states) nothing(d *Dir) {
	s.t.Helper()
	if sum := s.apply(d); sum.Changes {
		s.t.Errorf("the state was lost: %+v", sum)
	}
}

func TestATaskTakesItsStateToAnotherBackendAndLeavesThoseOfOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul")
	}
	s := states{newFixture(t, fileModule), consultest.Start(t)}
	s.render("api")
	s.init(s.open(), true)
	s.apply(s.open()) // local

	s.in("one/state")
	s.init(s.open(), true)
	s.nothing(s.open())
	mine := lineage(t, s.get("one/state-env:web"))

	// Another task has moved before, and its state has grown since.
	other := strings.Replace(s.get("one/state-env:web"), mine, "11111111-2222-3333-4444-555555555555", 1)
	s.put("one/state-env:other", other)
	const grown = "the state that the other task has now"
	s.put("two/state-env:other", grown)
	s.in("two/state")
	s.init(s.open(), true)
	s.init(s.open(), false)
	s.nothing(s.open())
	if got := lineage(t, s.get("two/state-env:web")); got != mine {
		t.Errorf("the state is %s, not %s", got, mine)
	}
	if got := s.get("two/state-env:other"); got != grown {
		t.Errorf("the state of another task was replaced by %.300s", got)
	}

	// Back again: what was left there is older, and is replaced.
	s.render("api", "db")
	s.apply(s.open())
	s.in("one/state")
	s.render("api", "db")
	s.init(s.open(), true)
	s.nothing(s.open())

	// A state that is newer than the one that comes stays.
	s.put("three/state-env:web", strings.Replace(s.get("one/state-env:web"), `"serial": `, `"serial": 9`, 1))
	newer := s.get("three/state-env:web")
	s.in("three/state")
	s.render("api", "db")
	s.init(s.open(), true)
	if got := s.get("three/state-env:web"); got != newer {
		t.Errorf("a newer state was replaced by %.300s", got)
	}

	// One of something else is a person's to look at.
	s.put("four/state-env:web", strings.Replace(newer, mine, "11111111-2222-3333-4444-555555555555", 1))
	s.in("four/state")
	_, err := s.open().Init(t.Context())
	if err == nil || !strings.Contains(err.Error(), "move the state of task web from the backend") ||
		!strings.Contains(err.Error(), "holds another state") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("a state that has nothing to do with this one: %v", err)
	}
	s.in("five/state") // so another place is found for it
	s.render("api", "db")
	s.init(s.open(), true)
	s.nothing(s.open())
	if got := lineage(t, s.get("five/state-env:web")); got != mine {
		t.Errorf("the state is %s, not %s", got, mine)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
}
