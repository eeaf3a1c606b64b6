package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/bundle"
)

func TestBundles_EarlierOneIsUnpackedOnceAndMayBeGone(t *testing.T) {
	loads := 0
	answers := map[string]error{"b1": nil, "gone": &bundle.InvalidError{Err: errors.New("the object does not exist")}, "unread": errors.New("SlowDown")}
	b := &bundles{log: slog.New(slog.DiscardHandler), load: func(_ context.Context, digest string) (*config.Config, error) {
		loads++
		return &config.Config{}, answers[digest]
	}}
	for range 2 {
		if cfg, err := b.old(t.Context(), "b1"); cfg == nil || err != nil {
			t.Errorf("%v, %v", cfg, err)
		}
	}
	if loads != 1 {
		t.Errorf("it was unpacked %d times", loads)
	}
	if cfg, err := b.old(t.Context(), "gone"); cfg != nil || err != nil {
		t.Errorf("a bundle that is gone: %v, %v", cfg, err)
	}
	if _, err := b.old(t.Context(), "unread"); err == nil {
		t.Error("a bundle that cannot be read counts as gone")
	}
}
