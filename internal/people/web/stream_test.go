package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// stream returns the address of the stream of a page, as the page has it.
func (s *site) stream(path string) string {
	s.t.Helper()
	page, _ := s.page(path)
	found := regexp.MustCompile(`hx-sse:connect="([^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		s.t.Fatalf("%s has no stream:\n%s", path, page)
	}
	return html.UnescapeString(found[1])
}

// told waits until a stream says that its page has changed, or that it is open.
func (s *site) told(lines *bufio.Scanner, what string) {
	s.t.Helper()
	for lines.Scan() {
		if lines.Text() == what {
			return
		}
	}
	s.t.Fatalf("the stream ends before it says %q: %v", what, lines.Err())
}

func (s *site) connect(path string) *bufio.Scanner {
	s.t.Helper()
	ctx, end := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(end)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	s.told(lines, ": open")
	return lines
}

// A background tab ends its stream, and connects again when people look at it.
func TestEvents_TellAPageWhatItMissedWhileItWasNotConnected(t *testing.T) {
	for _, path := range []string{"/ui/tasks", "/ui/tasks/web"} {
		s := newSite(t, "web", "dns")
		s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
		stream := s.stream(path)
		s.write("web", s.ran("web", state.RunFailed, "no route"))
		s.told(s.connect(stream), "event: changed")
	}
}

func TestEvents_PageThatIsToldReadsEverythingAgain(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunSucceeded, "first"))
	lines := s.connect(s.stream("/ui/tasks/web"))
	s.write("web", s.ran("web", state.RunSucceeded, "second"))
	s.told(lines, "event: changed")
	page, _ := s.page("/ui/tasks/web.json")
	var got struct{ Runs []struct{ ID string } }
	if err := json.Unmarshal([]byte(page), &got); err != nil || len(got.Runs) != 2 {
		t.Errorf("%d runs, %v: %s", len(got.Runs), err, strings.TrimSpace(page))
	}
}
