package delay_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
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

func TestRetryAfter_IsSecondsOrADate(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "0": 0, "30": 30 * time.Second, "99999999999": time.Hour,
		"Wed, 01 Jul 2026 12:00:45 GMT": 45 * time.Second, "Wed, 01 Jul 2026 11:59:00 GMT": 0, "Thu, 02 Jul 2026 12:00:00 GMT": time.Hour,
	} {
		if got := delay.RetryAfter(header, noon); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestOutlive_EndsSomeTimeAfterTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		later, cancel := delay.Outlive(ctx, 5*time.Second)
		defer cancel()
		time.Sleep(time.Hour)
		end()
		ended := time.Now()
		if time.Sleep(4 * time.Second); later.Err() != nil {
			t.Error("it has ended too early")
		}
		if <-later.Done(); time.Since(ended) != 5*time.Second {
			t.Errorf("it ended after %s", time.Since(ended))
		}
	})
}
