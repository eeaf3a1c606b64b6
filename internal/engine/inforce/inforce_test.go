package inforce

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// bucket is a Source whose pointer and bundles can be unreachable.
type bucket struct {
	pointer          string
	pointers, loaded error
	reads            int
}

func (b *bucket) Current(context.Context) (bundle.Pointer, error) {
	b.reads++
	return bundle.Pointer{Digest: b.pointer}, b.pointers
}

func (b *bucket) Load(context.Context, string) (*config.Config, error) {
	return &config.Config{}, b.loaded
}

// setup returns a Follower, and a function that puts a bundle into force.
func setup(t *testing.T) (f *Follower, b *bucket, inForce func(digest string) (version string)) {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	b = &bucket{pointer: "b1"}
	return &Follower{Source: b, Store: store, Now: time.Now}, b, func(digest string) string {
		rec, err := state.Read[state.Reconcile](t.Context(), store, state.ReconcileKey)
		if err != nil {
			t.Fatal(err)
		}
		next := rec.Data
		next.Bundle = digest
		written, err := store.Apply(t.Context(), rec.Write(next))
		if err != nil {
			t.Fatal(err)
		}
		return written[0].Version
	}
}

func refresh(t *testing.T, f *Follower) {
	t.Helper()
	if err := f.Refresh(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
}

func TestFollower_ReplacesOnlyARecordThatWasReadBeforeThePointer(t *testing.T) {
	f, b, inForce := setup(t)
	refresh(t, f)
	if f.Loaded.Digest != "b1" || f.Replaces != "" {
		t.Errorf("at first: %s, which replaces %q", f.Loaded.Digest, f.Replaces)
	}
	version := inForce("b0")
	if !f.IsOther(&reconcile.OtherBundleError{Bundle: "b0", Version: version}) || f.IsOther(errors.New("else")) {
		t.Error("another bundle is not told from another error")
	}
	refresh(t, f)
	if f.Loaded.Digest != "b1" || f.Replaces != version {
		t.Errorf("the pointer was read since: %s, which replaces %q", f.Loaded.Digest, f.Replaces)
	}
	version = inForce("b2")
	f.IsOther(&reconcile.OtherBundleError{Bundle: "b2", Version: version})
	b.pointers = errors.New("SlowDown")
	refresh(t, f)
	if f.Loaded.Digest != "b2" || f.Replaces != "" || f.Problem == "" {
		t.Errorf("the pointer could not be read: %s, which replaces %q, problem %q", f.Loaded.Digest, f.Replaces, f.Problem)
	}
}

func TestFollower_WithNothingInForceAProblemIsAnError(t *testing.T) {
	f, b, _ := setup(t)
	b.pointer = ""
	if err := f.Refresh(t.Context(), slog.New(slog.DiscardHandler)); !errors.Is(err, ErrNone) {
		t.Errorf("nothing was pushed: %v", err)
	}
	b.pointer, b.loaded = "b1", errors.New("SlowDown")
	if err := f.Refresh(t.Context(), slog.New(slog.DiscardHandler)); !errors.Is(err, b.loaded) {
		t.Errorf("the first bundle cannot be read: %v", err)
	}
	b.loaded = &bundle.InvalidError{Err: errors.New("web.yaml:3: nonsense")}
	if err := f.Refresh(t.Context(), slog.New(slog.DiscardHandler)); !errors.Is(err, ErrNone) {
		t.Errorf("the first bundle is wrong: %v", err)
	}
	for range 2 { // the same bundle is refused once
		if all, err := f.Store.List(t.Context(), outbox.Prefix); err != nil || len(all) != 1 || !strings.Contains(string(all[0].Value), `"configuration_refused"`) {
			t.Errorf("the events are %s (%v)", all, err)
		}
		_ = f.Refresh(t.Context(), slog.New(slog.DiscardHandler))
	}
}

func TestFollower_ReadsThePointerEvery5Minutes(t *testing.T) {
	f, b, _ := setup(t)
	now := time.Now()
	f.Now = func() time.Time { return now }
	for _, later := range []time.Duration{0, pointerEvery - time.Second, time.Second} {
		now = now.Add(later)
		refresh(t, f)
	}
	if b.reads != 2 {
		t.Errorf("read %d times", b.reads)
	}
	f.Forget()
	if refresh(t, f); b.reads != 3 {
		t.Errorf("read %d times", b.reads)
	}
}
