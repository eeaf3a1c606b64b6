package deployment

import (
	"io"
	"log/slog"
)

// Logger returns a log of JSON lines, which CloudWatch takes apart by itself.
// Durations are written with their unit.
func Logger(w io.Writer, level slog.Level) *slog.Logger {
	log := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}))
	slog.SetDefault(log) // what libraries print goes there, too
	return log
}
