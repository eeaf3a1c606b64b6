package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/state"
)

// BenchmarkTasks asks for the page of 1,000 tasks 20 times a second, while 20 pages are
// open and tasks change. 99 of 100 answers must come within 50 ms.
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
		s.write(name, s.ran(name, state.RunSucceeded, "service web: +web-1"))
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
				res, err := s.get(fmt.Sprintf("/ui/tasks?page=%d", n%20+1))
				if err != nil {
					b.Error(err)
					return
				}
				defer res.Body.Close()
				if raw, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(raw), "task-") {
					b.Errorf("%s: %v", res.Status, err)
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
		b.ReportMetric(float64(p99.Milliseconds()), "p99-ms")
		if p99 > bound {
			b.Errorf("p99 is %s, more than %s", p99, bound)
		}
	}
}

// listen keeps a page open.
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
	}
}
