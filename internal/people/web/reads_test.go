package web_test

import (
	"bytes"
	"context"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// reads is a store that counts what is read from it.
type reads struct {
	state.Store
	n atomic.Int64
}

func (r *reads) Get(ctx context.Context, key string) (state.Record, error) {
	r.n.Add(1)
	return r.Store.Get(ctx, key)
}

func (r *reads) List(ctx context.Context, prefix string) ([]state.Record, error) {
	r.n.Add(1)
	return r.Store.List(ctx, prefix)
}

// stream is what an open page gets from its stream. After a change the page is read again.
type stream struct {
	*httptest.ResponseRecorder
	changed func()
}

func (s stream) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("event: changed")) {
		s.changed()
	}
	return len(p), nil
}

// load loads a page, or a part of one, as an open page does.
func load(t *testing.T, pages http.Handler, path string) {
	t.Helper()
	got, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("HX-Request", "true")
	if pages.ServeHTTP(got, r); got.Code != http.StatusOK {
		t.Errorf("%s: %d", path, got.Code)
	}
}

// look has ten people look at a page for a time, and returns how often the store was read.
// With every, each of them also loads the page so often.
func look(t *testing.T, pages http.Handler, store *reads, path string, every, lasts time.Duration) int64 {
	t.Helper()
	load(t, pages, path)
	synctest.Wait()
	before := store.n.Load()
	ctx, leave := context.WithTimeout(t.Context(), lasts)
	defer leave()
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			r := httptest.NewRequest(http.MethodGet, "/ui/news", nil).WithContext(ctx)
			pages.ServeHTTP(stream{httptest.NewRecorder(), func() { load(t, pages, path) }}, r)
		})
		group.Go(func() {
			for every > 0 && ctx.Err() == nil {
				load(t, pages, path)
				time.Sleep(every)
			}
		})
	}
	group.Wait()
	synctest.Wait()
	return store.n.Load() - before
}

// leads has a leader make the summary of all tasks anew.
func leads(t testing.TB, store state.Store) {
	t.Helper()
	records, err := state.ReadAll[state.Task](t.Context(), store, state.TaskPrefix)
	if err != nil {
		t.Fatal(err)
	}
	tasks := map[string]state.Stored[state.Task]{}
	for _, rec := range records {
		tasks[state.TaskName(rec.Key)] = rec
	}
	var s summary.Summary
	_, err = s.Read(t.Context(), store)
	if err == nil {
		_, err = s.Rebuild(t.Context(), store.Apply, tasks, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The time of this test is that of a bubble: it goes on when nothing is left to do.
func TestPages_ReadTheStoreOnceForAllViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statetest.NewMemory()
		defer db.Close()
		store := &reads{Store: summary.Keep(db)}
		leads(t, store)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s := &site{t: t, store: store, pages: pagesOn(ctx, t, store, "task {\n name = \"web\"\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n}\n"+
			"task {\n name = \"dns\"\n module = \"./m\"\n condition \"services\" { names = [\"dns\"] }\n}\n")}
		s.write("dns", s.waits("dns", driver.Plan{}, "Terraform's words"))
		live := s.live()
		live.prints("Creating...\n")
		const lasts, fresh = 20 * time.Second, 2 * time.Second
		times := int64(lasts/fresh) + 2 // at the beginning and at the end
		cold := func(path string) int64 {
			time.Sleep(10 * fresh) // nothing is kept any more
			before := store.n.Load()
			load(t, s.pages, path)
			synctest.Wait()
			return store.n.Load() - before
		}
		cold("/ui/tasks")
		overview := cold("/ui/tasks") // of a process that has read it before
		if live := int64(1); overview > 4+live {
			t.Errorf("an overview reads the store %d times: what has changed about tasks, the reconcile record twice, who leads, and each run under way", overview)
		}
		for _, path := range []string{"/ui/tasks", "/ui/tasks/web", "/ui/tasks/dns", live.page(), live.page() + "/output", "/ui/runs", "/ui/health"} {
			once := cold(path)
			idle := look(t, s.pages, store, path, 0, lasts)
			busy := look(t, s.pages, store, path, time.Second, lasts)
			t.Logf("%s: %d reads to load it once, %d in %s while it is open, %d while it is loaded 10 times a second", path, once, idle, lasts, busy)
			if idle > times*overview+3*once { // that nobody leads changes the page once a minute
				t.Errorf("%s is open: %d reads in %s, more than one overview of %d reads every %s", path, idle, lasts, overview, fresh)
			}
			if busy > times*(overview+once) {
				t.Errorf("%s is loaded again and again: %d reads in %s, more than one of each thing every %s", path, busy, lasts, fresh)
			}
		}
	})
}

