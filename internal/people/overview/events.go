package overview

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// Events are what a request for events gets.
type Events struct {
	Found  []apispec.LatestEvent // the newest first
	Next   string                // from where a further request goes on; "" if there are no more
	Oldest time.Time             // of those that are kept, if this is no further request
}

// Events returns the events that a filter selects and that may be seen.
func (r Reader) Events(ctx context.Context, f apiview.EventFilter, sees func(apispec.LatestEvent) bool) (Events, error) {
	found := []apispec.LatestEvent{}
	_, next, err := outbox.List(ctx, r.Store, outbox.Query{Since: f.Since, Until: f.Until, Before: f.Before, Limit: f.Limit}, func(e outbox.Event) bool {
		shown := eventOf(e)
		if !sees(shown) || !f.Finds(shown) {
			return false
		}
		if shown.Links = r.links(state.Run{Claimed: state.Claimed{Runner: e.Runner}}); len(found) < f.Limit {
			found = append(found, shown)
		}
		return true
	})
	all := Events{Found: found, Next: next}
	if err == nil && f.Before == "" {
		all.Oldest, err = outbox.Oldest(ctx, r.Store)
	}
	return all, err
}

// WithLabels returns a function that reports whether an event is about a task with labels, as in
// selection.Selection. The labels are those of now; a task that is in no configuration has none.
func WithLabels(effective *overlay.Effective, labels []string) func(task string) bool {
	fits := selection.Labelled(labels)
	return func(task string) bool {
		if t, ok := effective.Config.Task(task); ok {
			return fits(t.Labels)
		}
		return task != "" && fits(nil)
	}
}

// eventOf returns an event as the API shows it.
func eventOf(e outbox.Event) apispec.LatestEvent {
	shown := apispec.LatestEvent{ID: e.ID, Kind: string(e.Kind), Subject: string(e.Kind.About().Subject), Level: apispec.EventLevelInfo, At: e.At,
		Task: apiview.Optional(e.Task), Run: apiview.Optional(e.Run), By: apiview.Optional(e.By)}
	switch {
	case e.Level() >= slog.LevelError:
		shown.Level = apispec.EventLevelError
	case e.Level() >= slog.LevelWarn:
		shown.Level = apispec.EventLevelWarning
	}
	e.By = "" // it has a field, as the task
	lines := notify.Lines(e)
	shown.Text = strings.TrimPrefix(lines[0], e.Task+": ")
	if len(lines) > 1 {
		shown.Details = new(lines[1:])
	}
	return shown
}
