package hcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// clockwork is HCP Terraform with runs that need a known time. A request takes latency.
type clockwork struct {
	hcp.API
	mu      sync.Mutex
	latency time.Duration
	until   map[string]time.Time // when a run leaves its phase
	status  string               // until then
	next    string               // from then on
	reads   []time.Time
	lists   []time.Time
	refuses error
}

func (c *clockwork) run(id string) hcp.Run {
	r := hcp.Run{ID: id, Status: c.status}
	if !time.Now().Before(c.until[id]) {
		r.Status, r.Confirmable = c.next, c.next == "planned"
	}
	return r
}

func (c *clockwork) Run(_ context.Context, id string) (hcp.Run, error) {
	c.mu.Lock()
	c.reads = append(c.reads, time.Now())
	c.mu.Unlock()
	time.Sleep(c.latency)
	return c.run(id), c.refuses
}

func (c *clockwork) ActiveRuns(context.Context, string, []string) (all []hcp.Run, err error) {
	c.lists = append(c.lists, time.Now())
	time.Sleep(c.latency)
	for id := range c.until {
		if r := c.run(id); r.Status != "applied" {
			all = append(all, r)
		}
	}
	return all, c.refuses
}

// waits are runs that begin to wait now, until they have worked for a time.
func (c *clockwork) waits(n int, works time.Duration, phase state.RemotePhase) (all []state.RemoteWait) {
	c.status, c.next, c.until = "planning", "planned", map[string]time.Time{}
	if phase == state.RemoteApplying {
		c.status, c.next = "applying", "applied"
	}
	for i := range n {
		id := fmt.Sprintf("run-%d", i)
		c.until[id] = time.Now().Add(works)
		all = append(all, state.RemoteWait{Run: id, Workspace: "ws-" + id, Phase: phase, Since: time.Now()})
	}
	return all
}

// TestAwait_AddsLessThanThreeSecondsToBothWaitsOfARun has HCP Terraform plan for a fifth of the time,
// and apply for the rest.
func TestAwait_AddsLessThanThreeSecondsToBothWaitsOfARun(t *testing.T) {
	for _, test := range []struct {
		runs  int
		bound time.Duration // of both waits
	}{{1, 1500 * time.Millisecond}, {5, 2 * time.Second}, {10, 2500 * time.Millisecond}, {25, 5500 * time.Millisecond}, {100, 9 * time.Second}} {
		for _, works := range []time.Duration{5 * time.Second, 30 * time.Second, 3 * time.Minute, 10 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				c := &clockwork{latency: 100 * time.Millisecond}
				d, cfg := driverOf(c)
				var worst, sum time.Duration
				const times = 8
				for n := range times {
					late := time.Duration(0)
					for phase, part := range map[state.RemotePhase]time.Duration{state.RemotePlanning: works / 5, state.RemoteApplying: works - works/5} {
						part += time.Duration(n) * 137 * time.Millisecond
						waits := c.waits(test.runs, part, phase)
						began := time.Now()
						found := d.Await(t.Context(), cfg, waits)
						if len(found) == 0 { // those that were read first may not be among them
							t.Fatal("nothing")
						}
						for id, now := range found {
							if now.Phase == phase {
								t.Errorf("%s has not moved", id)
							}
						}
						late += time.Since(began) - part
					}
					worst, sum = max(worst, late), sum+late
				}
				t.Logf("%d runs that work for %s: %s later in the mean, at most %s", test.runs, works, (sum / times).Round(10*time.Millisecond), worst.Round(10*time.Millisecond))
				if worst > test.bound {
					t.Errorf("%d runs that work for %s: up to %s later, bound %s", test.runs, works, worst, test.bound)
				}
				if most := mostIn(c.reads, 10*time.Second); most > 110 { // the client permits no more than 20 in a second
					t.Errorf("%d reads in 10 seconds", most)
				}
				if most := mostIn(c.lists, time.Minute); most > 15 {
					t.Errorf("%d lists in a minute", most)
				}
			})
		}
	}
}

// mostIn returns the largest number of times within a span.
func mostIn(times []time.Time, span time.Duration) (most int) {
	slices.SortFunc(times, time.Time.Compare)
	first := 0
	for i, at := range times {
		for at.Sub(times[first]) >= span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func TestAwait_LongWaitsArePolledLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clockwork{}
		d, cfg := driverOf(c)
		waits := c.waits(1, 24*time.Hour, state.RemotePlanning)
		if found := d.Await(t.Context(), cfg, waits); len(found) != 1 {
			t.Fatal(found)
		}
		last := c.reads[len(c.reads)-1].Sub(c.reads[len(c.reads)-2])
		if len(c.reads) > 10_000 || last > time.Minute {
			t.Errorf("%d reads in a day, the last after %s", len(c.reads), last)
		}
	})
}

// TestAwait_ReportsTheBeginningAndTheEndOfAnOutage: a tick polls then, and people learn of it.
func TestAwait_ReportsTheBeginningAndTheEndOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clockwork{refuses: &hcp.Error{Status: http.StatusServiceUnavailable}}
		d, cfg := driverOf(c)
		reports := func(within time.Duration) bool {
			ctx, stop := context.WithTimeout(t.Context(), within)
			defer stop()
			found := d.Await(ctx, cfg, c.waits(1, 24*time.Hour, state.RemotePlanning))
			return found != nil && len(found) == 0
		}
		if !reports(10 * time.Second) {
			t.Error("no tick follows the beginning")
		}
		if reports(10 * time.Minute) {
			t.Error("another tick follows while it goes on")
		}
		c.refuses = nil
		if !reports(10 * time.Second) {
			t.Error("no tick follows the end")
		}
		if reports(10 * time.Minute) {
			t.Error("another tick follows when all is well")
		}
	})
}

func TestAwait_PollsLessOftenWhileNothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clockwork{refuses: &hcp.Error{Status: http.StatusTooManyRequests}}
		d, cfg := driverOf(c)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		if found := d.Await(ctx, cfg, c.waits(1, time.Second, state.RemotePlanning)); found != nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%v", found)
		}
		if n := len(c.reads); n > 30 {
			t.Errorf("%d reads in 10 minutes", n)
		}
	})
}
