//go:build unix

package syslog

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// limit limits how long a test waits.
const limit = 20 * time.Second

// daemon simulates a syslog daemon.
type daemon struct {
	t    *testing.T
	path string
	conn *net.UnixConn
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "syslog") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &daemon{t: t, path: filepath.Join(dir, "log")}
	d.listen()
	t.Cleanup(func() { d.conn.Close() })
	return d
}

func (d *daemon) listen() {
	d.t.Helper()
	var err error
	if d.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: d.path, Net: "unixgram"}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *daemon) read() string {
	d.t.Helper()
	buf := make([]byte, 64<<10)
	if err := d.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		d.t.Fatal(err)
	}
	n, err := d.conn.Read(buf)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(buf[:n])
}

func (d *daemon) handler(facility string, level slog.Leveler) *Handler {
	d.t.Helper()
	h, err := open(config.Syslog{Facility: facility, Name: "consul-terraform-sync"}, level, "unixgram", d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	return h
}

func TestHandler_EventsReachSyslog(t *testing.T) {
	d := newDaemon(t)
	h := d.handler("local3", slog.LevelDebug-4)
	defer h.Close()
	log := slog.New(h).With("task", "lb").WithGroup("run")
	const local3 = 19 << 3
	for _, c := range []struct {
		level    slog.Level
		priority int
		name     string
	}{
		{slog.LevelDebug - 4, local3 | 7, "DEBUG-4"}, {slog.LevelDebug, local3 | 7, "DEBUG"}, {slog.LevelInfo, local3 | 6, "INFO"},
		{slog.LevelWarn, local3 | 4, "WARN"}, {slog.LevelError, local3 | 3, "ERROR"}, {slog.LevelError + 4, local3 | 3, "ERROR+4"},
	} {
		log.Log(t.Context(), c.level, "applied", "took", 1500*time.Millisecond, "said", "two\nlines")
		want := regexp.MustCompile(fmt.Sprintf(`^<%d>\w+ +\d+ [\d:]+ consul-terraform-sync\[%d\]: level=%s msg=applied task=lb run.took=1.5s run.said="two\\nlines"\n$`,
			c.priority, os.Getpid(), regexp.QuoteMeta(c.name)))
		if got := d.read(); !want.MatchString(got) {
			t.Errorf("got  %q\nwant %s", got, want)
		}
	}
}

func TestHandler_EventsBelowTheLevelAreDropped(t *testing.T) {
	d := newDaemon(t)
	h := d.handler("LOCAL0", slog.LevelWarn)
	defer h.Close()
	log := slog.New(h)
	log.Info("quiet")
	log.Warn("loud")
	if got := d.read(); !strings.Contains(got, "loud") {
		t.Errorf("got %q", got)
	}
}

func TestHandler_LongLineIsTruncated(t *testing.T) {
	d := newDaemon(t)
	h := d.handler("LOCAL0", slog.LevelInfo)
	defer h.Close()
	slog.New(h).Info(strings.Repeat("ü", maxLine))
	if got := d.read(); len(got) > maxLine+200 || !strings.HasSuffix(got, "ü…\n") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-8:])
	}
}

func TestClose_WaitsForTheLastLines(t *testing.T) {
	d := newDaemon(t)
	h := d.handler("LOCAL0", slog.LevelInfo)
	for i := range 5 {
		slog.New(h).Info(fmt.Sprint("line ", i))
	}
	h.Close()
	select {
	case <-h.sink.done:
	default:
		t.Error("lines are still under way")
	}
	slog.New(h).Info("too late") // and does no harm
	h.Close()
	for i := range 5 {
		if got := d.read(); !strings.Contains(got, fmt.Sprint("line ", i)) {
			t.Errorf("got %q", got)
		}
	}
}

func TestHandler_DoesNotWaitForAHangingDaemon(t *testing.T) {
	d := newDaemon(t)
	h := d.handler("LOCAL0", slog.LevelInfo)
	log := slog.New(h)
	const lines = 5 * backlog
	began := time.Now()
	for i := range lines { // the daemon reads nothing
		log.Info(fmt.Sprint("line ", i))
	}
	if took := time.Since(began); took > limit/2 {
		t.Errorf("logging took %s", took)
	}
	// When it reads again, it gets the number of lost lines.
	closed := make(chan struct{})
	go func() {
		h.Close()
		close(closed)
	}()
	read, lost := 0, 0
	for read+lost < lines {
		n := 0
		if _, told, ok := strings.Cut(d.read(), "they are lost\" lines="); !ok {
			read++
		} else if _, err := fmt.Sscan(told, &n); err != nil {
			t.Fatal(err)
		}
		lost += n
	}
	if read+lost != lines || lost == 0 {
		t.Errorf("%d lines came and %d are said to be lost, of %d", read, lost, lines)
	}
	<-closed
}

func TestHandler_ReconnectsAfterARestartOfTheDaemon(t *testing.T) {
	d := newDaemon(t)
	h := d.handler("LOCAL0", slog.LevelInfo)
	defer h.Close()
	log := slog.New(h)
	log.Info("before")
	d.read()
	d.conn.Close()
	os.Remove(d.path)
	log.Info("meanwhile")
	for h.sink.lost.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	d.listen()
	log.Info("after")
	if got := d.read(); !strings.Contains(got, "lines=1") {
		t.Errorf("got %q", got)
	}
	if got := d.read(); !strings.Contains(got, "after") {
		t.Errorf("got %q", got)
	}
}

func TestNew_ErrorsNameTheKey(t *testing.T) {
	d := newDaemon(t)
	if _, err := open(config.Syslog{Facility: "LOCAL9"}, slog.LevelInfo, "unixgram", d.path); err == nil || !strings.Contains(err.Error(), `syslog.facility "LOCAL9"`) {
		t.Errorf("error = %v", err)
	}
	if _, err := open(config.Syslog{Facility: "LOCAL0"}, slog.LevelInfo, "unixgram", d.path+"-none"); err == nil || !strings.Contains(err.Error(), "syslog.enabled") {
		t.Errorf("error = %v", err)
	}
}