func TestPages_ShowNothingFromBeforeAnAction(t *testing.T) {
	var overviews atomic.Int64
	began, held := make(chan struct{}), make(chan struct{})
	api := http.NewServeMux()
	api.HandleFunc("GET /v1/overview", func(w http.ResponseWriter, r *http.Request) {
		if overviews.Add(1) == 1 {
			close(began)
			<-held
			_, _ = io.WriteString(w, `{"tasks": [{"name": "web", "phase": "applied", "reason": {"text": "before"}}]}`)
			return
		}
		if accepts := r.Header.Get("Cache-Control"); accepts != "" {
			t.Errorf("after the action, the page accepts an answer from before: %s", accepts)
		}
		_, _ = io.WriteString(w, `{"tasks": [{"name": "web", "phase": "stopped", "reason": {"text": "after"}}]}`)
	})
	api.HandleFunc("POST /v1/tasks/web/hold", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	s := handled(t, io.Discard, api.ServeHTTP)
	slow := make(chan struct{})
	go func() { defer close(slow); _, _ = s.load("/ui/tasks") }()
	<-began
	if res, body := s.ask(http.MethodPost, "/ui/tasks/web/hold", nil); res.StatusCode != http.StatusSeeOther {
		t.Fatal(res.Status, body)
	}
	now := make(chan string, 1)
	go func() { page, _ := s.load("/ui/tasks"); now <- page }()
	if page := <-now; !strings.Contains(page, "after") { // it does not wait for the read from before
		t.Errorf("after the action: %s", page)
	}
	close(held)
	<-slow
	if page, err := s.load("/ui/tasks"); err != nil || !strings.Contains(page, "after") {
		t.Errorf("later: %v %s", err, page)
	}
}

func TestPages_ThatAreUpToDateAreNotToldOfAChange(t *testing.T) {
	news := regexp.MustCompile(`/ui/news\?[^"]*`)
	for _, path := range []string{"/ui/tasks", "/ui/tasks?q=web&sort=due", "/ui/tasks?after=dns", "/ui/tasks/web", "/ui/runs", "/ui/health"} {
		synctest.Test(t, func(t *testing.T) {
			db := statetest.NewMemory()
			defer db.Close()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s := &site{t: t, store: db, pages: pagesOn(ctx, t, db, tasksOnWeb("web", "dns", "vpn"))}
			s.write("dns", s.ran("dns", state.RunFailed, "no route"))
			got := httptest.NewRecorder()
			s.pages.ServeHTTP(got, httptest.NewRequest(http.MethodGet, path, nil))
			open, leave := context.WithTimeout(t.Context(), 30*time.Second)
			defer leave()
			r := httptest.NewRequest(http.MethodGet, html.UnescapeString(news.FindString(got.Body.String())), nil).WithContext(open)
			told := 0
			s.pages.ServeHTTP(stream{httptest.NewRecorder(), func() { told++ }}, r)
			if told > 0 {
				t.Errorf("%s: nothing has changed, and the page is told %d times", path, told)
			}
			synctest.Wait()
		})
	}
}
