// Package logging makes logs of JSON lines.
package logging

import (
	"io"
	"log/slog"
	"strings"
)

// Level is the level of a function or container that uses a configuration: INFO until it has one.
var Level slog.LevelVar

// levels by their names in the configuration; TRACE lies below slog's own.
var levels = map[string]slog.Level{
	"TRACE": slog.LevelDebug - 4, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo,
	"WARN": slog.LevelWarn, "ERR": slog.LevelError, "ERROR": slog.LevelError,
}

// Named returns the level with a name, in any case.
func Named(name string) (level slog.Level, ok bool) {
	level, ok = levels[strings.ToUpper(name)]
	return level, ok
}

// Obey sets Level to that of the configuration.
func Obey(configured string) {
	level, _ := Named(configured)
	Level.Set(level)
}

// JSON returns a log of JSON lines, which also takes what libraries print.
// Durations are written with their unit: slog writes nanoseconds.
func JSON(w io.Writer, level slog.Leveler) *slog.Logger {
	log := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}))
	slog.SetDefault(log)
	return log
}
