package reconcile

import (
	"time"
)

// reached reports whether a due time is set and has come.
func reached(due, now time.Time) bool { return !due.IsZero() && !now.Before(due) }

// passed reports whether the interval has passed since a time that was stored.
// A time that lies ahead by more than clocks may be apart was written by a
// clock that was wrong: the interval counts as passed.
func passed(since time.Time, interval time.Duration, now time.Time, skew time.Duration) bool {
	return !now.Before(since.Add(interval)) || since.After(now.Add(skew))
}

// earlier returns the earlier of two times, where zero stands for never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// stamp formats a time in a sentence for people. The zone is shown because readers may be in another
// one, as with a function in AWS. Pages find the time by its format, and write it in the zone of
// their viewer.
func stamp(t, now time.Time) string { return t.In(now.Location()).Format(time.RFC3339) }
