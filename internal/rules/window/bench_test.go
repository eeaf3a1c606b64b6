package window_test

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/rules/window"
)

func BenchmarkJudge(b *testing.B) {
	windows := []window.Window{
		parse(b, window.Window{Kind: window.Allow, Schedule: "0 22 * * Mon-Fri", Duration: 8 * time.Hour, TimeZone: "Europe/Berlin"}),
		parse(b, window.Window{Kind: window.Deny, Schedule: "0 0 24 12 *", Duration: 72 * time.Hour, TimeZone: "Europe/Berlin"}),
	}
	for name, moment := range map[string]string{"open": "2026-11-23T22:30:00Z", "closed": "2026-12-24T12:00:00Z"} {
		b.Run(name, func(b *testing.B) {
			now := at(b, moment)
			for b.Loop() {
				window.Judge(windows, window.Change{Action: window.Apply}, now)
			}
		})
	}
}
