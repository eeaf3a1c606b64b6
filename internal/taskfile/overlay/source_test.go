package overlay_test

import (
	"context"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// listed counts how often collections are read.
type listed struct {
	state.Store
	times int
}

func (l *listed) List(ctx context.Context, prefix string) ([]state.Record, error) {
	l.times++
	return l.Store.List(ctx, prefix)
}

func TestSource_ReadsOverridesOnlyAfterAChange(t *testing.T) {
	file := statetest.NewMemory()
	defer file.Close()
	store, source, files := &listed{Store: file}, new(overlay.Source), base()
	read := func(base *config.Config, want string, times int) {
		t.Helper()
		e, err := source.Read(t.Context(), store, base)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(e.Config); got != want || store.times != times {
			t.Errorf("tasks %s, want %s; the overrides were read %d times, want %d", got, want, store.times, times)
		}
	}
	change := func(id string, o state.Override) {
		t.Helper()
		rec, err := state.Read[state.Reconcile](t.Context(), store, state.ReconcileKey)
		if err != nil {
			t.Fatal(err)
		}
		was, err := state.Read[state.Override](t.Context(), store, state.OverrideKey(o.Task))
		if err != nil {
			t.Fatal(err)
		}
		next := rec.Data
		next.Overrides = id
		if _, err := store.Apply(t.Context(), rec.Write(next), was.Write(o)); err != nil {
			t.Fatal(err)
		}
	}
	read(files, "web db", 0)
	change("c1", made("api", noon))
	read(files, "web db api (API)", 1)
	read(files, "web db api (API)", 1)
	no := false
	change("c2", state.Override{Task: "db", Enabled: &no, Made: noon})
	read(files, "web db (disabled) api (API)", 2)
	read(base(), "web db (disabled) api (API)", 3) // the files were read again
	change("c3", state.Override{Task: "db", Enabled: &no, Made: noon, By: "Jo"})
	e, err := source.At(t.Context(), store, files, "c3")
	if err != nil || e.Overrides["db"].By != "Jo" {
		t.Errorf("%+v, %v", e, err)
	}
	if again, err := source.At(t.Context(), store, files, "c3"); err != nil || again != e {
		t.Errorf("composed again (%v)", err)
	}
}
