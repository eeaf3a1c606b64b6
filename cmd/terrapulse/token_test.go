package main

import (
	"testing"
	"time"
)

func TestToken_LifetimeIsInDaysOrADuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "90d": 90 * 24 * time.Hour, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute, "x": -1, "0d": -1, "-1h": -1, "1.5d": -1, "d": -1} {
		if got, err := lifetime(text); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
