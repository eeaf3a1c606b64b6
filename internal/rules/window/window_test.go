package window_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/rules/window"
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

func TestJudge_DenyingWindowBeginsWhenClocksSkipItsBeginning(t *testing.T) {
	deny := parse(t, window.Window{Kind: window.Deny, Schedule: "30 2 * * *", Duration: 4 * time.Hour, TimeZone: "Europe/Berlin"})
	allow := deny
	allow.Kind = window.Allow
	// On Sunday, 29 March 2026, clocks change from 02:00 to 03:00, which is 01:00 UTC.
	for _, c := range []struct {
		at     string
		inside bool // the denying window
	}{
		{"2026-03-28T01:29:59Z", false}, {"2026-03-28T01:30:00Z", true}, {"2026-03-28T05:30:00Z", false},
		{"2026-03-29T00:59:59Z", false}, {"2026-03-29T01:00:00Z", true}, {"2026-03-29T04:59:59Z", true}, {"2026-03-29T05:00:00Z", false},
		{"2026-03-30T00:29:59Z", false}, {"2026-03-30T00:30:00Z", true},
	} {
		if v := window.Judge([]window.Window{deny}, window.Change{Action: window.Apply}, at(t, c.at)); v.Open == c.inside {
			t.Errorf("at %s, denied is %v: %s", c.at, !v.Open, v.Text)
		}
	}
	if v := window.Judge([]window.Window{allow}, window.Change{Action: window.Apply}, at(t, "2026-03-29T02:00:00Z")); v.Open {
		t.Error("an allowing window opens at a time that the clocks do not show")
	}
}

func TestJudge_AppliesToItsActionsOnly(t *testing.T) {
	w := parse(t, window.Window{Kind: window.Deny, Schedule: "* * * * *", Duration: time.Hour, On: []window.Action{window.Destroy}})
	now := at(t, "2026-11-22T12:00:00Z")
	if !window.Judge([]window.Window{w}, window.Change{Action: window.Apply}, now).Open {
		t.Error("a window for destroying holds an apply")
	}
	if v := window.Judge([]window.Window{w}, window.Change{Action: window.Destroy}, now); v.Open || v.Next.Sub(now) < 24*time.Hour || !strings.HasPrefix(v.Text, "outside its window, which does not open before ") {
		t.Errorf("a destroy passes, or is said to pass soon: %+v", v)
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
	if want := "outside its window, which opens 2026-03-29T22:00:00+02:00"; v.Text != want {
		t.Errorf("%q, want %q", v.Text, want)
	}
}

// fields are the values of a cron expression; all if one is nil.
type fields struct{ minutes, hours, weekdays []int }

func (f fields) String() string {
	text := func(values []int) string {
		if values == nil {
			return "*"
		}
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(values)), ","), "[]")
	}
	return fmt.Sprintf("%s %s * * %s", text(f.minutes), text(f.hours), text(f.weekdays))
}

func (f fields) due(wall time.Time) bool {
	has := func(values []int, value int) bool { return values == nil || slices.Contains(values, value) }
	return has(f.minutes, wall.Minute()) && has(f.hours, wall.Hour()) && has(f.weekdays, int(wall.Weekday()))
}

// skipped reports whether clocks change at a time, and skip one that is due.
func (f fields) skipped(at time.Time) bool {
	before := at.Add(-time.Minute)
	_, was := before.Zone()
	_, is := at.Zone()
	for n := range max(0, (is-was)/60) {
		if f.due(before.UTC().Add(time.Duration(was)*time.Second + time.Duration(n+1)*time.Minute)) {
			return true
		}
	}
	return false
}

