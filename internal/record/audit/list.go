package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Filter says which entries to list. The zero value of each field but the times means all.
type Filter struct {
	Since, Until time.Time // Until is not included
	Before       string    // id of an entry: only earlier ones
	Task, By     string    // By is a part of the name, in any case
	Action       Action
	Limit        int // how many at most
}

func (f Filter) finds(e Entry) bool {
	switch {
	case e.At.Before(f.Since), !e.At.Before(f.Until), f.Before != "" && e.ID >= f.Before:
		return false
	case f.Task != "" && e.Task != f.Task, f.Action != "" && e.Action != f.Action:
		return false
	}
	return strings.Contains(strings.ToLower(e.By), strings.ToLower(f.By))
}

// byDay is up to which range of time entries are read by the day, otherwise by the month.
const byDay = 31 * 24 * time.Hour

// MaxRead is how many entries one request decodes at most, whatever it searches. Those of a year would take
// a second, and a few people who search would delay ticks.
const MaxRead = 5_000

// List returns the entries that a filter finds and that may be seen, the latest first, and the id before which a
// further request goes on; "" if there are no more. It reads only what is of the range of time, and lists fewer
// entries than the limit if it has read MaxRead by then. Entries that cannot be decoded are left out.
func List(ctx context.Context, s state.Store, f Filter, sees func(Entry) bool) (found []Entry, next string, err error) {
	until, all := f.Until, []string(nil)
	if at, ok := timeOf(f.Before); ok && at.Before(until) {
		all, until = hours(f.Since, at.Add(time.Microsecond)), at.Truncate(24*time.Hour)
	}
	if until.After(f.Since) {
		all = append(all, prefixes(f.Since, until)...)
	}
	last, read := "", 0 // the last one of the ids: a month has the hours that were read, too
	for _, prefix := range all {
		for e, err := range backward(ctx, s, prefix, f.end(), f.Limit+1) {
			if err != nil {
				return nil, "", fmt.Errorf("read the audit record: %w", err)
			}
			if read == MaxRead {
				return found, last, nil
			}
			if read++; last != "" && e.ID >= last {
				continue
			}
			if last = e.ID; f.finds(e) && sees(e) {
				if len(found) == f.Limit {
					return found, found[f.Limit-1].ID, nil
				}
				found = append(found, e)
			}
		}
	}
	return found, "", nil
}

// end is a key that those of all entries in question are less than.
func (f Filter) end() string {
	until := f.Until.UTC()
	end := prefix + until.Format("2006-01") + "/" + until.Format(layout)
	if _, ok := timeOf(f.Before); ok && len(keyOf(f.Before)) <= state.MaxKey {
		end = min(end, keyOf(f.Before))
	}
	return end
}

// backward reads the entries whose keys begin with a prefix and are less than end, the latest first. It
// reads n at once, then more and more: a day may have very many.
func backward(ctx context.Context, s state.Store, prefix, end string, n int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		before := ""
		if strings.HasPrefix(end, prefix) {
			before = end
		}
		for {
			records, err := state.Last(ctx, s, prefix, before, n)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, rec := range records {
				stored, err := state.Decode[Entry](rec)
				if errors.As(err, new(*state.CorruptError)) {
					continue
				}
				if !yield(stored.Data, err) || err != nil {
					return
				}
			}
			if len(records) != n {
				return
			}
			before, n = records[n-1].Key, max(n, min(2*n, 1000))
		}
	}
}

// timeOf is the time in an id.
func timeOf(id string) (time.Time, bool) {
	at, err := time.Parse(layout, id[:min(len(id), len(layout))])
	return at, err == nil
}

// hours are the prefixes of the keys of the last day of a range of time, the latest first. The pages of a day
// with very many entries do not each read all of them.
func hours(since, until time.Time) (all []string) {
	last := until.UTC().Add(-1).Truncate(time.Hour)
	for at := last; at.Day() == last.Day() && !at.Before(since.UTC().Truncate(time.Hour)); at = at.Add(-time.Hour) {
		all = append(all, prefix+at.Format("2006-01")+"/"+at.Format("20060102T15"))
	}
	return all
}

// prefixes are those of the keys of a range of time, the latest first.
func prefixes(since, until time.Time) (all []string) {
	since, last := since.UTC(), until.UTC().Add(-1)
	if until.Sub(since) <= byDay {
		for day := last; !day.Before(since.Truncate(24 * time.Hour)); day = day.AddDate(0, 0, -1) {
			all = append(all, prefix+day.Format("2006-01")+"/"+day.Format("20060102"))
		}
		return all
	}
	first := time.Date(since.Year(), since.Month(), 1, 0, 0, 0, 0, time.UTC)
	for month := time.Date(last.Year(), last.Month(), 1, 0, 0, 0, 0, time.UTC); !month.Before(first); month = month.AddDate(0, -1, 0) {
		all = append(all, prefix+month.Format("2006-01")+"/")
	}
	return all
}
