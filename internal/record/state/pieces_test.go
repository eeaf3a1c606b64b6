package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

func newStore(t *testing.T) *statetest.Faulty {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &statetest.Faulty{Store: s}
}

func TestTheOutputOfARunIsKeptWhole(t *testing.T) {
	s := newStore(t)
	noise := make([]byte, 300<<10) // does not compress: several records
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for _, text := range [][]byte{nil, []byte("Apply complete!\n"), noise, []byte("shorter than before")} {
		if err := state.SaveLog(t.Context(), s, "a task/with slash", "r1", text, time.Time{}); err != nil {
			t.Fatal(err)
		}
		got, err := state.LoadLog(t.Context(), s, "a task/with slash", "r1")
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes came back as %d (%v)", len(text), len(got), err)
		}
	}
	if _, err := state.LoadLog(t.Context(), s, "web", "r2"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("output that was never kept: %v", err)
	}
}

func TestOfMuchOutputTheMiddleIsLeftOut(t *testing.T) {
	var out state.Output
	line := strings.Repeat("x", 1023) + "\n"
	fmt.Fprint(&out, "the beginning\n")
	const lines = 5 * state.MaxLog / 1024
	for range lines {
		fmt.Fprint(&out, line)
	}
	fmt.Fprint(&out, "the end\n")
	text := out.Bytes()
	left := fmt.Sprintf("… %d bytes left out …", len("the beginning\nthe end\n")+lines*len(line)-state.MaxLog)
	if !bytes.HasPrefix(text, []byte("the beginning\n")) || !bytes.HasSuffix(text, []byte("\nthe end\n")) || !bytes.Contains(text, []byte(left)) {
		t.Errorf("kept: %.40q … %q", text, text[len(text)-40:])
	}
	if len(text) > state.MaxLog+100 {
		t.Errorf("%d bytes are kept", len(text))
	}

	var short state.Output
	short.Write(text[:state.MaxLog]) // at once, and just as much as fits
	if !bytes.Equal(short.Bytes(), text[:state.MaxLog]) {
		t.Error("output that is not too long was changed")
	}
}

