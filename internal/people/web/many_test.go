package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// crowd is pages of many tasks that were applied, each with its latest runs. It counts what
// the API answers to the pages.
type crowd struct {
	*site
	api   http.Handler
	bytes atomic.Int64
	most  atomic.Int64 // tasks in one overview
}

func newCrowd(t testing.TB, n int) *crowd {
	t.Helper()
	memory := statetest.NewMemory()
	t.Cleanup(func() { memory.Close() })
	store := summary.Keep(memory)
	leads(t, store)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("task-%05d", i)
	}
	c := &crowd{api: apiOn(t, store, tasksOnWeb(names...))}
	c.site = handled(t, io.Discard, c.answer)
	c.site.store = store
	began := time.Now()
	for i, name := range names {
		task, ended := c.ran(name, state.RunSucceeded, "service web: +web-1"), began.Add(time.Duration(i)*time.Millisecond)
		for range state.RecentRuns {
			task, _ = task.Conclude(state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindApply, State: state.RunSucceeded, Work: state.Work{Digest: "A"},
				Times: state.Times{Started: ended.Add(-time.Second), Ended: ended}}, "definition")
		}
		c.write(name, statetest.AtRest(task))
	}
	leads(t, store)
	return c
}

// answer answers the pages, and counts.
func (c *crowd) answer(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	c.api.ServeHTTP(answer, r)
	c.bytes.Add(int64(answer.Body.Len()))
	var o apispec.Overview
	if json.Unmarshal(answer.Body.Bytes(), &o) == nil {
		c.most.Store(max(c.most.Load(), int64(len(o.Tasks))))
	}
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func TestPages_ReadOnePageOfTheTasks(t *testing.T) {
	c := newCrowd(t, 400)
	for path, want := range map[string]string{"/ui/tasks": "task-00049", "/ui/tasks?after=task-00049": "task-00099", "/ui/tasks?q=task-0039&sort=-name": "task-00399",
		"/ui/tasks?phase=applied&sort=last": "51", "/ui/map": "370 more tasks are not drawn", "/ui/tasks/task-00200": "task-00200", "/ui/health": "Health"} {
		if page, err := c.load(path); err != nil || !strings.Contains(page, want) {
			t.Errorf("%s: %v, without %s", path, err, want)
		}
	}
	if most := c.most.Load(); most != 50 {
		t.Errorf("the pages read %d tasks at a time, and show 50", most)
	}
}

// BenchmarkPages_TenThousandTasks shows for 10,000 tasks what the pages read and send, and
// what parts of the overview take.
func BenchmarkPages_TenThousandTasks(b *testing.B) {
	c := newCrowd(b, 10_000)
	for _, path := range []string{"/ui/tasks", "/ui/tasks?phase=applied&q=task-09&sort=last", "/ui/tasks/task-05000", "/ui/map", "/ui/map?service=web&search=task-09"} {
		b.Run("page of "+path, func(b *testing.B) {
			var sent, read int
			for b.Loop() {
				b.StopTimer()
				c.write("task-00001", statetest.AtRest(c.ran("task-00001", state.RunSucceeded, fmt.Sprintf("service web: +web-%d", sent)))) // no answer is the same
				time.Sleep(11 * time.Second)                                                                                                // nothing is kept any more
				before := c.bytes.Load()
				b.StartTimer()
				text, err := c.load(path)
				if err != nil {
					b.Fatal(err)
				}
				sent, read = len(text), int(c.bytes.Load()-before)
			}
			b.ReportMetric(float64(sent)/1000, "kB-sent")
			b.ReportMetric(float64(read)/1000, "kB-read")
		})
	}
	for _, path := range []string{"/v1/overview", "/v1/overview?limit=0", "/v1/overview?limit=50&attention=200", "/v1/overview?limit=1000&after=task-04999", "/v1/tasks?limit=50", "/v1/status/tasks?limit=50", "/v1/map", "/v1/map?service=web&search=task-09"} {
		b.Run("answer to "+path, func(b *testing.B) {
			size := 0
			for b.Loop() {
				answer := httptest.NewRecorder()
				c.api.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				size = answer.Body.Len()
			}
			b.ReportMetric(float64(size)/1000, "kB-sent")
		})
	}
}
