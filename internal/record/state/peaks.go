package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxPeaks is how many peaks a record keeps. Of more, neighbours become one that is not laxer than both.
const MaxPeaks = 8

// Peak is a number that was applied, and until when it was the one that was applied.
type Peak struct {
	Count int
	Until time.Time
}

// Peaks are the numbers by which the most that was applied within a window is found, the oldest
// first. A later one is smaller: else it alone would count. They are stored as one short text, as a
// tick decodes the records of many tasks: "60 1795795200, 54 30" is 60 until that second of Unix
// time, and 54 until 30 seconds later.
type Peaks []Peak

// Replaced returns the peaks when count, which was applied until a time, is replaced by now. Those
// that ended before since do not count any more.
func (p Peaks) Replaced(count, now int, until, since time.Time) Peaks {
	until = upTo(until)
	var next Peaks
	for _, peak := range append(slices.Clone(p), Peak{count, until}) {
		if peak.Count <= now || !peak.Until.After(since) {
			continue
		}
		next = append(next, peak)
	}
	slices.SortStableFunc(next, func(a, b Peak) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Count, b.Count)) })
	most := -1
	for i := len(next) - 1; i >= 0; i-- { // a later and larger one counts instead
		if next[i].Count <= most {
			next = slices.Delete(next, i, i+1)
			continue
		}
		most = next[i].Count
	}
	for len(next) > MaxPeaks {
		i := closest(next)
		next[i+1].Count = next[i].Count
		next = slices.Delete(next, i, i+1)
	}
	return next
}

// Most returns the largest of count, which is applied now, and the peaks of the window that ends now.
func (p Peaks) Most(count int, window time.Duration, now time.Time) int {
	for _, peak := range p {
		if now.Before(peak.Until.Add(window)) {
			count = max(count, peak.Count)
		}
	}
	return count
}

// NotAfter returns the peaks so that none ended later than at a time: a clock that was ahead has
// recorded those that did.
func (p Peaks) NotAfter(at time.Time) Peaks {
	if n := len(p); n == 0 || !p[n-1].Until.After(at) {
		return p
	}
	next := slices.Clone(p)
	for i := range next {
		if next[i].Until.After(at) {
			next[i].Until = upTo(at)
		}
	}
	return next.Replaced(0, 0, time.Time{}, time.Time{})
}

// MarshalText implements encoding.TextMarshaler.
func (p Peaks) MarshalText() ([]byte, error) {
	texts, before := make([]string, len(p)), int64(0)
	for i, peak := range p {
		texts[i] = fmt.Sprint(peak.Count, " ", peak.Until.Unix()-before)
		before = peak.Until.Unix()
	}
	return []byte(strings.Join(texts, ", ")), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Peaks) UnmarshalText(text []byte) error {
	*p = nil
	before := int64(0)
	for one := range strings.SplitSeq(string(text), ", ") {
		var peak Peak
		var at int64
		if _, err := fmt.Sscanf(one, "%d %d", &peak.Count, &at); err != nil {
			return fmt.Errorf("parse the peak %q: %w", one, err)
		}
		before += at
		peak.Until = time.Unix(before, 0).UTC()
		*p = append(*p, peak)
	}
	return nil
}

// Begun is an apply that has begun, as the guards count it: how it ended plays no part. It is in the
// record of its run before the apply changes anything.
type Begun struct {
	Window time.Duration `json:"window,omitempty"` // of the guard; 0 if the apply is a new base
	// InState is how many resources the state had, and Replaces how many more may be destroyed than it has fewer
	// afterwards. They are nil and 0 unless a plan guard counts them.
	InState  *int      `json:"in_state,omitempty"`
	Replaces int       `json:"replaces,omitempty"`
	State    string    `json:"state,omitempty"` // from which it was planned, if that is known
	Until    time.Time `json:"until,omitzero"`  // when the run ended
}

// Sizes are the numbers of resources that the state of a task had before applies that have begun. A replaced
// resource counts as one that the state had and lost.
type Sizes struct {
	Peaks  Peaks  `json:"peaks,omitempty"`
	Latest *Begun `json:"latest,omitempty"` // the latest apply
}

// Before returns the peaks for a plan that was made from a state. If the latest apply began from this state, too, it
// has replaced nothing.
func (s Sizes) Before(state string) Peaks {
	b := s.Latest
	if b == nil {
		return s.Peaks
	}
	replaced := b.Replaces
	if state != "" && state == b.State {
		replaced = 0
	}
	raised := slices.Clone(s.Peaks)
	for i := range raised {
		raised[i].Count += replaced
	}
	return raised.Replaced(*b.InState+replaced, 0, b.Until, time.Time{})
}

// begun returns the sizes after a run whose apply has begun.
func (s Sizes) begun(run Run) Sizes {
	b := run.Begun
	if b == nil || b.InState == nil {
		return s
	}
	latest, since := *b, run.Intended()
	latest.Until = since.Add(run.Worked(run.Ended)) // by the clock of the leader
	if latest.Until.Before(run.Ended) {
		latest.Until = run.Ended
	}
	if run.Ended.Before(since) {
		since = run.Ended
	}
	peaks := slices.DeleteFunc(s.Before(b.State), func(p Peak) bool { return !p.Until.After(since.Add(-b.Window)) })
	return Sizes{Peaks: peaks, Latest: &latest}
}

// upTo is the time in the precision in which it is stored, and never earlier.
func upTo(t time.Time) time.Time {
	short := t.UTC().Truncate(time.Second)
	if short.Before(t) {
		short = short.Add(time.Second)
	}
	return short
}

// closest returns the index of the peak that has the least time to the one after it.
func closest(all Peaks) (index int) {
	least := time.Duration(-1)
	for i := range len(all) - 1 {
		if apart := all[i+1].Until.Sub(all[i].Until); least < 0 || apart < least {
			index, least = i, apart
		}
	}
	return index
}

// WithPeaks returns the count of a source with the peaks that are known of it.
func (c Count) WithPeaks(counts []Count) Count {
	for _, known := range counts {
		if known.Of == c.Of {
			c.Peaks = known.Peaks
		}
	}
	return c
}

// WithoutFuture returns the task's record so that no peak is later than a time: what a clock that was
// ahead has recorded counts no longer than what happened at that time.
func (t Task) WithoutFuture(at time.Time) Task {
	t.Applied.Sizes.Peaks = t.Applied.Sizes.Peaks.NotAfter(at)
	if b := t.Applied.Sizes.Latest; b != nil && b.Until.After(at) {
		latest := *b
		latest.Until = at
		t.Applied.Sizes.Latest = &latest
	}
	for i, c := range t.Applied.Counts {
		if n := len(c.Peaks); n > 0 && c.Peaks[n-1].Until.After(at) {
			t.Applied.Counts = slices.Clone(t.Applied.Counts)
			t.Applied.Counts[i].Peaks = c.Peaks.NotAfter(at)
		}
	}
	return t
}
