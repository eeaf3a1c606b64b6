package terraformcli

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
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

// lineage distinguishes states of the same content.
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
	if sum := s.apply(d); sum.Any() {
		s.t.Errorf("the state was lost: %+v", sum)
	}
}

// readable fails the test if the state is read from Consul otherwise than
// Terraform reads it.
func (s states) readable() {
	s.t.Helper()
	d := s.open()
	want, err := d.pull(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := d.consulState(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(got, &a), json.Unmarshal(want, &b)); err != nil || !cmp.Equal(a, b) {
		s.t.Errorf("read %v: %s\nTerraform reads %s", err, got, want)
	}
}

func TestMove_TakesOnlyTheTasksState(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul")
	}
	s := states{newFixture(t, fileModule), consultest.Start(t)}
	s.cfg.Consul.Address = s.server.Addr()
	s.render("api")
	s.init(s.open(), true)
	s.apply(s.open()) // local

	s.in("one/state")
	s.init(s.open(), true)
	s.nothing(s.open())
	mine := lineage(t, s.get("one/state-env:web"))
	s.readable()
	s.cfg.Terraform.Backend.Body.Attributes["gzip"] = cty.True
	s.render("api", "db")
	s.init(s.open(), true)
	s.apply(s.open())
	s.readable()
	s.in("one/state") // without gzip again
	s.init(s.open(), true)
	s.apply(s.open())

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

	// A state of something else needs a person.
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

// Two instances with directories of their own are moved to another backend one
// after the other, and the second applies in the old backend in between.
func TestInit_MoveKeepsACopyOfAStateThatWentOnByItself(t *testing.T) {
	f, server := onServer(t)
	one, two := f.dir, filepath.Join(t.TempDir(), "web")
	var events testtools.Output
	run := func(path, dir string, services ...string) {
		t.Helper()
		f.dir = dir
		f.cfg.Terraform.Backend.Body.Attributes["address"] = text(server.URL + path)
		f.render(services...)
		d := f.open(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&events, nil)) })
		if _, err := d.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.apply(d)
	}
	run("/a", two, "v1")
	run("/a", one, "v1")
	run("/web", one, "v2")
	if len(f.kept("replaced")) > 0 || events.String() != "" {
		t.Errorf("a move to an empty backend kept a state: %s", &events)
	}
	replaced := server.state()
	for _, service := range []string{"v3", "v4", "v5"} {
		run("/a", two, service)
	}
	run("/web", two, "v5")
	if got := f.kept("replaced"); len(got) != 1 || strings.TrimSpace(got[0]) != strings.TrimSpace(replaced) {
		t.Errorf("kept are %q, want %s", got, replaced)
	}
	for name, text := range map[string]string{"output": f.log.String(), "log": events.String()} {
		if strings.Count(text, filepath.Join(two, "replaced.tfstate.2")) != 1 {
			t.Errorf("the %s does not name the copy once:\n%s", name, text)
		}
	}
	if !strings.Contains(events.String(), "level=WARN") || !strings.Contains(server.state(), "v5") {
		t.Errorf("the log says %s, and the state is %s", &events, server.state())
	}
}
