package web

import (
	"encoding/json"
	"errors"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// printing is an API that knows only what a run prints, and counts the reads.
type printing struct {
	text  string
	wrong error
	reads int
}

func (a *printing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.reads++
	if a.wrong != nil {
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(apispec.ErrorResponse{Error: apispec.ErrorObject{Message: a.wrong.Error()}})
		return
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	offset = min(offset, len(a.text))
	_ = json.NewEncoder(w).Encode(apispec.RunOutputResponse{Output: a.text[offset:], Offset: offset, NextOffset: len(a.text), State: apispec.RunStateRunning})
}

func (a *printing) pages(now *time.Time) *pages {
	o := Options{API: apiclient.Local(a), Poll: 2 * time.Second, Now: func() time.Time { return *now }, Log: slog.New(slog.DiscardHandler)}
	return &pages{Options: o, source: newSource(o, access.Caller{Rights: roles.Viewing()})}
}

func TestOutput_ThoseWhoFollowARunShareWhatIsRead(t *testing.T) {
	api, now := &printing{text: "one\n"}, time.Now()
	p := api.pages(&now)
	for n, step := range []struct {
		later  time.Duration // than the step before
		prints string
		offset int // at which a viewer asks
		want   string
		reads  int
	}{
		{0, "", 0, "one\n", 1},
		{0, "", 0, "one\n", 1},
		{time.Second, "two\n", 4, "", 1},
		{1001 * time.Millisecond, "", 4, "two\n", 2},
		{time.Second, "three\n", 4, "two\n", 2}, // another viewer, who asks later
		{0, "", 8, "", 2},
		{0, "", 0, "one\ntwo\nthree\n", 3}, // a third one begins
		{0, "", 4, "two\nthree\n", 3},
		{0, "", 8, "three\n", 3},
		{0, "", 14, "", 3},
	} {
		now = now.Add(step.later)
		api.text += step.prints
		chunk, err := p.chunk(t.Context(), "web", "run", step.offset)
		if err != nil || chunk.Output != step.want || chunk.Offset != step.offset || api.reads != step.reads {
			t.Fatalf("step %d: %q from %d after %d reads, want %q after %d: %v", n, chunk.Output, chunk.Offset, api.reads, step.want, step.reads, err)
		}
	}
}

func TestOutput_ContinuesAfterItCouldNotBeRead(t *testing.T) {
	api, now := &printing{text: "one\n"}, time.Now()
	p := api.pages(&now)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ui/tasks/{name}/runs/{id}/output", p.output)
	ask := func(path string) (body, next string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("HX-Request", "true")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		found := regexp.MustCompile(`hx-get="([^"]*)"`).FindStringSubmatch(w.Body.String())
		if w.Code != http.StatusOK || found == nil {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		return w.Body.String(), html.UnescapeString(found[1])
	}
	_, next := ask("/ui/tasks/web/runs/run/output")
	api.text, api.wrong = api.text+"two\n", errors.New("the store does not answer")
	now = now.Add(time.Minute)
	body, again := ask(next)
	if !strings.Contains(body, "the store does not answer") || again != next {
		t.Errorf("it goes on at %s, not %s:\n%s", again, next, body)
	}
	api.wrong, now = nil, now.Add(time.Minute) // an error is kept for a moment, too
	if body, _ := ask(again); !strings.Contains(body, "<pre>two\n</pre>") || strings.Contains(body, "does not answer") {
		t.Errorf("%s", body)
	}
}

func TestOutput_StrangeRunIsAnError(t *testing.T) {
	api, now := &printing{wrong: errors.New("there is no such run")}, time.Now()
	p := api.pages(&now)
	for _, run := range []string{"run", "run/0"} { // the second reads what is kept of the first
		if _, err := p.chunk(t.Context(), "web", run, 0); err == nil || !strings.Contains(err.Error(), "no such run") {
			t.Errorf("run %q: %v", run, err)
		}
	}
}
