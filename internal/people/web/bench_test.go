package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/ui/events?topic=", nil)
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
