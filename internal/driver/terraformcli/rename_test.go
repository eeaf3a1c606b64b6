package terraformcli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// placeModule is fileModule with a file that does not depend on the module's name,
// as path.module does.
func placeModule(t *testing.T) string {
	return strings.ReplaceAll(fileModule, "${path.module}", filepath.ToSlash(t.TempDir()))
}

// rename gives the fixture's task another name, in another directory.
func (f *fixture) rename(to string) Former {
	f.t.Helper()
	former := Former{Task: f.task.Name, Backend: f.cfg.Terraform.Backend, Dirs: []string{filepath.Join(filepath.Dir(f.dir), "elsewhere"), f.dir}}
	f.task.Name, f.dir = to, filepath.Join(filepath.Dir(f.dir), to)
	f.render("api")
	return former
}

// takes takes the state along, and fails the test if anything is made anew.
func (f *fixture) takes(former Former) {
	f.t.Helper()
	d := f.open()
	if _, err := d.Init(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	if err := d.TakeAlong(f.t.Context(), true, former); err != nil {
		f.t.Fatalf("%v\n%s", err, f.log.String())
	}
	if sum := f.apply(d); sum.Any() {
		f.t.Errorf("something was made anew: %+v\n%s", sum, f.log.String())
	}
}

func TestTakeAlong_LocalStateIsThatOfTheNewName(t *testing.T) {
	f := newFixture(t, placeModule(t))
	before := f.open().localState()
	f.init(f.open(), true)
	f.apply(f.open())
	was := read(t, before)

	former := f.rename("web2")
	f.takes(former)
	if exists(filepath.Dir(before)) {
		t.Error("the workspace before is still there")
	}
	now := read(t, f.open().localState())
	if lineage(t, now) != lineage(t, was) || !hasModule([]byte(now), "web2") || hasModule([]byte(now), "web") {
		t.Errorf("the state is now\n%s", now)
	}
	f.takes(former) // the outcome of the run was lost: nothing is left to do

	// A crash came between the copy and the removal.
	write(t, before, was)
	f.takes(former)
	if exists(before) || read(t, f.open().localState()) != now {
		t.Error("the move was not finished, or the new state has changed")
	}
}

func TestTakeAlong_RefusesToGuess(t *testing.T) {
	f := newFixture(t, placeModule(t))
	before := f.open().localState()
	f.init(f.open(), true)
	f.apply(f.open())
	was := read(t, before)
	former := f.rename("web2")
	f.init(f.open(), true)
	f.apply(f.open()) // made anew
	now := read(t, f.open().localState())
	err := f.open().TakeAlong(t.Context(), true, former)
	if err == nil || !strings.Contains(err.Error(), "both names have a state") {
		t.Errorf("two states: %v", err)
	}
	if read(t, before) != was || read(t, f.open().localState()) != now {
		t.Error("a state was replaced")
	}

	if err := os.Remove(before); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.open().localState()); err != nil {
		t.Fatal(err)
	}
	if err := f.open().TakeAlong(t.Context(), true, former); err == nil || !strings.Contains(err.Error(), "no state under either name") {
		t.Errorf("no state: %v", err)
	}
	// The task was never applied.
	if err := f.open().TakeAlong(t.Context(), false, former); err != nil {
		t.Errorf("no state, and none is expected: %v", err)
	}
}

func TestTakeAlong_StateInConsulIsThatOfTheNewName(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul")
	}
	s := states{newFixture(t, placeModule(t)), consultest.Start(t)}
	s.cfg.Consul.Address = s.server.Addr()
	s.in("one/state")
	s.init(s.open(), true)
	s.apply(s.open())
	was := s.get("one/state-env:web")

	former := s.rename("web2")
	s.takes(former)
	if got := s.get("one/state-env:web"); got != "" {
		t.Errorf("the state before is still there: %s", got)
	}
	now := s.get("one/state-env:web2")
	if lineage(t, now) != lineage(t, was) || !hasModule([]byte(now), "web2") {
		t.Errorf("the state is now\n%s", now)
	}
	s.put("one/state-env:web", was) // a crash came between the copy and the removal
	s.takes(former)
	if got := s.get("one/state-env:web"); got != "" || s.get("one/state-env:web2") != now {
		t.Errorf("the move was not finished: %q", got)
	}
}

