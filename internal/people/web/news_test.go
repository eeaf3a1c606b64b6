package web

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestNews_AreReadOnceForAllPagesAndLessOftenWhileNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads, state atomic.Int64
		n := &news{ctx: t.Context(), every: 5 * time.Second, rest: 15 * time.Second,
			read: func(context.Context) (digests, error) {
				reads.Add(1)
				return digests{"": fmt.Sprint(state.Load())}, nil
			}}
		passes := func(what string, d time.Duration, want int) {
			t.Helper()
			synctest.Wait()
			reads.Store(0)
			time.Sleep(d)
			synctest.Wait()
			if got := int(reads.Load()); got != want {
				t.Errorf("%s: %d reads in %s, want %d", what, got, d, want)
			}
		}
		var ends []func()
		for range 20 {
			_, end, _ := n.follow("192.0.2.1", "", "0")
			ends = append(ends, end)
		}
		passes("20 pages are open", 5*time.Minute-time.Second, 59)
		time.Sleep(16 * time.Second)
		passes("nothing changes", time.Hour, 240)
		state.Add(1)
		time.Sleep(16 * time.Second)
		passes("after a change", time.Minute, 12)
		for _, end := range ends {
			end()
		}
		passes("no page is open", time.Hour, 0)
	})
}

func TestNews_TellThePagesWhoseTaskHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		shown := map[string]string{"web": "1", "dns": "1"}
		var asked []string
		n := &news{ctx: ctx, every: 2 * time.Second, rest: 2 * time.Second}
		n.read = func(context.Context) (digests, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked = n.tasks(); shown == nil {
				return nil, errors.New("the store is away")
			}
			all := digests{"": fmt.Sprint(shown)}
			for _, name := range asked {
				all[name] = shown[name] // "" if it is gone
			}
			return all, nil
		}
		change := func(to map[string]string) {
			mu.Lock()
			defer mu.Unlock()
			shown = to
		}
		reads := func() string {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(asked)
		}
		told := func(s *stream) bool {
			time.Sleep(3 * time.Second)
			synctest.Wait()
			select {
			case <-s.changed:
				return true
			default:
				return false
			}
		}
		web, _, _ := n.follow("192.0.2.1", "web", "1")
		if told(web) {
			t.Error("a page that is up to date hears of a change")
		}
		dns, leave, _ := n.follow("192.0.2.1", "dns", "1") // the last read did not ask for it
		if told(dns) || reads() != "[dns web]" {
			t.Errorf("a page that has just been opened hears of a change; %s are read", reads())
		}
		change(map[string]string{"web": "1", "dns": "2"})
		if !told(dns) || told(web) {
			t.Error("not just the page of the task that has changed is told")
		}
		change(map[string]string{"web": "1"})
		if !told(dns) {
			t.Error("the page of a task that is gone is not told")
		}
		if leave(); told(web) || reads() != "[web]" {
			t.Errorf("%s are read, and only the page of web is open", reads())
		}
		if change(nil); !told(web) {
			t.Error("a page is not told that nothing can be read")
		}
	})
}
