package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/export"
)

// listFlags select events, or entries of the audit record, and say how they are printed.
type listFlags struct {
	since, until, task, by string
	csv                    bool
}

func (l *listFlags) register(f *flag.FlagSet, since, what string) {
	f.StringVar(&l.since, "since", since, "Print only what happened since then: a `time` in RFC 3339, or how long ago, such as 12h or 30d.")
	f.StringVar(&l.until, "until", "", "Print only what happened before this `time`, in the same forms.")
	f.StringVar(&l.task, "task", "", "Print only "+what+" about this `task`.")
	f.StringVar(&l.by, "by", "", "Print only what people or programs did whose `name` has this part.")
	f.BoolVar(&l.csv, "csv", false, "Print CSV, for spreadsheets.")
}

// query returns the filters as the query of a request.
func (l *listFlags) query(now time.Time, others map[string]string) (url.Values, error) {
	query := url.Values{}
	for name, text := range map[string]string{"since": l.since, "until": l.until} {
		if text == "" {
			continue
		}
		at, err := momentOf(text, now)
		if err != nil {
			return nil, fmt.Errorf("-%s is %q: %w", name, text, err)
		}
		query.Set(name, at.UTC().Format(time.RFC3339))
	}
	for name, value := range map[string]string{"task": l.task, "by": l.by} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, value := range others {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query, nil
}

// momentOf returns a time that is written as such, or as how long ago it is.
func momentOf(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	length, err := lifetime(text)
	if err != nil {
		return time.Time{}, errors.New("write a time such as 2026-11-26T08:00:00Z, or how long ago as a number of days or a duration, such as 30d or 12h")
	}
	return now.Add(-length), nil
}

// format is the format in which rows are printed one by one; "" if they are printed as a table.
func (l *listFlags) format(json bool) export.Format {
	switch {
	case json:
		return export.JSON
	case l.csv:
		return export.CSV
	}
	return ""
}

// check refuses flags that exclude each other.
func (l *listFlags) check(json bool) error {
	if json && l.csv {
		return errors.New("-json and -csv exclude each other")
	}
	return nil
}

// mostListed is how many rows a request returns at most.
const mostListed = 1000

// printRows prints what requests return, one after the other: in a format, or else by row as a table. most limits
// how many rows are printed; 0 prints all.
func printRows[T any](w io.Writer, f export.Format, columns []export.Column[T], most int, query url.Values, read func(url.Values) (rows []T, next string, err error), header []string, row func(*table, T)) error {
	var t table
	t.row(plain, header...)
	out := export.New(w, f, columns)
	for left := most; ; {
		limit := mostListed
		if most > 0 {
			limit = min(left, limit)
		}
		query.Set("limit", strconv.Itoa(limit))
		rows, next, err := read(query)
		if err != nil {
			return err
		}
		if f != "" {
			err = out.Write(rows)
		}
		for i := 0; f == "" && i < len(rows); i++ {
			row(&t, rows[i])
		}
		if left -= len(rows); err != nil || next == "" || most > 0 && left <= 0 {
			if f == "" {
				t.print(w)
			}
			return err
		}
		if next == query.Get("before") {
			return errors.New("the answers never end: check that the API has the same version as this program")
		}
		query.Set("before", next)
	}
}
