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

// crowd is pages of many tasks that were applied, each with its latest runs. It counts the tasks
// in the answers of the API to the pages.
type crowd struct {
	*site
	api  http.Handler
	most atomic.Int64 // tasks in one overview
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
