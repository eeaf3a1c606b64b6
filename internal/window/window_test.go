package window_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/window"
)

func parse(t testing.TB, w window.Window) window.Window {
	t.Helper()
	w, err := w.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func TestJudge_DenialWinsAndAllowingWindowsRestrict(t *testing.T) {
	night := parse(t, window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: 8 * time.Hour, TimeZone: "Europe/Berlin"})
	freeze := parse(t, window.Window{Kind: window.Deny, Schedule: "0 0 24 12 *", Duration: 72 * time.Hour, TimeZone: "Europe/Berlin"})
	for _, c := range []struct {
		name    string
		windows []window.Window
		at      string
		open    bool
		next    string
	}{
		{"no window", nil, "2026-11-22T12:00:00Z", true, ""},
		{"inside, before midnight", []window.Window{night}, "2026-11-22T21:30:00Z", true, ""},
		{"inside, after midnight", []window.Window{night}, "2026-11-23T04:59:59Z", true, ""},
		{"at its end", []window.Window{night}, "2026-11-23T05:00:00Z", false, "2026-11-23T21:00:00Z"},
		{"outside", []window.Window{night}, "2026-11-22T12:00:00Z", false, "2026-11-22T21:00:00Z"},
		{"outside a denying window only", []window.Window{freeze}, "2026-11-22T12:00:00Z", true, ""},
		{"denied inside an allowing window", []window.Window{night, freeze}, "2026-12-24T22:00:00Z", false, "2026-12-26T23:00:00Z"},
		{"two allowing windows", []window.Window{night, parse(t, window.Window{Kind: window.Allow, Schedule: "0 12 * * *", Duration: time.Hour, TimeZone: "UTC"})},
			"2026-11-22T12:30:00Z", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := window.Judge(c.windows, window.Change{Action: window.Apply}, at(t, c.at))
			want := time.Time{}
			if c.next != "" {
				want = at(t, c.next)
			}
			if got.Open != c.open || !got.Next.Equal(want) {
				t.Errorf("open %v, next %v (%s); want %v, %v", got.Open, got.Next, got.Text, c.open, want)
			}
		})
	}
}

func TestJudge_AppliesToItsActionsOnly(t *testing.T) {
	w := parse(t, window.Window{Kind: window.Deny, Schedule: "* * * * *", Duration: time.Hour, On: []window.Action{window.Destroy}})
	now := at(t, "2026-11-22T12:00:00Z")
	if !window.Judge([]window.Window{w}, window.Change{Action: window.Apply}, now).Open {
		t.Error("a window for destroying holds an apply")
	}
	if v := window.Judge([]window.Window{w}, window.Change{Action: window.Destroy}, now); v.Open || !v.Next.IsZero() {
		t.Errorf("a destroy passes, or is said to pass at %v", v.Next)
	}
}

func TestJudge_RemovalsMayPassAlways(t *testing.T) {
	closed := parse(t, window.Window{Kind: window.Allow, Schedule: "0 0 1 1 *", Duration: time.Minute, AllowRemovalsAlways: true})
	now := at(t, "2026-11-22T12:00:00Z")
	if !window.Judge([]window.Window{closed}, window.Change{Action: window.Apply, Removals: true}, now).Open {
		t.Error("a change that only removes entries is held")
	}
	if window.Judge([]window.Window{closed}, window.Change{Action: window.Apply}, now).Open {
		t.Error("another change passes")
	}
	strict := closed
	strict.AllowRemovalsAlways = false
	if window.Judge([]window.Window{closed, strict}, window.Change{Action: window.Apply, Removals: true}, now).Open {
		t.Error("one window of two lets removals pass, and they pass")
	}
}

func TestJudge_SpansLastTheirDurationWhenClocksChange(t *testing.T) {
	// On 2026-03-29 clocks in Berlin go from 02:00 to 03:00, on 2026-10-25 from 03:00 to 02:00.
	night := parse(t, window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: 8 * time.Hour, TimeZone: "Europe/Berlin"})
	for _, c := range []struct {
		at   string
		open bool
	}{
		{"2026-03-28T21:00:00Z", true}, {"2026-03-29T04:59:00Z", true}, {"2026-03-29T05:00:00Z", false},
		{"2026-10-24T20:00:00Z", true}, {"2026-10-25T03:59:00Z", true}, {"2026-10-25T04:00:00Z", false},
	} {
		if got := window.Judge([]window.Window{night}, window.Change{Action: window.Apply}, at(t, c.at)); got.Open != c.open {
			t.Errorf("at %s open is %v", c.at, got.Open)
		}
	}
	v := window.Judge([]window.Window{night}, window.Change{Action: window.Apply}, at(t, "2026-03-29T12:00:00Z"))
	if want := "outside its window, which opens Sun 2026-03-29 22:00 CEST"; v.Text != want {
		t.Errorf("%q, want %q", v.Text, want)
	}
}

// TestJudge_AgreesWithSteppingThroughTime compares Judge with the definition, minute
// by minute, around changes of clocks, midnight and overlaps.
func TestJudge_AgreesWithSteppingThroughTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}
	around := []string{"2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z", "2026-03-08T06:00:00Z", "2026-11-01T05:00:00Z", "2026-04-04T14:00:00Z", "2026-12-31T23:00:00Z"}
	for range 60 {
		var windows []window.Window
		for range 1 + random.IntN(3) {
			w := window.Window{Kind: window.Allow, TimeZone: zones[random.IntN(len(zones))], Duration: time.Duration(1+random.IntN(14*60)) * time.Minute,
				Schedule: fmt.Sprintf("%d %d * * *", random.IntN(60), random.IntN(24))}
			switch random.IntN(4) {
			case 0:
				w.Schedule = fmt.Sprintf("%d */%d * * *", random.IntN(60), 1+random.IntN(6))
			case 1:
				w.Schedule = fmt.Sprintf("%d %d * * %d", random.IntN(60), random.IntN(24), random.IntN(7))
			}
			if random.IntN(2) == 0 {
				w.Kind = window.Deny
			}
			windows = append(windows, parse(t, w))
		}
		from := at(t, around[random.IntN(len(around))]).Add(time.Duration(random.IntN(48*60)-24*60) * time.Minute)
		v := window.Judge(windows, window.Change{Action: window.Apply}, from)
		if !v.Open && !v.Next.IsZero() {
			if !window.Judge(windows, window.Change{Action: window.Apply}, v.Next).Open {
				t.Fatalf("%+v: closed at %v, and at %v, when it opens", windows, from, v.Next)
			}
			for m := from; m.Before(v.Next); m = m.Add(time.Minute) {
				if window.Judge(windows, window.Change{Action: window.Apply}, m).Open {
					t.Fatalf("%+v: open at %v, before it opens at %v", windows, m, v.Next)
				}
				if m.Sub(from) > 24*time.Hour {
					break
				}
			}
		}
	}
}
