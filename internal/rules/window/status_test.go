package window_test

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/rules/window"
)

func TestStatusAt_SaysHowLongTheWindowsStayAsTheyAre(t *testing.T) {
	night := parse(t, window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: 8 * time.Hour, TimeZone: "Europe/Berlin"})
	noon := parse(t, window.Window{Kind: window.Allow, Schedule: "0 5 * * *", Duration: 8 * time.Hour, TimeZone: "Europe/Berlin"})
	freeze := parse(t, window.Window{Kind: window.Deny, Schedule: "0 0 24 12 *", Duration: 72 * time.Hour, TimeZone: "Europe/Berlin"})
	always := parse(t, window.Window{Kind: window.Deny, Schedule: "* * * * *", Duration: time.Hour, TimeZone: "UTC"})
	removals := parse(t, window.Window{Kind: window.Deny, Schedule: "* * * * *", Duration: time.Hour, On: []window.Action{window.Destroy}})
	for name, c := range map[string]struct {
		windows []window.Window
		at      string
		open    bool
		text    string
	}{
		"inside":                    {[]window.Window{night}, "2026-11-22T21:30:00Z", true, "open until 2026-11-23T06:00:00+01:00"},
		"outside":                   {[]window.Window{night}, "2026-11-22T12:00:00Z", false, "closed until 2026-11-22T22:00:00+01:00"},
		"at its end":                {[]window.Window{night}, "2026-11-23T05:00:00Z", false, "closed until 2026-11-23T22:00:00+01:00"},
		"two that overlap":          {[]window.Window{night, noon}, "2026-11-22T21:30:00Z", true, "open until 2026-11-23T13:00:00+01:00"},
		"before a denying one":      {[]window.Window{night, freeze}, "2026-12-23T22:00:00Z", true, "open until 2026-12-24T00:00:00+01:00"},
		"only a denying one":        {[]window.Window{freeze}, "2026-11-22T12:00:00Z", true, "open until 2026-12-24T00:00:00+01:00"},
		"denied in an allowing one": {[]window.Window{night, freeze}, "2026-12-24T22:00:00Z", false, "closed until 2026-12-27T00:00:00+01:00"},
		"never open":                {[]window.Window{always}, "2026-12-24T22:00:00Z", false, "closed at least until 2026-12-29T03:00:00Z"},
		"about other changes":       {[]window.Window{removals}, "2026-12-24T22:00:00Z", true, "open at any time"},
	} {
		got := window.StatusAt(c.windows, window.Change{Action: window.Apply}, at(t, c.at))
		if got.Open != c.open || got.Text != c.text {
			t.Errorf("%s: open %v, %s; want %v, %s", name, got.Open, got.Text, c.open, c.text)
		}
		if got.Until.IsZero() != (name == "never open" || name == "about other changes") {
			t.Errorf("%s: until %s", name, got.Until)
		}
	}
}

// What the status says is what Judge says, at its time and around its end.
func TestStatusAt_AgreesWithJudge(t *testing.T) {
	windows := []window.Window{
		parse(t, window.Window{Kind: window.Allow, Schedule: "0 22 * * Mon-Fri", Duration: 8 * time.Hour, TimeZone: "Europe/Berlin"}),
		parse(t, window.Window{Kind: window.Allow, Schedule: "30 3 * * *", Duration: 4 * time.Hour, TimeZone: "UTC"}),
		parse(t, window.Window{Kind: window.Deny, Schedule: "0 0 24 12 *", Duration: 72 * time.Hour, TimeZone: "Europe/Berlin"}),
	}
	change := window.Change{Action: window.Apply}
	for moment := at(t, "2026-12-18T00:10:00Z"); moment.Before(at(t, "2027-01-03T00:00:00Z")); moment = moment.Add(37 * time.Minute) {
		got := window.StatusAt(windows, change, moment)
		if got.Open != window.Judge(windows, change, moment).Open || got.Until.IsZero() {
			t.Fatalf("at %s: %+v", moment, got)
		}
		before, after := got.Until.Add(-time.Second), got.Until
		if window.Judge(windows, change, before).Open != got.Open || window.Judge(windows, change, after).Open == got.Open {
			t.Fatalf("at %s: %+v is not when that changes", moment, got)
		}
	}
}

func TestWindow_SaysInWordsWhatItDoes(t *testing.T) {
	for want, w := range map[string]window.Window{
		"changes are allowed for 8h from each time of 0 22 * * Mon-Fri in Europe/Berlin":                                          {Kind: window.Allow, Schedule: "0 22 * * Mon-Fri", Duration: 8 * time.Hour, TimeZone: "Europe/Berlin"},
		"changes are denied for 1h30m from each time of @daily; a change that only removes entries does not wait":                 {Kind: window.Deny, Schedule: "@daily", Duration: 90 * time.Minute, AllowRemovalsAlways: true},
		"removals of everything that the task has made are denied for 24h from each time of @weekly":                              {Kind: window.Deny, Schedule: "@weekly", Duration: 24 * time.Hour, On: []window.Action{window.Destroy}},
		"changes, except removals of everything that the task has made, are allowed for 10m from each time of @hourly in Etc/UTC": {Kind: window.Allow, Schedule: "@hourly", Duration: 10 * time.Minute, TimeZone: "Etc/UTC", On: []window.Action{window.Apply}},
	} {
		if got := w.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
