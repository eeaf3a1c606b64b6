package bundle_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
)

func TestUnpacked_BundleIsReadOnceAndStaysUntilAnotherIsKept(t *testing.T) {
	s := newCloud(t)
	a, b, gone := three(t)
	s.push(t, a, "me")
	s.push(t, b, "me")
	u := &bundle.Unpacked{Bucket: s.bucket, Dir: t.TempDir()}
	for _, digest := range []string{a.Digest, b.Digest} {
		cfg, err := u.Load(t.Context(), digest)
		if err != nil || !strings.HasPrefix(cfg.Dir(), u.Dir) {
			t.Fatalf("%+v, %v", cfg, err)
		}
		if again, err := u.Load(t.Context(), digest); err != nil || again != cfg {
			t.Errorf("it is read again: %v", err)
		}
	}
	if _, err := u.Load(t.Context(), gone.Digest); !errors.As(err, new(*bundle.InvalidError)) {
		t.Errorf("a bundle that was not pushed: %v", err)
	}
	before, _ := u.Load(t.Context(), a.Digest)
	u.Keep(b.Digest)
	if left, err := os.ReadDir(u.Dir); err != nil || len(left) != 1 || left[0].Name() != b.Digest {
		t.Errorf("%v is left, %v", left, err)
	}
	if cfg, err := u.Load(t.Context(), a.Digest); err != nil || cfg == before {
		t.Errorf("what was removed counts as read: %v", err)
	} else if _, err := os.Stat(cfg.Dir()); err != nil {
		t.Error(err)
	}
}