// openMinutes are the minutes after a time in which the windows let an apply pass, by the
// definition: minute by minute, from the wall clock.
func openMinutes(windows []window.Window, schedules []fields, from time.Time, n int) []bool {
	open, denied, restricted := make([]bool, n), make([]bool, n), false
	for i, w := range windows {
		zone, err := time.LoadLocation(w.TimeZone)
		if err != nil {
			panic(err)
		}
		restricted = restricted || w.Kind == window.Allow
		span := int(w.Duration / time.Minute)
		last := -span - 1 // the latest minute at which the window has begun
		for m := -span; m < n; m++ {
			at := from.Add(time.Duration(m) * time.Minute).In(zone)
			if schedules[i].due(at) || w.Kind == window.Deny && schedules[i].skipped(at) {
				last = m
			}
			if m < 0 || m-last >= span {
				continue
			}
			if w.Kind == window.Deny {
				denied[m] = true
			} else {
				open[m] = true
			}
		}
	}
	for m := range open {
		open[m] = !denied[m] && (open[m] || !restricted)
	}
	return open
}

// TestJudge_AgreesWithTheWallClock compares Judge with openMinutes around changes of
// clocks, midnight and overlaps.
func TestJudge_AgreesWithTheWallClock(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago"}
	around := []string{"2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z", "2026-03-08T06:00:00Z", "2026-11-01T05:00:00Z", "2026-04-04T14:00:00Z", "2026-10-03T15:30:00Z",
		"2026-09-06T04:00:00Z", "2026-04-05T03:00:00Z", "2026-12-31T23:00:00Z"}
	const days = 3 * 24 * 60
	rapid.Check(t, func(rt *rapid.T) {
		some := func(of int) *rapid.Generator[[]int] {
			return rapid.Custom(func(rt *rapid.T) []int {
				if rapid.IntRange(0, 3).Draw(rt, "all") == 0 {
					return nil
				}
				values := rapid.SliceOfNDistinct(rapid.IntRange(0, of-1), 1, 3, rapid.ID).Draw(rt, "values")
				slices.Sort(values)
				return values
			})
		}
		var windows []window.Window
		var schedules []fields
		for range rapid.IntRange(1, 3).Draw(rt, "windows") {
			f := fields{some(60).Draw(rt, "minutes"), some(24).Draw(rt, "hours"), some(7).Draw(rt, "weekdays")}
			schedules = append(schedules, f)
			windows = append(windows, parse(t, window.Window{
				Kind:     rapid.SampledFrom([]window.Kind{window.Allow, window.Deny}).Draw(rt, "kind"),
				TimeZone: rapid.SampledFrom(zones).Draw(rt, "zone"),
				Duration: time.Duration(rapid.SampledFrom([]int{1, 10, 59, 60, 61, 3 * 60, 8 * 60, 25 * 60}).Draw(rt, "minutes")) * time.Minute,
				Schedule: f.String(),
			}))
		}
		from := at(t, rapid.SampledFrom(around).Draw(rt, "around")).Add(time.Duration(rapid.IntRange(-36*60, 12*60).Draw(rt, "from")) * time.Minute)
		open := openMinutes(windows, schedules, from, days)
		v := window.Judge(windows, window.Change{Action: window.Apply}, from.Add(time.Duration(rapid.IntRange(0, 59).Draw(rt, "seconds"))*time.Second))
		if v.Open != open[0] {
			rt.Fatalf("at %v open is %v (%s)", from, v.Open, v.Text)
		}
		if v.Open {
			return
		}
		next := slices.Index(open, true)
		want := from.Add(time.Duration(next) * time.Minute)
		// Many short spans in a row may be too much to find the opening at once.
		if next < 0 {
			want = from.Add(days * time.Minute)
		}
		known := !v.Next.IsZero() && v.Next.Before(want) && v.Next.Sub(from) >= 12*time.Hour && strings.Contains(v.Text, "does not open before")
		if !known && (next >= 0 && !v.Next.Equal(want) || next < 0 && !v.Next.IsZero() && v.Next.Before(want)) {
			rt.Fatalf("closed at %v, opens at %v (%s), want %v", from, v.Next, v.Text, want)
		}
	})
}
