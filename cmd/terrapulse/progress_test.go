package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func newProgress(out *bytes.Buffer, width int) (p *progress, clock *time.Time) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p = &progress{out: out, width: width, now: func() time.Time { return now }, running: map[string]*progressOf{}}
	p.set(slog.New(slog.NewTextHandler(out, nil)), "running", 3)
	return p, &now
}

func TestProgress_ATerminalShowsWhatRunsSinceWhenAndHowFar(t *testing.T) {
	var out bytes.Buffer
	p, now := newProgress(&out, 72)
	web := p.begin("web")
	*now = now.Add(10 * time.Second)
	p.begin("database")
	fmt.Fprint(web, "Plan: 2 to add, 1 to change, 0 to destroy.\n")
	fmt.Fprint(web, "a.b: Creating...\na.b: Creation complete after 0s [id=x]\n")
	*now = now.Add(2 * time.Second)
	out.Reset()
	p.show()
	const line = "0 of 3 done, running: web 12s (1 of 3 resources), database 2s"
	if want := "\r\x1b[K" + line; out.String() != want {
		t.Errorf("drawn is %q, want %q", out.String(), want)
	}

	out.Reset()
	fmt.Fprintln(p, "a log line")
	if want := "\r\x1b[Ka log line\n" + line; out.String() != want {
		t.Errorf("a log line gives %q, want %q", out.String(), want)
	}

	p.width = 30
	out.Reset()
	p.end("web")
	if got := strings.TrimPrefix(out.String(), "\r\x1b[K"); len([]rune(got)) != 29 || !strings.HasPrefix(got, "1 of 3 done, running: data") {
		t.Errorf("a narrow terminal shows %q", got)
	}
	out.Reset()
	p.end("database")
	fmt.Fprintln(p, "the end")
	if want := "\r\x1b[Kthe end\n"; out.String() != want {
		t.Errorf("in the end there is %q, want %q", out.String(), want)
	}
}

func TestProgress_WithoutATerminalLongRunsAreLogged(t *testing.T) {
	var out bytes.Buffer
	p, now := newProgress(&out, 0)
	fmt.Fprint(p.begin("web"), "Plan: 2 to add, 0 to change, 0 to destroy.\n")
	if out.Len() > 0 {
		t.Errorf("it begins with %q", out.String())
	}
	*now = now.Add(30 * time.Second)
	p.show()
	for _, want := range []string{`msg="the task is still running" task=web for=30s resources_done=0 resources=2`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("logged is %q, want %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("control characters: %q", out.String())
	}
}
