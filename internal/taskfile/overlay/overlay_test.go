package overlay_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

func base() *config.Config {
	return &config.Config{WorkingDir: "sync-tasks", Tasks: []config.Task{
		{Name: "web", Module: "web", Enabled: true, WorkingDir: "sync-tasks/web"},
		{Name: "db", Module: "db", Enabled: true, WorkingDir: "sync-tasks/db"},
	}}
}

// made returns an override that creates a task.
func made(name string, at time.Time) state.Override {
	return state.Override{Task: name, Definition: json.RawMessage(`{"name":"` + name + `","module":"` + name + `"}`), Made: at, At: at, By: "a test"}
}

func names(c *config.Config) string {
	var all []string
	for _, t := range c.Tasks {
		name := t.Name
		if t.FromAPI {
			name += " (API)"
		}
		if !t.Enabled {
			name += " (disabled)"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestCompose_OrdersTasksByCreation(t *testing.T) {
	no := false
	overrides := []state.Override{ // a store lists them by name
		made("a", noon.Add(2*time.Second)),
		{Task: "db", Enabled: &no, Made: noon.Add(time.Hour)},
		made("m", noon),
		made("z", noon.Add(time.Second)),
	}
	e := overlay.Compose(base(), slices.Clone(overrides))
	if got, want := names(e.Config), "web db (disabled) m (API) z (API) a (API)"; got != want {
		t.Errorf("tasks %s, want %s", got, want)
	}
	if names(e.Base) != "web db" || len(e.Problems) != 0 || len(e.Overrides) != 4 || e.Overrides["z"].By != "a test" {
		t.Errorf("base %s, problems %v, overrides %+v", names(e.Base), e.Problems, e.Overrides)
	}
	// Every process gets the same result, whatever the order.
	for range 10 {
		again := overlay.Compose(base(), overrides)
		if again.Config.Digest() != e.Config.Digest() {
			t.Fatalf("tasks %s", names(again.Config))
		}
		overrides = append(overrides[1:], overrides[0])
	}
}

func TestCompose_WithoutOverrides(t *testing.T) {
	b := base()
	if e := overlay.Compose(b, nil); e.Config != b || e.Base != b || len(e.Overrides)+len(e.Problems) != 0 {
		t.Errorf("%+v", e)
	}
}

func TestLoad_AppliesOverridesToTheFiles(t *testing.T) {
	store := statetest.NewMemory()
	defer store.Close()
	yes := true
	clash := made("web", noon)
	clash.Provisional = &state.Provisional{Before: &state.Override{Task: "web", Enabled: &yes}}
	wrong := state.Override{Task: "bad", Definition: json.RawMessage(`{"name":"bad"}`)}
	for _, o := range []state.Override{made("späti-1", noon), clash, wrong} {
		if _, err := store.Apply(t.Context(), state.Create(state.OverrideKey(o.Task), state.Encode(o))); err != nil {
			t.Fatal(err)
		}
	}
	e, err := new(overlay.Source).At(t.Context(), store, base(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	if got := names(e.Config); got != "web db späti-1 (API)" {
		t.Errorf("tasks %s", got)
	}
	for task, says := range map[string]string{"web": "what the file says counts", "bad": "module for the task is required"} {
		if problem := e.Problems[task]; problem == nil || !strings.Contains(problem.Error(), says) {
			t.Errorf("problem of %s: %v", task, problem)
		}
	}
	if before := e.Overrides["web"].Provisional.Before; before == nil || before.Enabled == nil || !*before.Enabled {
		t.Errorf("what a provisional change reverts to is not kept: %+v", e.Overrides["web"])
	}
	store.Close()
	if _, err := new(overlay.Source).At(t.Context(), store, base(), "c1"); err == nil || !strings.Contains(err.Error(), "changes made through the API") {
		t.Errorf("without a store: %v", err)
	}
}

func TestDraft_IsNotStored(t *testing.T) {
	e := overlay.Compose(base(), []state.Override{made("z", noon)})
	cfg, task, err := e.Draft(json.RawMessage(`{"name":"new","module":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	if names(cfg) != "web db z (API) new (API)" || names(e.Config) != "web db z (API)" || names(e.Base) != "web db" {
		t.Errorf("with the draft %s, without %s, in the files %s", names(cfg), names(e.Config), names(e.Base))
	}
	if there, ok := cfg.Task("new"); !ok || there != task {
		t.Errorf("the draft is %+v, its configuration has %+v", task, there)
	}
	for definition, says := range map[string]string{
		`{"name":"web","module":"m"}`: "duplicate task name",
		`{"name":"z","module":"m"}`:   "duplicate task name",
		`{"name":"x"}`:                "module for the task is required",
	} {
		_, _, err := e.Draft(json.RawMessage(definition))
		if wrong := (config.Errors)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", definition, err)
		}
	}
}
