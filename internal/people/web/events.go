package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/export"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

// eventsPage is what happened.
type eventsPage struct {
	Events []apispec.LatestEvent `json:"events"`
	Filter eventFilter           `json:"filter"`
	Oldest *time.Time            `json:"oldest,omitempty"` // of all that are kept
	Kinds  []string              `json:"-"`
	Levels []apispec.EventLevel  `json:"-"`
	listed `json:"-"`
}

// eventFilter is what the page of events selects.
type eventFilter struct {
	Task   string `json:"task,omitempty"`
	Label  string `json:"label,omitempty"` // of tasks: KEY=VALUE, with spaces between them
	Kind   string `json:"kind,omitempty"`
	Level  string `json:"level,omitempty"` // the least one
	By     string `json:"by,omitempty"`
	Text   string `json:"q,omitempty"`
	Since  string `json:"since,omitempty"` // as a form has it
	Until  string `json:"until,omitempty"`
	Before string `json:"before,omitempty"` // where the earlier page ended
}

// eventKinds are all kinds, for people to choose.
var eventKinds = list.Map(outbox.Kinds(), func(k outbox.Kind) string { return string(k) })

// eventFilterOf is what a query selects. What it does not know, it leaves out.
func eventFilterOf(query url.Values) eventFilter {
	text := func(name string) string { return strings.TrimSpace(query.Get(name)) }
	f := eventFilter{Task: text("task"), Label: strings.Join(labelsIn(query), " "), Kind: text("kind"), Level: text("level"), By: text("by"), Text: text("q"), Before: text("before")}
	if !slices.Contains(eventKinds, f.Kind) {
		f.Kind = ""
	}
	if !slices.Contains(apiview.EventLevels, apispec.EventLevel(f.Level)) {
		f.Level = ""
	}
	for name, field := range map[string]*string{"since": &f.Since, "until": &f.Until} {
		if at := momentOf(query.Get(name)); !at.IsZero() {
			*field = at.Format(inputTime)
		}
	}
	return f
}

// values are the filter as the query of a page.
func (f eventFilter) values() url.Values {
	return values(map[string]string{"task": f.Task, "label": f.Label, "kind": f.Kind, "level": f.Level, "by": f.By, "q": f.Text, "since": f.Since, "until": f.Until, "before": f.Before})
}

// request is the filter as the query of the API.
func (f eventFilter) request() url.Values {
	query := f.values()
	for name, text := range map[string]string{"since": f.Since, "until": f.Until} {
		if text != "" {
			query.Set(name, momentOf(text).Format(time.RFC3339))
		}
	}
	if f.Label != "" {
		query["label"] = strings.Fields(f.Label)
	}
	return query
}

// Any reports whether the filter leaves something out.
func (f eventFilter) Any() bool {
	f.Before = ""
	return f != eventFilter{}
}

func (p *pages) events(r *http.Request) (view, error) {
	page := eventsPage{Filter: eventFilterOf(r.URL.Query()), Kinds: eventKinds, Levels: apiview.EventLevels[1:]}
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	query := page.Filter.request()
	query.Set("limit", "100")
	answer, err := read(r.Context(), p.source, "events?"+query.Encode(), func(ctx context.Context) (apispec.EventsResponse, error) { return p.source.Events(ctx, query) })
	if err != nil {
		return view{}, err
	}
	page.Events, page.Oldest = answer.Events, answer.Oldest
	page.listed = listedOf(pageURL("events"), page.Filter.values(), apispec.Deref(answer.Next))
	return view{title: "Events", template: "events", shown: o.topics, still: page.Filter.Before != "", data: page}, nil
}

// exportEvents sends the events that the page selects.
func (p *pages) exportEvents() http.HandlerFunc {
	return exported(p, "events", export.Events, func(query url.Values) url.Values { return eventFilterOf(query).request() },
		func(ctx context.Context, query url.Values) ([]apispec.LatestEvent, string, error) {
			answer, err := p.source.Events(ctx, query)
			return answer.Events, apispec.Deref(answer.Next), err
		})
}
