package cron

import (
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

func TestOddRanges_AreFound(t *testing.T) {
	for cron, want := range map[string][2]string{
		"*/10 8-18 * * MON-FRI": {}, "0 0 * JAN-DEC SUN-SAT": {}, "0 0 15W * 0-7": {}, "0 0 1-31/2 january-march 7-3 2026-2030": {}, "@daily": {}, "5 0 0 * * 5L *": {}, "5-5 * * * *": {},
		"5-1 * * * * * *": {"5-1"}, "50-10/5 * * * *": {"50-10/5"}, "0 1,20-4 * * *": {"20-4"}, "0 0 28-3 * *": {"28-3"}, "0 0 * Nov-feb *": {"nov-feb"},
		"0 0 * 11-2 *": {"11-2"}, "0 0 * * SAT-MON": {"sat-mon"}, "0 0 0 * * 5-2 *": {"5-2"}, "0 0 * * * 2030-2026": {"2030-2026"},
		"0 0 L * FRI-SUN": {"", "fri-sun"}, "0 0 * * MON,5-7": {"", "5-7"}, "0 0 0 * * 1-7/2 *": {"", "1-7/2"}, "0 0 * 9-7 sat-0": {"9-7", "sat-0"},
	} {
		backwards, noSunday := oddRanges(cron)
		if backwards != want[0] || noSunday != want[1] {
			t.Errorf("%q: backwards is %q, without Sunday %q, want %q", cron, backwards, noSunday, want)
		}
	}
}

// TestCheck_IsQuickForAnyExpression checks that an expression is refused or comes due.
func TestCheck_IsQuickForAnyExpression(t *testing.T) {
	entry := rapid.SampledFrom([]string{"*", "*/5", "1", "31", "30", "2", "L", "W", "15W", "LW", "5#2", "6L", "MON", "JAN", "1-5", "5-1", "0-0", "7", "NOV-FEB",
		"FRI-SUN", "?", "2020", "2030", "2030-2026", "0", "00", "/", "*/0", "1/0", "50-10/5", "#", "-", "@daily", "é-è"})
	field := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(entry, 1, 2).Draw(t, "entries"), ",")
	})
	rapid.Check(t, func(t *rapid.T) {
		cron := strings.Join(rapid.SliceOfN(field, 1, 9).Draw(t, "fields"), " ")
		r := block.Report{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		start := time.Now()
		Check(&r, block.String{V: cron}, "task", "unable to parse")
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("%q took %s", cron, took)
		}
	})
}

func TestNext_FollowsTheClocks(t *testing.T) {
	for _, c := range []struct{ cron, zone, from, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},     // 02:30 is skipped on the 29th
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},     // 02:30 comes twice on the 25th
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},     //
		{"0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},      // the clocks change to 03:00
		{"0 1 * * Sat", "America/Santiago", "2026-09-06T03:59:00Z", "2026-09-12T04:00:00Z"}, // the clocks change from Saturday 24:00 to Sunday 01:00
		{"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-07T03:00:00Z"},
		{"0 0 29 2 *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2028-02-28T23:00:00Z"},
		{"0 0 1 1 * 2020", "Europe/Berlin", "2026-03-28T12:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(c.cron)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Next(from.In(zone)).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s in %s after %s: %s, want %s", c.cron, c.zone, c.from, got, c.want)
		}
	}
}

func TestNextOrSkipped_TimeThatClocksSkipIsDueAtTheirChange(t *testing.T) {
	for _, c := range []struct{ cron, zone, from, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"*/20 * * * *", "Europe/Berlin", "2026-03-29T00:40:00Z", "2026-03-29T01:00:00Z"},
		{"30 1 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"}, // clocks repeat it
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z"}, // clocks change from 24:00 to 01:00
		{"0 0 29 2 *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2028-02-28T23:00:00Z"},
		{"0 0 1 1 * 2020", "Europe/Berlin", "2026-03-28T12:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(c.cron)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.NextOrSkipped(from.In(zone)).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s in %s after %s: %s, want %s", c.cron, c.zone, c.from, got, c.want)
		}
	}
}

func TestNext_SharedScheduleAnswersAsAFreshOne(t *testing.T) {
	zones := []*time.Location{time.UTC}
	for _, name := range []string{"Europe/Berlin", "America/Santiago"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, zone)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SampledFrom([]string{"0 3 * * *", "*/7 * * * *", "0 0 29 2 *", "0 0 1 1 * 2026"}).Draw(rt, "cron")
		shared, err := Parse(text)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(2, 30).Draw(rt, "calls") {
			from := time.Date(2026, 3, 29, 0, 0, rapid.IntRange(-200_000, 200_000).Draw(rt, "from"), 0, time.UTC).In(rapid.SampledFrom(zones).Draw(rt, "zone"))
			fresh, err := Parse(text)
			if err != nil {
				rt.Fatal(err)
			}
			if got, want := shared.Next(from), fresh.Next(from); !got.Equal(want) {
				rt.Fatalf("%s after %v: %v, want %v", text, from, got, want)
			}
		}
	})
}

// The race detector fails the test if a call of Next writes to what the goroutines share.
func TestNext_GoroutinesShareASchedule(t *testing.T) {
	s, err := Parse("0 0 29 2 *")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			from := time.Date(2001+4*i, 1, 1, 0, 0, 0, 0, time.UTC)
			if got, want := s.Next(from), time.Date(2004+4*i, 2, 29, 0, 0, 0, 0, time.UTC); !got.Equal(want) {
				t.Errorf("after %v: %v", from, got)
			}
		})
	}
	all.Wait()
}
