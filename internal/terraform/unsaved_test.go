package terraform

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/config"
)

// onServer has the fixture's task keep its state on a server.
func onServer(t *testing.T) (*fixture, *stateServer) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	server := newStateServer(t)
	f := newFixture(t, dataModule)
	f.cfg.Terraform.Backend = config.Backend{Type: "http", Body: config.Body{Attributes: attributes{
		"address": text(server.URL + "/web"), "retry_max": cty.NumberIntVal(0),
	}}}
	f.render("api")
	f.init(f.open(), true)
	return f, server
}

// refuseNext has the server take the states after the next n.
func (s *stateServer) refuseNext(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = func() bool { n--; return n >= 0 }
}

func TestAStateThatIsNotTakenAtFirstIsSavedByTheSameRun(t *testing.T) {
	f, server := onServer(t)
	server.refuseNext(2)
	if _, err := f.open().Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "saved now") || !strings.Contains(err.Error(), "Failed to save state") {
		t.Errorf("error = %v", err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "errored.tfstate")); err == nil {
		t.Error("the state is still in the directory")
	}
	if s := f.apply(f.open()); s.Changes {
		t.Errorf("it is made again: %+v\n%s", s, f.log.String())
	}
}

func TestTheNextRunSavesAStateFirstThatWasNotTaken(t *testing.T) {
	f, server := onServer(t)
	left := filepath.Join(f.dir, "errored.tfstate")

	// The server takes none until the program is told to stop.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var refused atomic.Int64
	server.mu.Lock()
	server.refuse = func() bool {
		if refused.Add(1) == 2 {
			stop()
		}
		return true
	}
	server.mu.Unlock()
	if _, err := f.open().Apply(ctx); err == nil || !strings.Contains(err.Error(), left) || !strings.Contains(err.Error(), "the next run") {
		t.Errorf("error = %v", err)
	}

	// As long as that is so, nothing is applied from the state before.
	before := refused.Load()
	if _, err := f.open().Apply(t.Context()); err == nil || !strings.Contains(err.Error(), left) || refused.Load() != before+1 {
		t.Errorf("error = %v, and the server was given %d states", err, refused.Load()-before)
	}

	server.refuseNext(0)
	if s := f.apply(f.open()); s.Changes {
		t.Errorf("it is made again: %+v\n%s", s, f.log.String())
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the state is still in the directory")
	}
}

func TestAStateThatWasLeftDoesNotReplaceOneThatHasGoneOn(t *testing.T) {
	f, server := onServer(t)
	f.apply(f.open())
	server.mu.Lock()
	old := server.states["/web"]
	server.mu.Unlock()
	f.render("api", "db")
	f.apply(f.open())
	server.mu.Lock()
	now := server.states["/web"]
	server.mu.Unlock()

	for name, left := range map[string]string{
		"an older one":           old,
		"one of as many changes": strings.Replace(now, `"api,db"`, `"cache"`, 1),
		"one of something else":  strings.Replace(now, lineage(t, now), "11111111-2222-3333-4444-555555555555", 1),
	} {
		write(t, filepath.Join(f.dir, "errored.tfstate"), left)
		if s := f.apply(f.open()); s.Changes {
			t.Errorf("%s: %+v", name, s)
		}
		kept, err := os.ReadFile(filepath.Join(f.dir, "errored.tfstate.outdated"))
		if err != nil || string(kept) != left || !strings.Contains(f.log.String(), "errored.tfstate.outdated") {
			t.Errorf("%s: nobody can look at it: %v\n%s", name, err, f.log.String())
		}
		if _, err := os.Stat(filepath.Join(f.dir, "errored.tfstate")); err == nil {
			t.Errorf("%s is found again each time", name)
		}
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.states["/web"] != now {
		t.Errorf("the state is %s", server.states["/web"])
	}
}
