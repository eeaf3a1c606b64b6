package overview_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/overview"
	"github.com/terrapulse/terrapulse/internal/state"
)

// shown returns the only task of a task file as the overview shows it at a time.
func shown(t *testing.T, file string, record state.Task, now time.Time) apispec.TaskOverview {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Dir: dir, Paths: []config.Path{{Name: "f.yaml"}}, Getenv: func(string) string { return "" }, Hostname: "host"})
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t)
	write(t, store, state.TaskKey(cfg.Tasks[0].Name), record)
	o, err := overview.Reader{Store: store, Now: func() time.Time { return now }}.Read(t.Context(), overlay.Compose(cfg, nil))
	if err != nil {
		t.Fatal(err)
	}
	return o.Tasks[0]
}

func TestRead_SaysWhatATaskWatches(t *testing.T) {
	for condition, want := range map[string]string{
		"{services: {names: [api, web], datacenter: dc1}}": "services api and web in datacenter dc1; also reads key cfg/a",
		"{schedule: {cron: '0 3 * * *'}}":                  "schedule 0 3 * * *; also reads key cfg/a",
	} {
		got := shown(t, "task:\n  - name: t\n    module: example/m/local\n    condition: "+condition+"\n    module_input: {consul-kv: {path: cfg/a}}\n", state.Task{}, time.Now())
		if apispec.Deref(got.Watches) != want {
			t.Errorf("%s: it watches %s", condition, apispec.Deref(got.Watches))
		}
	}
}
