package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/export"
)

// listed is what the pages of events and of the audit record have in common: a part of a list that the
// server filters, with links to other parts and to exports.
type listed struct {
	Older  string `json:"-"` // page with earlier ones; "" if there are none
	Newest string `json:"-"` // first page, if this is another one
	Lines  string `json:"-"` // the same as lines of JSON
	Table  string `json:"-"` // the same as CSV
}

// listedOf are the links of a part. The filter is the query of the page; next is before of the part that
// follows, "" if there is none.
func listedOf(path string, filter url.Values, next string) (l listed) {
	at := func(path string, change func(url.Values)) string {
		query := url.Values{}
		for name, values := range filter {
			query[name] = values
		}
		if change(query); len(query) == 0 {
			return path
		}
		return path + "?" + query.Encode()
	}
	if filter.Get("before") != "" {
		l.Newest = at(path, func(q url.Values) { q.Del("before") })
	}
	if next != "" {
		l.Older = at(path, func(q url.Values) { q.Set("before", next) })
	}
	l.Lines = at(path+"/export", func(q url.Values) { q.Del("before") })
	l.Table = at(path+"/export", func(q url.Values) { q.Del("before"); q.Set("format", string(export.CSV)) })
	return l
}

// values returns the query that has these values, without those that are "".
func values(all map[string]string) url.Values {
	query := url.Values{}
	for name, value := range all {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// exported sends everything that a query selects, part by part. The rights are those of the viewer.
func exported[T any](p *pages, name string, columns []export.Column[T], request func(url.Values) url.Values, read func(context.Context, url.Values) (rows []T, next string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query, format := request(r.URL.Query()), export.JSON
		if r.URL.Query().Get("format") == string(export.CSV) {
			format = export.CSV
		}
		query.Set("limit", "1000")
		ctx := access.With(r.Context(), p.Viewer(r))
		var rows []T
		var next string
		part := func() (err error) {
			rows, next, err = read(ctx, query)
			return err
		}
		if err := p.all.inTurn(ctx, part); err != nil {
			p.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", format.ContentType())
		w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.%s"`, name, format))
		out := export.New(w, format, columns)
		for {
			if out.Write(rows) != nil {
				return // the client has gone
			}
			switch next {
			case "":
				return
			case query.Get("before"): // it would never end
				panic(http.ErrAbortHandler)
			}
			query.Set("before", next)
			if err := p.all.inTurn(ctx, part); err != nil {
				panic(http.ErrAbortHandler) // the client must not take what it has for everything
			}
		}
	}
}

// inputTime is how people write a time into a form, in UTC.
const inputTime = "2006-01-02 15:04"

// momentOf is a time of a form or of a link; zero if it is none.
func momentOf(text string) time.Time {
	text = strings.TrimSpace(text)
	for _, layout := range []string{inputTime, "2006-01-02T15:04", time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}
