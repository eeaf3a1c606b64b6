package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// BenchmarkStatusTasks asks for the status of 1,000 tasks with 50 events each,
// 50 times a second, plain and with events by turns, while a task's record
// changes every tenth of a second. Half a minute of it must be answered within
// 50 ms in 99 of 100 cases, and take no more memory in the end than in the
// middle.
func BenchmarkStatusTasks(b *testing.B) {
	const (
		many, persecond, seconds = 1000, 50, 30
		bound                    = 50 * time.Millisecond
	)
	e := manyTasks(b, many)
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				e.ends(b, fmt.Sprintf("task-%04d", n%many), state.RunSucceeded)
				time.Sleep(100 * time.Millisecond)
			}
		}()
		e.get("/v1/status/tasks?include=events") // the first one reads the events of all tasks
		var mu sync.Mutex
		var took []time.Duration
		var heaps []uint64
		var group sync.WaitGroup
		tick := time.NewTicker(time.Second / persecond)
		for n := range persecond * seconds {
			<-tick.C
			if n%persecond == 0 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heaps = append(heaps, m.Sys-m.HeapReleased)
			}
			group.Go(func() {
				path := "/v1/status/tasks"
				if n%2 == 1 {
					path += "?include=events"
				}
				began := time.Now()
				res, err := http.Get(e.server.URL + path)
				if err != nil {
					b.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK {
					b.Errorf("status %d, %v", res.StatusCode, err)
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			})
		}
		tick.Stop()
		group.Wait()
		stop()
		slices.Sort(took)
		p99 := took[len(took)*99/100]
		middle, end := slices.Max(heaps[seconds/3:seconds*2/3]), slices.Max(heaps[seconds*2/3:])
		b.Logf("median %s, 99%% %s, longest %s; memory %d MB in the middle, %d MB in the end", took[len(took)/2], p99, took[len(took)-1], middle>>20, end>>20)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
		b.ReportMetric(float64(p99.Microseconds())/1000, "ms-p99")
		b.ReportMetric(float64(middle>>20), "MB-middle")
		b.ReportMetric(float64(end>>20), "MB-end")
		if p99 > bound {
			b.Errorf("99 of 100 requests took up to %s, bound %s", p99, bound)
		}
		if end > middle+middle/5 {
			b.Errorf("memory went from %d to %d MB", middle>>20, end>>20)
		}
	}
}

// manyTasks has n tasks with as many runs in their histories as are kept.
func manyTasks(tb testing.TB, n int) *engine {
	tb.Helper()
	var hcl strings.Builder
	for i := range n {
		fmt.Fprintf(&hcl, "task {\n name = \"task-%04d\"\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n}\n", i)
	}
	e := newEngine(tb, hcl.String())
	tasks := map[string]state.Stored[state.Task]{}
	for i := range n {
		name := fmt.Sprintf("task-%04d", i)
		var known state.Task
		var changes []state.Change
		for range state.History {
			known = e.conclude(name, known, state.RunSucceeded, &changes)
		}
		changes = append(changes, state.Stored[state.Task]{Record: state.Record{Key: state.TaskKey(name)}}.Write(known))
		records, err := e.store.Apply(tb.Context(), changes...)
		if err == nil {
			tasks[name], err = state.Decode[state.Task](records[len(records)-1])
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	_, err := e.leader.Read(tb.Context(), e.store)
	if err == nil {
		_, err = e.leader.Rebuild(tb.Context(), e.store.Apply, tasks, nil)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return e.serve()
}

// conclude adds a run that has ended.
func (e *engine) conclude(task string, known state.Task, how state.RunState, changes *[]state.Change) state.Task {
	now := time.Now().UTC()
	run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: task, Kind: state.KindApply, State: how, Created: now, Times: state.Times{Started: now, Ended: now}, Work: state.Work{Digest: "A", Changes: &state.Changes{Add: 1, Resources: []state.Resource{{Address: "local_file.address", Action: "create"}}}},
		Reason: state.Reason{Code: state.ReasonChanged, Text: "service web: 1 instance added"}}
	next, forgotten := known.Conclude(run, "definition")
	*changes = append(*changes, state.Create(state.RunKey(task, run.ID), state.Encode(run)))
	for _, id := range forgotten {
		rec, err := e.store.Get(e.t.Context(), state.RunKey(task, id))
		if err == nil {
			*changes = append(*changes, state.Delete(rec))
		}
	}
	return next
}

// ends has a run of a task end, and the leader fold what is noted.
func (e *engine) ends(tb testing.TB, task string, how state.RunState) {
	rec, err := state.Read[state.Task](tb.Context(), e.store, state.TaskKey(task))
	if err != nil {
		return // the benchmark has ended
	}
	var changes []state.Change
	next := e.conclude(task, rec.Data, how, &changes)
	_, err = e.store.Apply(tb.Context(), append(changes, rec.Write(next))...)
	if err == nil {
		_, err = e.leader.Read(tb.Context(), e.store)
	}
	if err == nil {
		err = e.leader.Fold(tb.Context(), e.store, e.store.Apply, e.store.Apply)
	}
	if err != nil && tb.Context().Err() == nil {
		tb.Error(err)
	}
}
