package reconcile

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

func TestTick_DeletedTaskIsDestroyedBeforeItsRecordsAreErased(t *testing.T) {
	b := newBench(t)
	b.Config.Rules.Removal = removal.Default
	c := controlOf(b)
	definition := json.RawMessage(`{"name":"api","module":"./m","on_removal":"destroy","condition":{"services":{"names":["web"]}}}`)
	if _, _, err := c.Create(t.Context(), definition, control.ChangeOptions{By: "ci", Provisional: true}); err != nil {
		t.Fatal(err)
	}
	b.tick()
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()
	if b.task("api").OnRemoval == "" {
		t.Fatal("its definition is not kept")
	}
	if _, err := c.Delete(t.Context(), "api", "ci"); err != nil {
		t.Fatal(err)
	}
	// The process dies after the task was removed: another one destroys it.
	cfg := b.Config
	b.Reconciler = b.another(nil)
	b.Config = cfg
	report := b.tick()
	if len(report.Launches) != 1 || report.Launches[0].Kind != state.KindDestroy {
		t.Fatalf("launched %+v", report.Launches)
	}
	b.end(state.RunSucceeded, "")
	b.now = b.now.Add(liveCheck)
	b.tick()
	b.tick()
	if n := b.kept(); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestTick_OnRemovalCountsAsItWasInForceLast(t *testing.T) {
	dir := t.TempDir()
	load := func(text string) *config.Config { return configtest.Load(t, dir, "f.hcl", text) }
	task := func(on removal.Action) string {
		return fmt.Sprintf("task {\n name = \"task-0\"\n module = \"./m\"\n on_removal = %q\n condition \"services\" {\n names = [\"web\"]\n }\n}\n", on)
	}
	for last, first := range map[removal.Action]removal.Action{removal.Keep: removal.Destroy, removal.Destroy: removal.Keep} {
		b := newBench(t)
		b.Config = load(task(first))
		b.settle()
		b.Config, b.effective = load(task(last)), nil
		if report := b.tick(); len(report.Launches) != 0 { // no run is needed for that
			t.Fatalf("launched %+v", report.Launches)
		}
		b.Config, b.effective = load("port = 1\n"), nil
		if report := b.removed(); (len(report.Launches) == 1) != (last == removal.Destroy) {
			t.Errorf("%s: launched %+v; %+v", last, report.Launches, b.task("task-0").Reason)
		}
	}
}
