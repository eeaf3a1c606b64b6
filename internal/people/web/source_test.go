package web

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// changing is pages over an API whose task web has as many runs as it has changed.
type changing struct {
	*pages
	now     time.Time
	changes int
	reading func() // is called while the runs are read
}

func newChanging() *changing {
	c := &changing{now: time.Now(), reading: func() {}}
	api := http.NewServeMux()
	answer := func(path string, of func() any) {
		api.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(of()) })
	}
	answer("/v1/overview", func() any { return c.overview() })
	answer("/v1/tasks/web/runs", func() any {
		runs := make([]apispec.Run, c.changes)
		c.reading()
		return apispec.RunsResponse{Runs: runs}
	})
	o := Options{API: apiclient.Local(api), Poll: 2 * time.Second, Now: func() time.Time { return c.now }, Log: slog.New(slog.DiscardHandler),
		Viewer: func(*http.Request) access.Caller {
			return access.Caller{Identity: access.Identity{Name: "jo"}, Rights: roles.Everything()}
		}}
	c.pages = &pages{Options: o, source: newSource(o, access.Caller{Rights: roles.Viewing()})}
	return c
}

func (c *changing) overview() apispec.Overview {
	return apispec.Overview{Tasks: []apispec.TaskOverview{{Name: "web", Reason: apispec.Reason{Text: fmt.Sprint(c.changes)}}}}
}

func (c *changing) request() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/ui/tasks/web", nil)
	r.SetPathValue("name", "web")
	return r
}

func TestSource_KeepsNothingFromBeforeAChangeThatTheOverviewShows(t *testing.T) {
	c := newChanging()
	if _, err := c.source.overview(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(2500 * time.Millisecond)
	if _, err := read(t.Context(), c.source, "runs/web", func(ctx context.Context) ([]apispec.Run, error) { return c.source.Runs(ctx, "web") }); err != nil {
		t.Fatal(err)
	}
	c.changes++
	c.now = c.now.Add(2 * time.Second) // the overview is read again, and the runs would do
	v, err := c.task(c.request())
	if err != nil {
		t.Fatal(err)
	}
	if page := v.data.(taskPage); page.Task.Reason.Text != "1" || len(page.Runs) != 1 {
		t.Errorf("the overview shows %s change, and the page has %d runs", page.Task.Reason.Text, len(page.Runs))
	}
}

func TestSource_KeepsNothingAfterThePagesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(Options{Poll: 2 * time.Second, Now: time.Now}, access.Caller{Rights: roles.Viewing()})
		kept := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.kept)
		}
		if _, err := read(t.Context(), s, "output", func(context.Context) (string, error) { return "10 MB", nil }); err != nil || kept() != 1 {
			t.Fatal(kept(), err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := kept(); n != 0 {
			t.Errorf("nobody looks, and %d answers take memory", n)
		}
	})
}

func TestPage_IsToldOfAChangeThatCameWhileItWasRead(t *testing.T) {
	c := newChanging()
	want := digestsOf(c.overview())["web"]
	c.reading = func() {
		c.reading = func() {}
		c.changes++
		c.now = c.now.Add(2 * time.Second)
		if _, err := c.source.latest(t.Context()); err != nil { // for another page
			t.Error(err)
		}
	}
	w := httptest.NewRecorder()
	c.page(c.task)(w, c.request())
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "seen="+want) {
		t.Errorf("the stream of the page does not begin with what it shows: %d\n%s", w.Code, body)
	}
}
