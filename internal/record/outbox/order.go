package outbox

import (
	"slices"
	"time"
)

// inFirst leaves out the items that are newer than the first list of the records, and those that follow them
// in one of their streams.
func inFirst(items []item, newest map[string]uint64) []item {
	later := map[string]bool{} // streams
	return slices.DeleteFunc(items, func(it item) bool {
		waits := it.Seq > newest[it.stream()] || slices.ContainsFunc(it.streams(), func(stream string) bool { return later[stream] })
		later[it.stream()] = later[it.stream()] || waits
		return waits
	})
}

// outstanding are the events that the sink is to be given now.
func (q *queue) outstanding(sink Sink) []item {
	now := q.Now()
	if q.gathers(sink, now).After(now) {
		return nil
	}
	rests := q.rests(sink, now)
	return slices.DeleteFunc(slices.Clone(q.items), func(it item) bool {
		return !it.in.lacks(sink, it.n) || !rests(it).IsZero()
	})
}

// rests returns a function that says until when the sink takes none of the events that it lacks; zero if it
// takes one now. It is called with these events in their order: an event of two streams waits for both, and
// what follows it waits, too.
func (q *queue) rests(sink Sink, now time.Time) func(item) time.Time {
	streams := map[string]time.Time{}
	return func(it item) time.Time {
		last := streams[it.stream()]
		for _, stream := range it.streams() {
			for _, until := range []time.Time{streams[stream], q.Rests.until(sink, stream, now)} {
				if until.After(last) {
					last = until
				}
			}
		}
		streams[it.stream()] = last
		return last
	}
}

// gathers is until when the sink waits for more events; zero if it does not wait. The oldest
// event that it lacks decides: what happens later comes with it.
func (q *queue) gathers(sink Sink, now time.Time) time.Time {
	patient, ok := sink.(Patient)
	if !ok || q.Last {
		return time.Time{}
	}
	var oldest time.Time
	for _, it := range q.items {
		if it.in.lacks(sink, it.n) && (oldest.IsZero() || it.At.Before(oldest)) {
			oldest = it.At
		}
	}
	if oldest.IsZero() {
		return oldest
	}
	if oldest.After(now) {
		oldest = now // by another clock
	}
	return oldest.Add(patient.Patience())
}

// due is when the sink is given the first of the events that it lacks: now, unless it rests or
// gathers. It is zero if it lacks none.
func (q *queue) due(sink Sink, now time.Time) (first time.Time) {
	gathers, rests := q.gathers(sink, now), q.rests(sink, now)
	for _, it := range q.items {
		if !it.in.lacks(sink, it.n) {
			continue
		}
		at := now
		for _, until := range []time.Time{gathers, rests(it)} {
			if until.After(at) {
				at = until
			}
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// lookAhead limits how many events first examines for each that it may return.
const lookAhead = 16

// first returns the first events of those that are left: at most n, and at most one
// of each stream, because its successor must not be delivered if it fails. It
// drops events of blocked streams. An event of two streams waits for those before it in both.
func first(left []item, n int, blocked map[string]bool) (some, rest []item) {
	var later []item
	taken := map[string]bool{} // streams
	i := 0
	for ; i < len(left) && i < n*lookAhead && len(some) < n; i++ {
		streams := left[i].streams()
		is := func(so map[string]bool) bool {
			return slices.ContainsFunc(streams, func(stream string) bool { return so[stream] })
		}
		switch {
		case is(blocked):
			blocked[streams[0]] = true
			continue
		case is(taken):
			later = append(later, left[i])
		default:
			some = append(some, left[i])
		}
		for _, stream := range streams {
			taken[stream] = true
		}
	}
	rest = left[i-len(later):]
	copy(rest, later)
	return some, rest
}
