package cron

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/config/block"
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
