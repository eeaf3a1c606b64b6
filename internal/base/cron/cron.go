// Package cron has the cron expressions of task files: their check, and when they
// are due next.
package cron

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/cronexpr"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// Help says where the syntax is documented.
const Help = "for more information on writing cron expressions, see https://github.com/hashicorp/cronexpr"

// Schedule is a parsed cron expression; the zero value is never due. Several
// goroutines may use it.
type Schedule struct{ *schedule }

type schedule struct {
	mu   sync.Mutex
	expr *cronexpr.Expression // its Next writes to it
	// known are the latest answers: many tasks share a schedule, and ask for about the
	// same times.
	known  [8]gap
	oldest int
}

// gap is a time without a time of the schedule: the next one after from is next, zero
// if there is none.
type gap struct {
	zone       *time.Location
	skipped    bool // a time that clocks skip counts
	from, next time.Time
}

// Parse parses a cron expression.
func Parse(text string) (Schedule, error) {
	expr, err := cronexpr.Parse(text)
	if err != nil {
		return Schedule{}, err
	}
	return Schedule{&schedule{expr: expr}}, nil
}

// Next is the first time after from at which the clocks in from's time zone show a
// time of the schedule; zero if there is none. A time that clocks skip is not due, and
// one that they repeat is due twice.
func (s Schedule) Next(from time.Time) time.Time { return s.after(from, false) }

// NextOrSkipped is Next, but a time that clocks skip is due when they change.
func (s Schedule) NextOrSkipped(from time.Time) time.Time { return s.after(from, true) }

func (s Schedule) after(from time.Time, skipped bool) time.Time {
	if s.schedule == nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	zone := from.Location()
	for _, g := range s.known {
		if g.zone == zone && g.skipped == skipped && !from.Before(g.from) && (g.next.IsZero() || from.Before(g.next)) {
			return g.next
		}
	}
	next := s.next(from, skipped)
	s.known[s.oldest] = gap{zone, skipped, from, next}
	s.oldest = (s.oldest + 1) % len(s.known)
	return next
}

// next gives cronexpr the time of the clocks as if it was UTC, one period without a
// change of clocks after the other: cronexpr errs in zones whose clocks change at
// midnight.
func (s *schedule) next(from time.Time, skipped bool) time.Time {
	for {
		_, offset := from.Zone()
		shift := time.Duration(offset) * time.Second
		next := s.expr.Next(from.UTC().Add(shift))
		if next.IsZero() {
			return next
		}
		next = next.Add(-shift).In(from.Location())
		_, change := from.ZoneBounds()
		if change.IsZero() || next.Before(change) {
			return next
		}
		_, offset = change.Zone()
		at := change.UTC().Add(time.Duration(offset) * time.Second)
		first := at // time of the clocks from which on one is due at the change
		if before := change.UTC().Add(shift); skipped && before.Before(at) {
			first = before
		}
		if due := s.expr.Next(first.Add(-time.Second)); !due.IsZero() && !due.After(at) {
			return change
		}
		from = change
	}
}

// Check parses the cron expression of a key and reports everything that is wrong
// with it. owner is what has the key, such as "task"; unparsable is the error's text
// if the expression cannot be parsed.
func Check(r *block.Report, key block.String, owner, unparsable string) (Schedule, bool) {
	s, err := Parse(key.V)
	if err != nil {
		r.Fail(key.Origin, fmt.Sprintf("%s %s: %s", unparsable, block.Quoted(key.V), err), Help)
		return Schedule{}, false
	}
	backwards, noSunday := oddRanges(key.V)
	if noSunday != "" {
		r.Warn(key.Origin, fmt.Sprintf("the range %s of the schedule %s leaves Sunday out", block.Quoted(noSunday), block.Quoted(key.V)),
			"if it is meant, add it: SAT,SUN for SAT-SUN")
	}
	if backwards != "" {
		r.Fail(key.Origin, fmt.Sprintf("the schedule %s has a range that goes backwards: %s", block.Quoted(key.V), block.Quoted(backwards)),
			"write it as two, such as 22-23,0-6 for 22-6")
		return Schedule{}, false
	}
	switch over := fmt.Sprintf("the schedule %s never comes due again", block.Quoted(key.V)); {
	case s.Next(time.Unix(0, 0)).IsZero():
		r.Fail(key.Origin, fmt.Sprintf("the schedule %s never comes due", block.Quoted(key.V)), "no date matches it")
	case !s.Next(r.Now).IsZero():
	case r.Existing:
		r.Warn(key.Origin, over, fmt.Sprintf("remove the %s, or correct the year", owner))
	default:
		r.Fail(key.Origin, over, "correct the year")
	}
	return s, true
}

var rangeForm = regexp.MustCompile(`^([a-z]+|[0-9]+)-([a-z]+|[0-9]+)(/[0-9]+)?$`)

// oddRanges returns a range of a valid cron expression that ends before it
// begins, and one that ends on a Sunday which cronexpr leaves out. With the first,
// cronexpr never matches: it panics on the months NOV-FEB, and tries every second
// of a century for the seconds 5-1. Of SAT-SUN it takes Saturday alone.
func oddRanges(cron string) (backwards, noSunday string) {
	fields := strings.Fields(strings.ToLower(cron))
	weekday := 4
	if len(fields) > 6 {
		weekday = 5
	}
	for i, field := range fields {
		for entry := range strings.SplitSeq(field, ",") {
			m := rangeForm.FindStringSubmatch(entry)
			if m == nil {
				continue
			}
			first, last := valueOf(m[1]), valueOf(m[2])
			if i == weekday {
				first %= 7
			}
			switch {
			case i == weekday && last%7 == 0:
				if first > 0 {
					noSunday = entry
				}
			case first > last:
				backwards = entry
			}
		}
	}
	return backwards, noSunday
}

// valueOf is a number, or the number of the month or weekday with this name.
func valueOf(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	name := text[:min(3, len(text))] // Parse has accepted the name
	if day := strings.Index("sunmontuewedthufrisat", name); day >= 0 {
		return day / 3
	}
	return strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", name)/3 + 1
}