func TestInputs_DetailsAreKeptBesideTheDigests(t *testing.T) {
	s := newStore(t)
	for name, in := range map[string]state.Inputs{
		"a condition": {Kind: "services", Elements: map[string]string{"web-1": "ab", "web-2": "cd"}, Others: map[string]map[string]string{"consul-kv": {"a b": "ef"}},
			Details: map[string]string{"web-1": "web\tweb 1\t10.0.0.1:80", "web-2": "", "a b": "keys"}},
		"a schedule": {Elements: map[string]string{"a": "ab"}, Others: map[string]map[string]string{"consul-kv": {"a": "ab"}}, Details: map[string]string{"a": "keys"}},
		"no details": {Kind: "services", Elements: map[string]string{"web-1": "ab"}, Sources: []string{"///web/n1"}},
		"nothing":    {},
	} {
		if err := state.SaveInputs(t.Context(), s, name, in); err != nil {
			t.Fatal(err)
		}
		got, err := state.LoadInputs(t.Context(), s, name)
		if diff := cmp.Diff(in, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestAMixtureOfOldAndNewElementsIsNoticed(t *testing.T) {
	s := newStore(t)
	inputs := func(seed string) state.Inputs {
		m := map[string]string{}
		for i := range 30000 {
			m[fmt.Sprintf("web-%d.node.dc1", i)] = fmt.Sprintf("%s%x", seed, rand.Uint64())
		}
		return state.Inputs{Elements: m, Sources: []string{"///web/node/"}}
	}
	before := inputs("a")
	if err := state.SaveInputs(t.Context(), s, "web", before); err != nil {
		t.Fatal(err)
	}
	got, err := state.LoadInputs(t.Context(), s, "web")
	if diff := cmp.Diff(before, got); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	pieces := 0
	s.Before = func([]state.Change) error {
		if pieces++; pieces > 1 {
			return errors.New("killed")
		}
		return nil
	}
	if err := state.SaveInputs(t.Context(), s, "web", inputs("b")); err == nil || pieces < 2 {
		t.Fatalf("%d pieces, %v", pieces, err)
	}
	if _, err := state.LoadInputs(t.Context(), s, "web"); !errors.Is(err, state.ErrTorn) {
		t.Error("a mixture of two versions was taken for one")
	}
}

func TestForget_SkipsWhatAnotherProcessHasRemoved(t *testing.T) {
	s := newStore(t)
	for _, id := range []string{"r1", "r2"} {
		if _, err := s.Apply(t.Context(), state.Create(state.RunKey("web", id), state.Encode(state.Run{ID: id, Kind: state.KindApply, State: state.RunSucceeded}))); err != nil {
			t.Fatal(err)
		}
		if err := state.SaveLog(t.Context(), s, "web", id, []byte(id), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	// Another process removes each record just before this one.
	raw := s.Store
	s.Before = func(changes []state.Change) error {
		_, err := raw.Apply(context.Background(), changes...)
		return err
	}
	if err := state.Forget(t.Context(), s, "web", []string{"r1", "never there"}); err != nil {
		t.Fatal(err)
	}
	s.Before = nil
	for prefix, want := range map[string]int{state.RunPrefix("web"): 1, "log/": 1} {
		if recs, err := s.List(t.Context(), prefix); err != nil || len(recs) != want {
			t.Errorf("%d records below %s (%v), want those of r2", len(recs), prefix, err)
		}
	}
}

func TestErase_KeepsPlanRuns(t *testing.T) {
	s := newStore(t)
	for _, run := range []state.Run{
		{ID: "r1", Kind: state.KindApply, State: state.RunSucceeded}, {ID: "r2", Kind: state.KindPlan, State: state.RunSucceeded},
		{ID: "r3", Kind: state.KindPlan, State: state.RunRunning},
	} {
		if _, err := s.Apply(t.Context(), state.Create(state.RunKey("web", run.ID), state.Encode(run))); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{run.ID, run.ID + "-plan-1"} { // its output and its plan
			if err := state.SaveLog(t.Context(), s, "web", name, []byte("Plan: 1 to add"), time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := state.Erase(t.Context(), s, "web"); err != nil {
		t.Fatal(err)
	}
	for id, kept := range map[string]bool{"r1": false, "r2": true, "r3": true} {
		run, err := state.Read[state.Run](t.Context(), s, state.RunKey("web", id))
		if err != nil {
			t.Fatal(err)
		}
		_, output := state.LoadLog(t.Context(), s, "web", id)
		_, plan := state.LoadLog(t.Context(), s, "web", id+"-plan-1")
		if (output == nil) != kept || (plan == nil) != kept || run.Exists() != kept {
			t.Errorf("run %s is kept: %t, its output: %v, its plan: %v", id, run.Exists(), output, plan)
		}
	}
}

// lister is a store in which something happens after each List.
type lister struct {
	state.Store
	after func()
}

func (l lister) List(ctx context.Context, prefix string) ([]state.Record, error) {
	recs, err := l.Store.List(ctx, prefix)
	l.after()
	return recs, err
}

func TestErase_KeepsPlanRunsThatEndMeanwhile(t *testing.T) {
	s, plans := newStore(t), 0
	l := lister{Store: s, after: func() {
		plans++
		id := fmt.Sprint("plan", plans)
		run := state.Run{ID: id, Kind: state.KindPlan, State: state.RunSucceeded}
		if _, err := s.Apply(t.Context(), state.Create(state.RunKey("web", id), state.Encode(run))); err != nil {
			t.Fatal(err)
		}
		if err := state.SaveLog(t.Context(), s, "web", id, []byte("Plan: 1 to add"), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}}
	if err := state.Erase(t.Context(), l, "web"); err != nil || plans == 0 {
		t.Fatal(plans, err)
	}
	for n := range plans {
		if _, err := state.LoadLog(t.Context(), s, "web", fmt.Sprint("plan", n+1)); err != nil {
			t.Errorf("the output of a plan that was made after list %d: %v", n+1, err)
		}
	}
}
