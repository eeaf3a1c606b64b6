package web_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

// exporting is the pages of a site with a record of 2500 entries, and what they read of it.
type exporting struct {
	*site
	reads, reading, most atomic.Int32  // of parts of the record: all, at this moment, and at the same time
	hold                 chan struct{} // a read waits until it is closed, unless it is nil
}

func newExporting(t *testing.T) *exporting {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	e := &exporting{}
	api := apiOn(t, store, tasksOnWeb("web"))
	pages := web.New(t.Context(), web.Options{Version: "1.2.3", Now: time.Now, Log: slog.New(slog.DiscardHandler),
		API: apiclient.Local(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/audit" {
				api.ServeHTTP(w, r)
				return
			}
			e.reads.Add(1)
			now := e.reading.Add(1)
			defer e.reading.Add(-1)
			for most := e.most.Load(); now > most && !e.most.CompareAndSwap(most, now); most = e.most.Load() {
			}
			if e.hold != nil {
				select {
				case <-e.hold:
				case <-r.Context().Done():
				}
			}
			api.ServeHTTP(w, r)
		}))})
	e.site = &site{t: t, store: store, pages: pages}
	ctx := audit.With(t.Context(), audit.Actor{Identity: identity.OfToken("ci"), Via: audit.API})
	var changes []state.Change
	latest := time.Now().Add(-time.Minute)
	for i := range 2500 {
		changes = append(changes, audit.Write(ctx, audit.Entry{Action: audit.Hold, Task: "web"}, "token:ci", latest.Add(-time.Duration(i)*time.Millisecond)))
	}
	for some := range slices.Chunk(changes, state.MaxChanges) {
		if _, err := store.Apply(t.Context(), some...); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// export requests an export.
func (e *exporting) export(ctx context.Context, w http.ResponseWriter) {
	defer func() { _ = recover() }() // of an export that is cut off
	e.pages.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/ui/audit/export", nil))
}

func TestExports_TakeTurns(t *testing.T) {
	e := newExporting(t)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			w := httptest.NewRecorder()
			e.export(t.Context(), w)
			if lines := strings.Count(w.Body.String(), "\n"); w.Code != http.StatusOK || lines != 2500 {
				t.Errorf("an export has status %d and %d lines", w.Code, lines)
			}
		})
	}
	all.Wait()
	if e.most.Load() != 1 || e.reads.Load() != 15 {
		t.Errorf("%d exports read at the same time, %d parts in all", e.most.Load(), e.reads.Load())
	}
}

// stuck is a client that reads nothing until its context ends.
type stuck struct {
	*httptest.ResponseRecorder
	ctx   context.Context
	began chan struct{}
	once  sync.Once
}

func (s *stuck) Write([]byte) (int, error) {
	s.once.Do(func() { close(s.began) })
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func TestExports_SlowClientDelaysNoOtherExport(t *testing.T) {
	e := newExporting(t)
	ctx, leave := context.WithCancel(t.Context())
	slow := &stuck{ResponseRecorder: httptest.NewRecorder(), ctx: ctx, began: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() { e.export(ctx, slow) })
	<-slow.began
	w := httptest.NewRecorder()
	e.export(t.Context(), w)
	if lines := strings.Count(w.Body.String(), "\n"); lines != 2500 {
		t.Errorf("the export has %d lines", lines)
	}
	leave()
	all.Wait()
}

func TestExports_ClientThatLeavesGivesUpItsTurn(t *testing.T) {
	e := newExporting(t)
	e.hold = make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { e.export(t.Context(), httptest.NewRecorder()) })
	for e.reading.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer leave()
	w := httptest.NewRecorder()
	e.export(ctx, w)
	if e.reads.Load() != 1 || w.Code == http.StatusOK || strings.Contains(w.Body.String(), `"action"`) {
		t.Errorf("%d exports read, and the second one has status %d: %s", e.reads.Load(), w.Code, w.Body)
	}
	close(e.hold)
	all.Wait()
}
