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

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	maxLine   = 8 << 10         // bytes, the default limit of rsyslog
	backlog   = 1024            // lines that wait for the daemon; further lines are lost
	flushTime = 2 * time.Second // to send the last lines
)

// Handler writes each event as one line of key=value pairs, without the time, which syslog adds,
// but with the level, which many syslog files do not show.
type Handler struct {
	slog.Handler // writes text to sink.buffer
	sink         *sink
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
	return &Handler{slog.NewTextHandler(&s.buffer, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime}), s}, nil
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

// WithAttrs returns a handler that adds attributes to each event.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.Handler.WithAttrs(attrs), h.sink}
}

// WithGroup returns a handler that puts the attributes of events into a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.Handler.WithGroup(name), h.sink}
}

// Handle passes the event to the daemon without waiting.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	text, err := h.sink.format(ctx, h.Handler, r)
	if err != nil {
		return err
	}
	select {
	case h.sink.lines <- line{writer(r.Level), text}:
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

// writer returns what writes with the severity of a level: TRACE is debug, too.
func writer(level slog.Level) func(w *syslog.Writer, text string) error {
	switch {
	case level >= slog.LevelError:
		return (*syslog.Writer).Err
	case level >= slog.LevelWarn:
		return (*syslog.Writer).Warning
	case level >= slog.LevelInfo:
		return (*syslog.Writer).Info
	}
	return (*syslog.Writer).Debug
}

type line struct {
	write func(w *syslog.Writer, text string) error
	text  string
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
			if l.write(w, l.text) != nil {
				s.lost.Add(1)
			}
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
	n := s.lost.Swap(0)
	if n > 0 && w.Warning(fmt.Sprintf("level=WARN msg=\"syslog did not take lines of the log: they are lost\" lines=%d", n)) != nil {
		s.lost.Add(n)
	}
}
