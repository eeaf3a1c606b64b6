package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxPeaks is how many peaks, and how many losses, a record keeps. Of more, neighbours become one
// that is not laxer than both.
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
		i := closest(next, func(p Peak) time.Time { return p.Until })
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

// Loss is how many resources runs have destroyed or replaced.
type Loss struct {
	Resources int
	Of        int // how many the state had before; 0 if that is not known
	At        time.Time
	// Open says that the run has not succeeded: it was to destroy so many, and the next run
	// does the rest of that.
	Open bool
}

// Losses are those of the runs of a task, the oldest first. They are stored as one text, such as
// "5 60 1795795200", in the same way.
type Losses []Loss

// Add returns the losses with one more. Those from before since do not count any more.
func (l Losses) Add(loss Loss, since time.Time) Losses {
	loss.At = upTo(loss.At)
	var next Losses
	for _, was := range l {
		switch {
		case was.Open: // this run has done the rest of it
			if was.At.After(since) {
				loss.Resources, loss.Of = max(loss.Resources, was.Resources), max(loss.Of, was.Of)
			}
		case was.At.After(since):
			next = append(next, was)
		}
	}
	if loss.Resources > 0 {
		next = append(next, loss)
	}
	slices.SortStableFunc(next, func(a, b Loss) int { return a.At.Compare(b.At) })
	for len(next) > MaxPeaks {
		i := closest(next, func(l Loss) time.Time { return l.At })
		next[i+1].Resources, next[i+1].Open = next[i+1].Resources+next[i].Resources, next[i+1].Open || next[i].Open
		next = slices.Delete(next, i, i+1)
	}
	return next
}

// Within returns those of the window that ends now.
func (l Losses) Within(window time.Duration, now time.Time) Losses {
	var some Losses
	for _, loss := range l {
		if now.Before(loss.At.Add(window)) {
			some = append(some, loss)
		}
	}
	return some
}

// With returns how many resources are destroyed in all with a plan that destroys some, and the most
// resources that the state had. inState is how many it has now.
func (l Losses) With(destroyed, inState int) (all, most int) {
	all, most = destroyed, inState
	for _, loss := range l {
		if loss.Open {
			destroyed = max(destroyed, loss.Resources)
		}
	}
	all = destroyed
	for _, loss := range l {
		if !loss.Open {
			all += loss.Resources
		}
		most = max(most, loss.Of)
	}
	return all, most
}

// NotAfter is that of Peaks.
func (l Losses) NotAfter(at time.Time) Losses {
	if n := len(l); n == 0 || !l[n-1].At.After(at) {
		return l
	}
	next := slices.Clone(l)
	for i := range next {
		if next[i].At.After(at) {
			next[i].At = upTo(at)
		}
	}
	return next
}

// MarshalText implements encoding.TextMarshaler.
func (l Losses) MarshalText() ([]byte, error) {
	texts, before := make([]string, len(l)), int64(0)
	for i, loss := range l {
		texts[i] = fmt.Sprint(loss.Resources, " ", loss.Of, " ", loss.At.Unix()-before)
		before = loss.At.Unix()
		if loss.Open {
			texts[i] += " open"
		}
	}
	return []byte(strings.Join(texts, ", ")), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Losses) UnmarshalText(text []byte) error {
	*l = nil
	before := int64(0)
	for one := range strings.SplitSeq(string(text), ", ") {
		var loss Loss
		var at int64
		numbers, open := strings.CutSuffix(one, " open")
		if _, err := fmt.Sscanf(numbers, "%d %d %d", &loss.Resources, &loss.Of, &at); err != nil {
			return fmt.Errorf("parse the loss %q: %w", one, err)
		}
		before += at
		loss.At, loss.Open = time.Unix(before, 0).UTC(), open
		*l = append(*l, loss)
	}
	return nil
}

// upTo is the time in the precision in which it is stored, and never earlier.
func upTo(t time.Time) time.Time {
	short := t.UTC().Truncate(time.Second)
	if short.Before(t) {
		short = short.Add(time.Second)
	}
	return short
}

// closest returns the index of the element that has the least time to the one after it.
func closest[T any](all []T, at func(T) time.Time) (index int) {
	least := time.Duration(-1)
	for i := range len(all) - 1 {
		if apart := at(all[i+1]).Sub(at(all[i])); least < 0 || apart < least {
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

// WithoutFuture returns the task's record so that no peak and no loss is later than a time: what a
// clock that was ahead has recorded counts no longer than what happened at that time.
func (t Task) WithoutFuture(at time.Time) Task {
	t.Losses = t.Losses.NotAfter(at)
	for i, c := range t.Counts {
		if n := len(c.Peaks); n > 0 && c.Peaks[n-1].Until.After(at) {
			t.Counts = slices.Clone(t.Counts)
			t.Counts[i].Peaks = c.Peaks.NotAfter(at)
		}
	}
	return t
}
