package web_test

import (
	"bufio"
	"context"
	"errors"
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

// BenchmarkTasks asks for the page of 1,000 tasks with their latest runs 20 times a
// second, while a task changes each second and 20 open pages show that at once. 99 of 100
// answers must come within 50 ms.
func BenchmarkTasks(b *testing.B) {
	const (
		tasks, streams, perSecond, seconds = 1000, 20, 20, 20
		bound                              = 50 * time.Millisecond
	)
	var names []string
	for i := range tasks {
		names = append(names, fmt.Sprintf("task-%04d", i))
	}
	s := newSite(b, names...)
	for _, name := range names {
		task := s.ran(name, state.RunSucceeded, "service web: +web-1")
		for range state.RecentRuns {
			task, _ = task.Conclude(state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindApply, State: state.RunSucceeded, Work: state.Work{Digest: "A"},
				Times: state.Times{Started: time.Now().Add(-time.Second), Ended: time.Now()}}, "definition")
		}
		s.write(name, task)
	}
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		var group sync.WaitGroup
		for range streams {
			group.Go(func() { s.listen(ctx) })
		}
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s.write(names[n%tasks], s.ran(names[n%tasks], state.RunSucceeded, fmt.Sprintf("service web: +web-%d", n)))
				time.Sleep(time.Second)
			}
		})
		var mu sync.Mutex
		var took []time.Duration
		var asks sync.WaitGroup
		tick := time.NewTicker(time.Second / perSecond)
		for n := range perSecond * seconds {
			<-tick.C
			asks.Go(func() {
				began := time.Now()
				if text, err := s.load("/ui/tasks?after=" + names[n%20*50]); err != nil || !strings.Contains(text, "task-") {
					b.Errorf("%v: %s", err, text)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
			})
		}
		tick.Stop()
		asks.Wait()
		stop()
		group.Wait()
		slices.Sort(took)
		p99 := took[len(took)*99/100]
		b.Logf("median %s, 99%% %s, longest %s", took[len(took)/2], p99, took[len(took)-1])
		b.ReportMetric(float64(p99.Milliseconds()), "p99-ms")
		if p99 > bound {
			b.Errorf("p99 is %s, more than %s", p99, bound)
		}
	}
}

// listen keeps a page open, which is brought up to date after each change.
func (s *site) listen(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/ui/news?topic=", nil)
	if err != nil {
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if lines.Text() == "event: changed" {
			_, _ = s.load("/ui/tasks") // those that are measured report errors
		}
	}
}

// load returns the text of a page.
func (s *site) load(path string) (string, error) {
	res, err := s.get(path)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return string(raw), err
}

// BenchmarkWhatIf reads the summary of a what-if about 1,000 tasks, of which each would lose
// resources: the answer of the API, and its page.
func BenchmarkWhatIf(b *testing.B) {
	const (
		tasks, resources = 1000, 50
		answer, page     = 5 << 20, 256 << 10 // bytes: a function in AWS answers with 6 MB at most
		longest          = time.Second        // a twentieth of it is usual
	)
	var names []string
	for i := range tasks {
		names = append(names, fmt.Sprintf("task-%04d", i))
	}
	s := newSite(b, names...)
	q := state.Question{ID: "q1", Supposed: "without datacenter dc2", By: "Ann", Created: time.Now(), Tasks: tasks}
	for n, name := range names {
		run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindPlan, State: state.RunSucceeded, Times: state.Times{Started: time.Now(), Ended: time.Now()}}
		changes := &state.Changes{Add: n % 3}
		for i := range resources {
			changes.Destroy++
			changes.Name(fmt.Sprintf("module.%s.panos_address_object.instance[\"web-%d.node-%d.dc2\"]", name, i, i), "delete")
		}
		text := "12 of 20 service instances are gone: web-1 (10.0.0.1:8080), web-2 (10.0.0.2:8080), web-3 (10.0.0.3:8080), and 9 more, and max_decrease is 50 %"
		run.Changes, run.WhatIf = changes, &state.WhatIf{ID: q.ID, Supposed: q.Supposed, Verdict: &state.Verdict{Outcome: state.WouldHold, Text: "would be held: " + text,
			Causes: []state.Cause{{Rule: state.RuleInputGuard, Text: text}}}}
		q.Runs = append(q.Runs, state.Answering{Task: name, Run: run.ID})
		q.Order = append(q.Order, state.Place{Tasks: []string{name}, After: []string{"site-*", "task-000*"}})
		s.put(state.RunKey(name, run.ID), run)
	}
	s.put(state.QuestionKey(q.ID), q)
	b.Logf("the record of the question has %d KB", len(state.Encode(q))>>10)
	for b.Loop() {
		for path, bound := range map[string]int{"/ui/what-if/q1.json": answer, "/ui/what-if/q1": page} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			text, err := s.load(path)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			b.Logf("%s: %s, %d KB, %d MB allocated", path, took, len(text)>>10, (after.TotalAlloc-before.TotalAlloc)>>20)
			switch {
			case err != nil:
				b.Error(err)
			case len(text) > bound:
				b.Errorf("%s has %d bytes, more than %d", path, len(text), bound)
			case took > longest:
				b.Errorf("%s took %s, more than %s", path, took, longest)
			}
		}
	}
}
