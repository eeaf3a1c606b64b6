package web

import (
	"context"
	"fmt"
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
