package web_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// site is the pages of an instance over the HTTP API, with tasks whose records a test
// writes.
type site struct {
	t     testing.TB
	store state.Store
	pages http.Handler
	url   string
}

func newSite(t testing.TB, tasks ...string) *site {
	t.Helper()
	return newSiteOf(t, tasksOnWeb(tasks...))
}

// tasksOnWeb is a file of tasks with these names.
func tasksOnWeb(names ...string) string {
	var hcl strings.Builder
	for _, name := range names {
		fmt.Fprintf(&hcl, "task {\n name = %q\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n}\n", name)
	}
	return hcl.String()
}

// newSiteOf is newSite with this file of tasks, and with what the API shows besides.
func newSiteOf(t testing.TB, hcl string, also ...func(*api.Options)) *site {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	ctx, stop := context.WithCancel(t.Context())
	pages := pagesOn(ctx, t, store, hcl, also...)
	server := httptest.NewServer(pages)
	t.Cleanup(func() { stop(); server.Close() })
	return &site{t: t, store: store, pages: pages, url: server.URL}
}

// pagesOn are the pages over the HTTP API on a store.
func pagesOn(ctx context.Context, t testing.TB, store state.Store, hcl string, also ...func(*api.Options)) http.Handler {
	t.Helper()
	return web.New(ctx, web.Options{
		API: apiclient.Local(apiOn(t, store, hcl, also...)), Version: "1.2.3", Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
}

// apiOn is the HTTP API on a store.
func apiOn(t testing.TB, store state.Store, hcl string, also ...func(*api.Options)) http.Handler {
	t.Helper()
	cfg := configtest.Load(t, t.TempDir(), "tasks.hcl", hcl)
	for i := range cfg.Tasks {
		cfg.Tasks[i].Source.File = "/etc/terrapulse/tasks.hcl" // wherever the test has it
	}
	people := &control.Control{
		Store: store, Source: new(overlay.Source), Now: time.Now, Poll: 10 * time.Millisecond, Wake: func(context.Context) {},
		Base: func(context.Context) (*config.Config, error) { return cfg, nil },
	}
	options := api.Options{Control: people, Began: time.Now(), Log: slog.New(slog.DiscardHandler), Version: "1.2.3"}
	for _, add := range also {
		add(&options)
	}
	handler := api.New(options)
	// A page may have gone while its read goes on. The store is closed after all reads.
	var reading sync.RWMutex
	t.Cleanup(reading.Lock)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !reading.TryRLock() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer reading.RUnlock()
		handler.ServeHTTP(w, r)
	})
}

// write writes the record of a task.
func (s *site) write(name string, task state.Task) {
	s.t.Helper()
	old, err := state.Read[state.Task](s.t.Context(), s.store, state.TaskKey(name))
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.store.Apply(s.t.Context(), old.Write(task)); err != nil {
		s.t.Fatal(err)
	}
}

// ran is a task that was applied when a run ended as how.
func (s *site) ran(name string, how state.RunState, text string) state.Task {
	s.t.Helper()
	now := time.Now().UTC()
	run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindApply, State: how, Work: state.Work{Digest: "A", Changes: &state.Changes{Add: 1, Destroy: 2}},
		Created: now.Add(-3 * time.Second), Times: state.Times{Started: now.Add(-2 * time.Second), Ended: now}, Seen: now.Add(-4 * time.Second),
		Reason: state.Reason{Code: state.ReasonChanged, Text: text}}
	if how == state.RunFailed {
		run.Error = text
	}
	s.put(state.RunKey(name, run.ID), run)
	task, _ := state.Task{}.Conclude(run, "definition")
	return task
}

// put writes a record, whatever was there.
func (s *site) put(key string, value any) {
	s.t.Helper()
	change := state.Create(key, state.Encode(value))
	if old, err := s.store.Get(s.t.Context(), key); err == nil {
		change = state.Replace(old, state.Encode(value))
	}
	if _, err := s.store.Apply(s.t.Context(), change); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) get(path string) (*http.Response, error) { return http.Get(s.url + path) }

// page returns a page, which must have these words, and its header.
func (s *site) page(path string, words ...string) (string, http.Header) {
	s.t.Helper()
	res, err := s.get(path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.has(path, string(raw), words...)
	return string(raw), res.Header
}

// has fails the test for each of the words that a text lacks.
func (s *site) has(what, text string, words ...string) {
	s.t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			s.t.Errorf("%s lacks %q", what, w)
		}
	}
}

// text returns a page.
func (s *site) text(path string) string { s.t.Helper(); text, _ := s.page(path); return text }

// as sends a request of a caller to the pages.
func (s *site) as(c access.Caller, method, path string, form url.Values) (int, string) {
	r := httptest.NewRequestWithContext(access.With(s.t.Context(), c), method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}
