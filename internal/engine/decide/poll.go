package decide

import "time"

const (
	// pollMin and pollMax limit the time between two polls of a remote run. Another
	// system may permit only 30 in a minute.
	pollMin = 6 * time.Second
	pollMax = 5 * time.Minute

	// pollSoon is the time between the polls in the first pollEarly of a wait: a small plan takes
	// a second or two. All polls are multiples of it, so that there are at most 30 in a minute.
	pollSoon  = 2 * time.Second
	pollEarly = 6 * time.Second
)

// NextPoll returns when a remote run is polled after now: less and less often.
func NextPoll(since, now time.Time) time.Time { return pollAfter(since, now, 10) }

// nextRead returns when a condition that cannot be read is read again after now: the wait
// doubles each time.
func nextRead(since, now time.Time) time.Time { return pollAfter(since, now, 1) }

// pollAfter returns the first time of a poll after now: after about each nth part of the
// wait until then. The times depend only on the beginning of the wait, so that a poll that
// shows nothing new needs no write. They are multiples of pollMin, so that one tick polls
// for all tasks.
func pollAfter(since, now time.Time, n time.Duration) time.Time {
	if since.After(now) {
		since = now // a clock was ahead
	}
	if at := since.Add(pollSoon / 2).Truncate(pollSoon).Add(pollSoon); now.Before(since.Add(pollEarly - pollSoon)) {
		for !at.After(now) {
			at = at.Add(pollSoon)
		}
		return at
	}
	since = since.Truncate(pollMin)
	at := since
	for !at.After(now) {
		step := max(pollMin, at.Sub(since)/n).Truncate(pollMin)
		if step >= pollMax {
			return at.Add((now.Sub(at)/pollMax + 1) * pollMax)
		}
		at = at.Add(step)
	}
	return at
}
