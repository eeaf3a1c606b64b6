package apiview

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// Selection is what requests for events and for the audit record have in common.
type Selection struct {
	Since, Until time.Time // zero if it is not given; Until is not included
	Before       string    // where the earlier answer ended
	Task, By     string    // By is a part of the name, in any case
	Limit        int
}

// SelectionOf returns what the query of a request selects. It was checked before.
func SelectionOf(query url.Values, limit int) Selection {
	if n, err := strconv.Atoi(query.Get("limit")); err == nil {
		limit = n
	}
	return Selection{Since: moment(query.Get("since")), Until: moment(query.Get("until")), Before: query.Get("before"), Task: query.Get("task"), By: query.Get("by"), Limit: limit}
}

// moment is a time that was checked before; zero if it is not given.
func moment(text string) time.Time {
	at, _ := time.Parse(time.RFC3339, text)
	return at
}

// EventFilter is which events a request selects.
type EventFilter struct {
	Selection
	Kind  string
	Level apispec.EventLevel // the least one; "" for all
	Text  string             // a part of the text or of a detail, in any case
}

// EventLevels are the levels of events, the least first.
var EventLevels = []apispec.EventLevel{apispec.EventLevelInfo, apispec.EventLevelWarning, apispec.EventLevelError}

// eventLimit is how many events are listed by default.
const eventLimit = 50

// EventFilterOf returns which events the query of a request selects.
func EventFilterOf(query url.Values) EventFilter {
	return EventFilter{SelectionOf(query, eventLimit), query.Get("kind"), apispec.EventLevel(query.Get("level")), query.Get("q")}
}

// Finds reports whether the filter selects an event, whatever its time.
func (f EventFilter) Finds(e apispec.LatestEvent) bool {
	switch {
	case f.Task != "" && apispec.Deref(e.Task) != f.Task, f.Kind != "" && e.Kind != f.Kind:
		return false
	case slices.Index(EventLevels, e.Level) < slices.Index(EventLevels, f.Level):
		return false
	case !contains(apispec.Deref(e.By), f.By):
		return false
	}
	return f.Text == "" || slices.ContainsFunc(append([]string{e.Text}, apispec.Deref(e.Details)...), func(text string) bool { return contains(text, f.Text) })
}

// contains reports whether a text has a part, in any case.
func contains(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
