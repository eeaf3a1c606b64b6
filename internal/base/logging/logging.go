// Package logging makes logs of JSON lines.
package logging

import (
	"io"
	"log/slog"
)

// JSON returns a log of JSON lines, which also takes what libraries print.
// Durations are written with their unit: slog writes nanoseconds.
func JSON(w io.Writer, level slog.Level) *slog.Logger {
	log := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}))
	slog.SetDefault(log)
	return log
}
