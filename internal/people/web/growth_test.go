package web_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkGrowthPage loads the first page of n tasks after a task has changed, against a file that needs
// no task. In use, one read serves all viewers for two seconds.
func BenchmarkGrowthPage(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		c := newChanging(b, n)
		var size int
		testtools.Growth{Before: c.change, Do: func() { size = c.load("/ui/tasks") }, Bare: func() { c.load("/ui/icon.svg") }}.Measure(b)
		b.ReportMetric(float64(size), "page-B/op")
	})
}

// BenchmarkGrowthPoll counts what an open page reads of the store for each poll while nothing changes: the
// reconcile record twice, who leads, and what has changed about tasks.
func BenchmarkGrowthPoll(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		counted := new(polled)
		handler, _ := apiThrough(b, n, func(store state.Store) state.Store { counted.Store = store; return counted })
		poll := func() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/overview?limit=0", nil))
			if w.Code != http.StatusOK {
				b.Fatalf("status %d: %s", w.Code, w.Body)
			}
		}
		poll()
		for b.Loop() {
			counted.reads, counted.bytes = 0, 0
			poll()
			b.ReportMetric(float64(counted.reads), "reads/op")
			b.ReportMetric(float64(counted.bytes), "read-B/op")
			if counted.reads > 4 || counted.bytes > 4096 {
				b.Errorf("a poll reads %d bytes in %d reads", counted.bytes, counted.reads)
			}
		}
	})
}

// polled is a store that counts what is read from it.
type polled struct {
	state.Store
	reads, bytes int
}

func (p *polled) Get(ctx context.Context, key string) (state.Record, error) {
	rec, err := p.Store.Get(ctx, key)
	p.reads, p.bytes = p.reads+1, p.bytes+len(rec.Value)
	return rec, err
}

func (p *polled) List(ctx context.Context, prefix string) ([]state.Record, error) {
	records, err := p.Store.List(ctx, prefix)
	p.reads++
	for _, rec := range records {
		p.bytes += len(rec.Value)
	}
	return records, err
}

// BenchmarkGrowthBriefParts reads all tasks in brief, in parts, as `status` does, against the answer about health.
func BenchmarkGrowthBriefParts(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		handler, _ := apiOf(b, n)
		client := apiclient.Local(handler)
		testtools.Growth{Do: func() {
			read := 0
			for part, err := range client.Overviews(b.Context(), selection.Selection{Brief: true}) {
				if err != nil {
					b.Fatal(err)
				}
				read += len(part.Tasks)
			}
			if read != n {
				b.Fatalf("%d tasks", read)
			}
		}, Bare: func() {
			if err := client.Health(b.Context()); err != nil {
				b.Fatal(err)
			}
		}}.Measure(b)
	})
}

// changing is pages without a cache of tasks that have run often, one of which changes again and again.
type changing struct {
	b      *testing.B
	store  state.Store
	pages  http.Handler
	leader summary.Summary
	n, i   int
}

func newChanging(b *testing.B, n int, also ...func(i int, t *config.Task)) *changing {
	handler, store := apiThrough(b, n, func(store state.Store) state.Store { return store }, also...)
	return &changing{b: b, n: n, store: store, pages: web.New(b.Context(), web.Options{API: apiclient.Local(handler), Version: "1.2.3", Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Poll: time.Nanosecond})}
}

func (c *changing) load(path string) (size int) {
	w := httptest.NewRecorder()
	c.pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	if w.Code != http.StatusOK {
		c.b.Fatalf("%s: status %d: %s", path, w.Code, w.Body)
	}
	return w.Body.Len()
}

// change has a run of a task end, and the leader fold what is noted.
func (c *changing) change() {
	c.i++
	name := fmt.Sprintf("switch-%05d", c.i*17%c.n)
	record, err := state.Read[state.Task](c.b.Context(), c.store, state.TaskKey(name))
	if err != nil {
		c.b.Fatal(err)
	}
	task, _ := record.Data.Conclude(state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindApply, State: state.RunSucceeded, Work: state.Work{Digest: fmt.Sprint(c.i)},
		Times: state.Times{Started: time.Now(), Ended: time.Now()}}, "definition")
	_, err = c.store.Apply(c.b.Context(), record.Write(statetest.AtRest(task)))
	if err == nil {
		_, err = c.leader.Read(c.b.Context(), c.store)
	}
	if err == nil {
		err = c.leader.Fold(c.b.Context(), c.store, c.store.Apply, c.store.Apply)
	}
	if err != nil {
		c.b.Fatal(err)
	}
}

// BenchmarkGrowthAPI reads the overview of n tasks through the HTTP API, as a page and `status` do,
// against its answer about health.
func BenchmarkGrowthAPI(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		handler, _ := apiOf(b, n)
		server := httptest.NewServer(handler)
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

// apiOf is the HTTP API of n tasks that have run often.
func apiOf(b *testing.B, n int) (http.Handler, state.Store) {
	b.Helper()
	return apiThrough(b, n, func(store state.Store) state.Store { return store })
}

// apiThrough is apiOf that reads the store through another one. The tasks have more, such as labels.
func apiThrough(b *testing.B, n int, through func(state.Store) state.Store, also ...func(i int, t *config.Task)) (http.Handler, state.Store) {
	b.Helper()
	file, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "state.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	store := summary.Keep(file)
	cfg := new(config.Config)
	if _, err := store.Apply(b.Context(), state.Create(state.ReconcileKey, state.Encode(state.Reconcile{LastSuccess: time.Now()}))); err != nil {
		b.Fatal(err)
	}
	var changes []state.Change
	for i := range n {
		name := fmt.Sprintf("switch-%05d", i)
		cfg.Tasks = append(cfg.Tasks, config.Task{Name: name, Enabled: true, Condition: config.Condition{Spec: condition.Services{{Names: []string{name}}}}})
		for _, add := range also {
			add(i, &cfg.Tasks[i])
		}
		changes = append(changes, state.Create(state.TaskKey(name), state.Encode(statetest.Ran(name))))
		if len(changes) == 40 || i == n-1 {
			if _, err := file.Apply(b.Context(), changes...); err != nil {
				b.Fatal(err)
			}
			changes = nil
		}
	}
	leads(b, store)
	people := &control.Control{Store: through(store), Source: new(overlay.Source), Now: time.Now, Wake: func(context.Context) {}, Base: func(context.Context) (*config.Config, error) { return cfg, nil }}
	return api.New(api.Options{Control: people, Began: time.Now(), Log: slog.New(slog.DiscardHandler), Version: "1.2.3"}), store
}
