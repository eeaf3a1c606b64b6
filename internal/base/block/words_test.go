package block_test

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

func TestBrief_OmitsUnitsThatAreZero(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", 10 * time.Second: "10s", time.Hour + time.Second: "1h0m1s"} {
		if got := block.Brief(d); got != want {
			t.Errorf("%s is written as %q", want, got)
		}
	}
}
