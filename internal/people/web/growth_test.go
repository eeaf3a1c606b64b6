package web_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkGrowthPage loads the first page of n tasks, against a file that needs no task. Each load
// reads all records, as the first viewer does; in use, one read serves all viewers for two seconds.
func BenchmarkGrowthPage(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		pages := pagesWithoutCache(b, n)
		load := func(path string) (size int) {
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
			if w.Code != http.StatusOK {
				b.Fatalf("%s: status %d: %s", path, w.Code, w.Body)
			}
			return w.Body.Len()
		}
		var size int
		testtools.Growth{Do: func() { size = load("/ui/tasks") }, Bare: func() { load("/ui/icon.svg") }}.Measure(b)
		b.ReportMetric(float64(size), "page-B/op")
	})
}

// BenchmarkGrowthAPI reads the overview of n tasks through the HTTP API, as a page and `status` do,
// against its answer about health.
func BenchmarkGrowthAPI(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		server := httptest.NewServer(apiOf(b, n))
		b.Cleanup(server.Close)
		load := func(path string) int64 {
			res, err := http.Get(server.URL + path)
			if err != nil {
				b.Fatal(err)
			}
			defer res.Body.Close()
			size, err := io.Copy(io.Discard, res.Body)
			if err != nil || size == 0 {
				b.Fatalf("%s: %d bytes: %v", path, size, err)
			}
			return size
		}
		var size int64
		testtools.Growth{Do: func() { size = load("/v1/overview") }, Bare: func() { load("/v1/health") }}.Measure(b)
		b.ReportMetric(float64(size), "answer-B/op")
	})
}

// pagesWithoutCache are the pages of n tasks that read everything for each page.
func pagesWithoutCache(b *testing.B, n int) http.Handler {
	return web.New(b.Context(), web.Options{API: apiclient.Local(apiOf(b, n)), Who: api.Sender, MayAct: web.MayAct, Version: "1.2.3", Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Poll: time.Nanosecond})
}

// apiOf is the HTTP API of n tasks that have run often.
func apiOf(b *testing.B, n int) http.Handler {
	b.Helper()
	store := statetest.NewMemory()
	b.Cleanup(func() { store.Close() })
	cfg := new(config.Config)
	if _, err := store.Apply(b.Context(), state.Create(state.ReconcileKey, state.Encode(state.Reconcile{LastSuccess: time.Now()}))); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprintf("switch-%05d", i)
		cfg.Tasks = append(cfg.Tasks, config.Task{Name: name, Enabled: true, Condition: config.Condition{Spec: condition.Services{{Names: []string{name}}}}})
		if _, err := store.Apply(b.Context(), state.Create(state.TaskKey(name), state.Encode(statetest.Ran(name)))); err != nil {
			b.Fatal(err)
		}
	}
	people := &control.Control{Store: store, Source: new(overlay.Source), Now: time.Now, Wake: func(context.Context) {}, Base: func(context.Context) (*config.Config, error) { return cfg, nil }}
	return api.New(api.Options{Control: people, Began: time.Now(), Log: slog.New(slog.DiscardHandler), Version: "1.2.3"})
}
