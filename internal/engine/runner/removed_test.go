package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
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
	b.Runner.Bundle = func(context.Context, string) (*config.Config, error) {
		return nil, &bundle.InvalidError{Err: errors.New("the object does not exist")}
	}
	_, task, err = b.Runner.removed(t.Context(), now, state.Launch{Bundle: "b2"}, planned)
	if _, missing := os.Stat(task.Module); err != nil || !errors.Is(missing, os.ErrNotExist) {
		t.Errorf("its module is %s (%v)", task.Module, err)
	}
	// A bundle that cannot be read now does not count as gone.
	b.Runner.Bundle = func(context.Context, string) (*config.Config, error) { return nil, errors.New("SlowDown") }
	if _, _, err := b.Runner.removed(t.Context(), now, state.Launch{Bundle: "b2"}, planned); err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("the bundle cannot be read: %v", err)
	}
	planned.Definition = "other"
	if _, _, err := b.Runner.removed(t.Context(), now, state.Launch{Bundle: "b2"}, planned); !errors.Is(err, errSuperseded) {
		t.Errorf("decided on another definition: %v", err)
	}
}
