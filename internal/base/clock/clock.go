// Package clock compares times that were stored, perhaps by a machine whose clock is not
// quite right.
package clock

import (
	"time"
)

// Reached reports whether a due time is set and has come.
func Reached(due, now time.Time) bool { return !due.IsZero() && !now.Before(due) }

// Passed reports whether the interval has passed since a time that was stored.
// A time that lies ahead by more than clocks may be apart was written by a
// clock that was wrong: the interval counts as passed.
func Passed(since time.Time, interval time.Duration, now time.Time, skew time.Duration) bool {
	return !now.Before(since.Add(interval)) || since.After(now.Add(skew))
}

// Earlier returns the earlier of two times, where zero stands for never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Stamp formats a time in a sentence for people. The zone is shown because readers may be in another
// one, as with a function in AWS. Pages find the time by its format, and write it in the zone of
// their viewer.
func Stamp(t, now time.Time) string { return t.In(now.Location()).Format(time.RFC3339) }

// UTC is Stamp in UTC, for texts whose readers are anywhere.
func UTC(t time.Time) string { return Stamp(t, t.UTC()) }

// Local is Stamp in the zone of this machine, for the output of commands.
func Local(t time.Time) string { return Stamp(t, t.Local()) }
