package delay_test

import (
	"math"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
)

func TestDoubled_GrowsUpToTheLongest(t *testing.T) {
	for n, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, math.MaxInt: 5 * time.Second} {
		if got := delay.Doubled(time.Second, 5*time.Second, n); got != want {
			t.Errorf("after failure %d: %s, want %s", n, got, want)
		}
	}
	if got := delay.Doubled(math.MaxInt64, time.Minute, 3); got != time.Minute {
		t.Errorf("a first wait that is too long: %s", got)
	}
}