// A move that is interrupted at any point ends with one state, the one of the task.
func TestTakeAlong_InterruptedMoveLosesNothing(t *testing.T) {
	f := newFixture(t, placeModule(t))
	f.cfg.Terraform.Backend.Body = config.Body{Attributes: map[string]cty.Value{"workspace_dir": cty.StringVal(t.TempDir())}}
	f.render("api")
	f.init(f.open(), true)
	f.apply(f.open())
	before := f.open().localState()
	former := f.rename("web2")
	f.init(f.open(), true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.open().TakeAlong(ctx, true, former); err == nil {
		t.Error("an interrupted move succeeded")
	}
	if !exists(before) {
		t.Fatal("the state is lost")
	}
	f.takes(former)
	if exists(before) {
		t.Error("the state before is still there")
	}
}

func TestTakeAlong_RenamedTwiceFindsTheStateUnderEachFormerName(t *testing.T) {
	for _, applied := range []string{"web", "web2"} { // perhaps a run under the second name has moved it
		f := newFixture(t, placeModule(t))
		f.init(f.open(), true)
		f.apply(f.open())
		first := f.rename("web2")
		if applied == "web2" {
			f.takes(first)
		}
		second := f.rename("web3")
		d := f.open()
		if _, err := d.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.TakeAlong(t.Context(), true, second, first); err != nil {
			t.Fatalf("the state of %s: %v", applied, err)
		}
		if sum := f.apply(d); sum.Any() {
			t.Errorf("the state of %s: something was made anew: %+v\n%s", applied, sum, f.log.String())
		}
	}
}

// An apply under the former name could not save its state.
func TestTakeAlong_UnsavedStateGoesAlong(t *testing.T) {
	f := newFixture(t, placeModule(t))
	backend, left := f.open().localState(), filepath.Join(f.dir, "errored.tfstate")
	f.render()
	f.init(f.open(), true)
	f.apply(f.open())
	was := read(t, backend)
	f.render("api")
	f.apply(f.open())
	write(t, left, read(t, backend))
	write(t, backend, was)
	f.began(was)

	former := f.rename("web2")
	f.takes(former)
	if exists(left) || exists(backend) {
		t.Error("the state is still under the former name")
	}
	f.takes(former) // the outcome of the run was lost: nothing is left to do
}

func TestTakeAlong_UnsavedStateOfWhichTheBackendHasANewerOneIsKeptAside(t *testing.T) {
	f := newFixture(t, placeModule(t))
	backend, left := f.open().localState(), filepath.Join(f.dir, "errored.tfstate")
	f.init(f.open(), true)
	f.apply(f.open())
	f.began(read(t, backend))
	write(t, left, serial(t, read(t, backend), 2))
	write(t, backend, serial(t, strings.ReplaceAll(read(t, backend), `"api"`, `"by another instance"`), 1))
	former := f.rename("web2")
	d := f.open()
	if _, err := d.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.TakeAlong(t.Context(), true, former); err != nil {
		t.Fatal(err)
	}
	if kept, _ := filepath.Glob(filepath.Join(filepath.Dir(left), "errored.tfstate.*")); len(kept) != 1 || exists(left) {
		t.Errorf("kept aside: %v", kept)
	}
	if now := read(t, d.localState()); !strings.Contains(now, "by another instance") {
		t.Errorf("the state is\n%s", now)
	}
}

// The run of the new name has moved the state, and could not save what it has made.
func TestTakeAlong_UnsavedStateOfTheNewNameStaysThere(t *testing.T) {
	f := newFixture(t, placeModule(t))
	f.init(f.open(), true)
	f.apply(f.open())
	former := f.rename("web2")
	former.Dirs = append(former.Dirs, f.dir)
	f.takes(former)
	moved := read(t, f.open().localState())
	f.render("api", "db")
	f.apply(f.open())
	write(t, filepath.Join(f.dir, "errored.tfstate"), read(t, f.open().localState()))
	write(t, f.open().localState(), moved)
	f.began(moved)
	f.takes(former)
}
