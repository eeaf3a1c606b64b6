package overview

import (
	"context"
	"log/slog"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Events returns the latest events, the newest first.
func (r Reader) Events(ctx context.Context) ([]apispec.LatestEvent, error) {
	latest, err := outbox.Latest(ctx, r.Store)
	if err != nil {
		return nil, err
	}
	events := make([]apispec.LatestEvent, len(latest))
	for i, e := range latest {
		events[i] = eventOf(e)
		events[i].Links = r.links(state.Run{Claimed: state.Claimed{Runner: e.Runner}})
	}
	return events, nil
}

// eventOf returns an event as the API shows it.
func eventOf(e outbox.Event) apispec.LatestEvent {
	about := e.Kind.About()
	shown := apispec.LatestEvent{ID: e.ID, Kind: string(e.Kind), Subject: string(about.Subject), Level: apispec.EventLevelInfo, At: e.At,
		Task: apiview.Optional(e.Task), Run: apiview.Optional(e.Run), By: apiview.Optional(e.By)}
	switch {
	case about.Level >= slog.LevelError:
		shown.Level = apispec.EventLevelError
	case about.Level >= slog.LevelWarn:
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
