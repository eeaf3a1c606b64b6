package outbox

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/tracing"
)

// Log is the sink that writes events to the log.
//
// A process that makes a transition logs its event at once, through Deliver.
// When the event is delivered from the store, a Log with the same Said skips it.
// So each event is logged once in the log of the process that made the
// transition, and once in that of the process that delivers it, if that is
// another one.
type Log struct {
	To   *slog.Logger
	Said *Said // may be nil: then every event is logged
}

var _ Sink = Log{}

// Name implements Sink.
func (Log) Name() string { return "log" }

// Deliver implements Sink. The line has the time of the event, not of its
// delivery.
func (l Log) Deliver(ctx context.Context, e Event) error {
	text, level := e.Kind.About().Line, e.Level()
	if text == "" || !l.To.Enabled(ctx, level) || l.Said.before(e.ID) {
		return nil
	}
	line := slog.NewRecord(e.At, level, text, 0)
	line.AddAttrs(attributes(e)...)
	return l.To.Handler().Handle(ctx, line)
}

// Now logs events that this process has just written to the store. An error of
// the log has nowhere to go.
func (l Log) Now(ctx context.Context, events Events) {
	for _, e := range events.All() {
		_ = l.Deliver(ctx, e)
	}
}

// launching are the kinds of events whose log line names the launch. Other lines about a run have no id
// beside that of the run: the launch is in the line that the run began with.
var launching = []Kind{RunDecided, RunResumed}

// attributes are those of the event's log line.
func attributes(e Event) (attrs []slog.Attr) {
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	stamp := func(key string, value time.Time) {
		if !value.IsZero() {
			attrs = append(attrs, slog.Time(key, value))
		}
	}
	text("task", e.Task)
	text("former", e.Former)
	text("run", e.Run)
	if slices.Contains(launching, e.Kind) {
		text("launch", e.Launch)
	}
	if e.Fence > 0 {
		attrs = append(attrs, slog.Uint64("fence", e.Fence))
	}
	text("kind", string(e.RunKind))
	text("reason", string(e.Reason))
	text("wait_for", string(e.WaitFor))
	text("plan", e.Plan)
	text("detail", e.Detail)
	if took := e.Worked(); took > 0 {
		attrs = append(attrs, slog.Duration("duration", took.Round(time.Millisecond)))
	}
	switch c := e.Changes; {
	case c == nil:
	case c.Unknown:
		attrs = append(attrs, slog.Bool("changes_unknown", true))
	default:
		attrs = append(attrs, slog.Int("added", c.Add), slog.Int("changed", c.Change), slog.Int("destroyed", c.Destroy))
	}
	if !e.Seen.IsZero() {
		attrs = append(attrs, slog.Duration("since_seen", e.At.Sub(e.Seen).Round(time.Millisecond)))
	}
	number := func(key string, value int) {
		if value > 0 {
			attrs = append(attrs, slog.Int(key, value))
		}
	}
	number("failures", e.Failures)
	number("count", e.Count)
	text("tasks", strings.Join(e.Tasks, " "))
	stamp("since", e.Since)
	stamp("until", e.Until)
	text("config", e.Config)
	text("bundle", e.Bundle)
	text("by", e.By)
	text("cause", e.Cause)
	text("error", e.Error)
	text("remote_url", e.RemoteURL)
	text("trace_id", tracing.Parse(e.Trace).ID())
	text("event", string(e.Kind))
	return attrs
}

// maxSaid is how many events a Said remembers: more than one delivery brings.
const maxSaid = 4096

// Said remembers which events this process has logged. It is safe for
// concurrent use. Its zero value remembers none.
type Said struct {
	mu   sync.Mutex
	ids  map[string]bool
	list []string // oldest first
}

// before reports whether it was called with the id before. A nil Said has
// never been.
func (s *Said) before(id string) bool {
	if s == nil || id == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids[id] {
		return true
	}
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.ids[id], s.list = true, append(s.list, id)
	if len(s.list) > maxSaid {
		delete(s.ids, s.list[0])
		s.list = s.list[1:]
	}
	return false
}
