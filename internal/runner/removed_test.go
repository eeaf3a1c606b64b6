package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/configtest"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/state"
)

func TestRemoved_ModuleIsThatOfTheBundleThatWasApplied(t *testing.T) {
	b := newFixture(t, nil)
	old := configtest.Load(t, t.TempDir(), "f.hcl", "task {\n name = \"gone\"\n module = \"./module\"\n on_removal = \"destroy\"\n}\n")
	now := configtest.Load(t, t.TempDir(), "f.hcl", "port = 1\n")
	was, _ := old.Task("gone")
	was.ModuleDigest = "files"
	d, err := overlay.DefinitionOf(old, was, "b1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Apply(t.Context(), state.Create(state.DefinitionKey("gone"), state.Encode(d))); err != nil {
		t.Fatal(err)
	}
	cfg, restored, err := overlay.Restore(now, "gone", d)
	if err != nil {
		t.Fatal(err)
	}
	planned := state.PlannedRun{ID: "r2", Task: "gone", Definition: restored.Digest(cfg)}
	b.Runner.Bundle = func(_ context.Context, digest string) (*config.Config, error) {
		if digest != "b1" {
			t.Errorf("bundle %s is read", digest)
		}
		return old, nil
	}
	_, task, err := b.Runner.removed(t.Context(), now, state.Launch{Bundle: "b2"}, planned)
	if err != nil || task.Module != filepath.Join(old.Dir(), "module") {
		t.Errorf("its module is %+v (%v)", task, err)
	}

	// Without that bundle, no other module is used.
	b.Runner.Bundle = func(context.Context, string) (*config.Config, error) { return nil, nil }
	_, task, err = b.Runner.removed(t.Context(), now, state.Launch{Bundle: "b2"}, planned)
	if _, missing := os.Stat(task.Module); err != nil || !errors.Is(missing, os.ErrNotExist) {
		t.Errorf("its module is %s (%v)", task.Module, err)
	}
	planned.Definition = "other"
	if _, _, err := b.Runner.removed(t.Context(), now, state.Launch{Bundle: "b2"}, planned); !errors.Is(err, errSuperseded) {
		t.Errorf("decided on another definition: %v", err)
	}
}
