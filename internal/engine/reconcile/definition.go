package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// maxKept is how long the kept definition of a task may be, in bytes.
const maxKept = 64 << 10

// kept is the definition of a task as it is kept, and its digest.
type kept struct {
	definition state.Definition
	digest     string
	incomplete bool // it is not known yet which variables are secret: all are left out
}

// toKeep returns the definition that is kept of a task, so that it can be destroyed
// when it is removed; nil if it is not to be destroyed then. The bundle does not
// count for the digest: the files of the module do.
func (r *Reconciler) toKeep(cfg *config.Config, t *config.Task) *kept {
	if t.Removal.On != removal.Destroy {
		return nil
	}
	secret, incomplete := func(string) bool { return false }, false
	if r.Secret != nil && len(t.Variables) > 0 {
		if secret = r.Secret(t); secret == nil {
			secret, incomplete = func(string) bool { return true }, true
		}
	}
	d, err := overlay.DefinitionOf(cfg, t, "", secret)
	if err == nil && len(d.Task) > maxKept {
		err = fmt.Errorf("it has %d bytes, and at most %d are kept", len(d.Task), maxKept)
	}
	if err != nil {
		r.Log.Error("the definition of a task cannot be kept: use `terrapulse destroy` before you remove the task, or its infrastructure stays", "task", t.Name, "error", err)
		return nil
	}
	sum := sha256.Sum256(state.Encode(d))
	if d.Module != "" {
		d.Bundle = r.Bundle
	}
	return &kept{d, hex.EncodeToString(sum[:]), incomplete}
}

// keep returns the change of what is kept of a task's definition; nil if there is
// none. A definition is kept from the first run that may apply it, and that of a renamed task
// that has begun a run from the rename on. A changed on_removal counts at once.
func (t *tick) keep(ctx context.Context, d decide.Decision, next *state.Task) (*state.Change, error) {
	if d.Removed || d.Definition == "" {
		return nil, nil
	}
	want := t.kept[d.Task.Name]
	if want != nil && want.incomplete {
		want = t.toKeep(t.effective.Config, d.Task)
		t.kept[d.Task.Name] = want
	}
	switch {
	case want == nil && next.OnRemoval == "", want != nil && want.digest == next.OnRemoval:
		return nil, nil
	case want != nil && next.OnRemoval == "" && len(next.Former.Moving) > 0 && next.Attempted != state.Attempt{} && !next.Destroyed(): // what was kept under the former name is gone
	case want != nil && next.Applied.Definition != d.Definition && (d.Action != decide.Run || d.Kind != state.KindApply):
		return nil, nil // no run has begun with it yet
	}
	rec, err := t.Store.Get(ctx, state.DefinitionKey(d.Task.Name))
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return nil, fmt.Errorf("read what task %s was applied with: %w", d.Task.Name, err)
	}
	rec.Key = state.DefinitionKey(d.Task.Name)
	if want == nil {
		next.OnRemoval = ""
		if rec.Version == "" {
			return nil, nil
		}
		change := state.Delete(rec)
		return &change, nil
	}
	next.OnRemoval = want.digest
	change := state.Stored[state.Definition]{Record: rec}.Write(want.definition)
	return &change, nil
}

// restore adds to the input of a removed task what it is destroyed with, if it is to
// be destroyed.
func (t *tick) restore(ctx context.Context, in *decide.Input) error {
	if in.State.OnRemoval == "" || in.Blocked != nil || in.Corrupt != nil {
		return nil
	}
	name := in.Task.Name
	d, err := state.LoadDefinition(ctx, t.Store, name)
	if missing := errors.Is(err, state.ErrNotFound) || errors.As(err, new(*state.CorruptError)); err != nil && !missing {
		return err
	}
	if err == nil {
		var cfg *config.Config
		var task *config.Task
		if cfg, task, err = overlay.Restore(t.effective.Config, name, d); err == nil {
			in.Task, in.Definition, in.Destroy = task, task.Digest(cfg), true
			t.definitions[name] = in.Definition
			return nil
		}
	}
	in.Undestroyable = err
	return nil
}
