//go:build unix

// Package syslog sends log events to the system's syslog daemon. If the daemon hangs or restarts,
// lines are lost and counted; the program never waits for it.
package syslog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"log/syslog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/terrapulse/terrapulse/internal/config"
)

const (
	maxLine   = 8 << 10         // bytes, the default limit of rsyslog
	backlog   = 1024            // lines that wait for the daemon; further lines are lost
	flushTime = 2 * time.Second // to send the last lines
)

// Handler writes each event as one line of key=value pairs, without the time, which syslog adds,
// but with the level, which many syslog files do not show.
type Handler struct {
	text slog.Handler // writes to sink.buffer
	sink *sink
}

// New connects to the syslog daemon of this host. Events below the level are dropped. An error
// names the invalid key of the configuration.
func New(cfg config.Syslog, level slog.Leveler) (*Handler, error) {
	return open(cfg, level, "", "")
}

func open(cfg config.Syslog, level slog.Leveler, network, address string) (*Handler, error) {
	facility, err := parseFacility(cfg.Facility)
	if err != nil {
		return nil, err
	}
	w, err := syslog.Dial(network, address, facility|syslog.LOG_INFO, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("connect to syslog: %w; check that a syslog daemon runs on this host, or set syslog.enabled to false", err)
	}
	s := &sink{lines: make(chan line, backlog), stop: make(chan struct{}), done: make(chan struct{})}
	go s.run(w)
	return &Handler{sink: s, text: slog.NewTextHandler(&s.buffer, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime})}, nil
}

func parseFacility(name string) (syslog.Priority, error) {
	names := strings.Fields("KERN USER MAIL DAEMON AUTH SYSLOG LPR NEWS UUCP CRON AUTHPRIV FTP - - - - LOCAL0 LOCAL1 LOCAL2 LOCAL3 LOCAL4 LOCAL5 LOCAL6 LOCAL7")
	for number, known := range names {
		if known != "-" && strings.EqualFold(known, name) {
			return syslog.Priority(number << 3), nil
		}
	}
	return 0, fmt.Errorf("syslog.facility %q does not exist: use LOCAL0 to LOCAL7, USER or DAEMON", name)
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// Enabled reports whether events of the level are written.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.text.Enabled(ctx, level)
}

// WithAttrs returns a handler that adds attributes to each event.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{text: h.text.WithAttrs(attrs), sink: h.sink}
}

// WithGroup returns a handler that puts the attributes of events into a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{text: h.text.WithGroup(name), sink: h.sink}
}

// Handle passes the event to the daemon without waiting.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	text, err := h.sink.format(ctx, h.text, r)
	if err != nil {
		return err
	}
	select {
	case h.sink.lines <- line{severity(r.Level), text}:
	default:
		h.sink.lost.Add(1)
	}
	return nil
}

// Close waits for the last lines, at most 2 seconds. Later events are lost.
func (h *Handler) Close() {
	h.sink.once.Do(func() { close(h.sink.stop) })
	select {
	case <-h.sink.done:
	case <-time.After(flushTime):
	}
}

// severity returns the severity of a level: TRACE is debug, too.
func severity(level slog.Level) syslog.Priority {
	switch {
	case level >= slog.LevelError:
		return syslog.LOG_ERR
	case level >= slog.LevelWarn:
		return syslog.LOG_WARNING
	case level >= slog.LevelInfo:
		return syslog.LOG_INFO
	}
	return syslog.LOG_DEBUG
}

type line struct {
	severity syslog.Priority
	text     string
}

// sink is shared by the handlers of one connection.
type sink struct {
	lines chan line
	stop  chan struct{} // closed when there are no more lines
	once  sync.Once     // for stop
	done  chan struct{} // closed when all lines are written
	lost  atomic.Int64

	mu     sync.Mutex
	buffer bytes.Buffer
}

// format returns the event as a line.
func (s *sink) format(ctx context.Context, h slog.Handler, r slog.Record) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffer.Reset()
	if err := h.Handle(ctx, r); err != nil {
		return "", err
	}
	return cut(strings.TrimRight(s.buffer.String(), "\n")), nil
}

// cut truncates a line that is too long for syslog.
func cut(text string) string {
	if len(text) <= maxLine {
		return text
	}
	end := maxLine
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// run writes lines until there are no more.
func (s *sink) run(w *syslog.Writer) {
	defer close(s.done)
	defer w.Close()
	for {
		select {
		case l := <-s.lines:
			s.reportLost(w)
			s.write(w, l, 1)
		case <-s.stop:
			if len(s.lines) == 0 {
				s.reportLost(w)
				return
			}
		}
	}
}

// reportLost writes how many lines were lost.
func (s *sink) reportLost(w *syslog.Writer) {
	if n := s.lost.Swap(0); n > 0 {
		s.write(w, line{syslog.LOG_WARNING, fmt.Sprintf("level=WARN msg=\"syslog did not take lines of the log: they are lost\" lines=%d", n)}, n)
	}
}

// write writes a line. If it fails, count lines are lost.
func (s *sink) write(w *syslog.Writer, l line, count int64) {
	var err error
	switch l.severity {
	case syslog.LOG_ERR:
		err = w.Err(l.text)
	case syslog.LOG_WARNING:
		err = w.Warning(l.text)
	case syslog.LOG_INFO:
		err = w.Info(l.text)
	default:
		err = w.Debug(l.text)
	}
	if err != nil {
		s.lost.Add(count)
	}
}
