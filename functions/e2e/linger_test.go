//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// free waits until a container lingers.
func (c *cloud) free() state.Runner {
	c.t.Helper()
	var runner state.Runner
	c.until("a container lingers", func() bool {
		all, err := state.ReadAll[state.Runner](c.t.Context(), c.store, state.RunnerPrefix)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range all {
			if r.Data.Free() {
				runner = r.Data
				return true
			}
		}
		return false
	})
	return runner
}

func TestLinger_OneContainerAppliesManyChanges(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{parameters: rehearsal.Parameters{"Linger": "600s"}})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	c.mustPush()
	want := "web-1:8080"
	for n := 2; n <= 3; n++ {
		c.until("applied", func() bool { return c.out("lb") == want && len(c.runs("lb")) == n-1 })
		c.free() // and invokes the function, as the stop of a container does
		c.register(fmt.Sprintf("web-%d", n), 8080+n)
		want += fmt.Sprintf(" web-%d:%d", n, 8080+n)
		c.tickUntil("the change is applied", func() bool { return c.out("lb") == want && len(c.runs("lb")) == n })
	}
	runner := c.free()
	for _, run := range c.runs("lb") {
		if run.State != state.RunSucceeded || run.Runner != runner.ID {
			t.Errorf("%+v", run)
		}
	}
	if n := c.containers(); n != 1 {
		t.Errorf("%d containers were started", n)
	}
	// The end of the runs, not of the container, starts ticks.
	c.until("the container has invoked the function", func() bool { return c.lambda.asked() >= 3 })

	// ECS stops the container: it ends at once, and the next change gets another one.
	c.ecs.Interrupt(c.ecs.Tasks("")[0])
	c.until("settled", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.settled == 1 })
	if rec, err := state.Read[state.Runner](t.Context(), c.store, state.RunnerKey(runner.ID)); err != nil || rec.Exists() {
		t.Errorf("the container has ended, and its record reads %+v (%v)", rec.Data, err)
	}
	c.register("web-4", 8084)
	c.tickUntil("applied", func() bool { return c.out("lb") == want+" web-4:8084" && len(c.runs("lb")) == 4 })
	if n := c.containers(); n != 2 || strings.Contains(c.output.String(), `"level":"ERROR"`) {
		t.Errorf("%d containers were started", n)
	}
	c.free()
	c.ecs.Interrupt(c.ecs.Tasks("")[1])
}

// BenchmarkLinger measures the time from a change in Consul to the start of its run, where a container
// takes 30 seconds to start: the first change, and ten more.
func BenchmarkLinger(b *testing.B) {
	const start, changes = 30 * time.Second, 11
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nLINGER\tFIRST CHANGE\tTEN MORE: TO THE RUN\tLONGEST\tTO THE APPLY\tCONTAINERS\t")
	for _, linger := range []string{"300s", "0s"} {
		c := deploy(b, options{parameters: rehearsal.Parameters{"Linger": linger, "PollSeconds": "1"}})
		c.delay = start
		c.module("")
		c.tasks(consulBackend, "lb")
		c.mustPush()
		stop := make(chan struct{})
		go func() { // the schedule
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = c.invoke(`{"mode":"reconcile","window":true}`)
				}
			}
		}()
		var first, toRun, longest, toApply time.Duration
		for n := range changes {
			changed := time.Now()
			c.register(fmt.Sprintf("web-%02d", n), 8080)
			port := fmt.Sprintf("web-%02d:8080", n)
			c.until("applied", func() bool {
				runs := c.runs("lb")
				return strings.Contains(c.out("lb"), port) && len(runs) > 0 && runs[len(runs)-1].Started.After(changed)
			})
			runs := c.runs("lb")
			last := runs[len(runs)-1]
			took := last.Started.Sub(changed)
			if n == 0 {
				first = took
			} else {
				toRun, toApply, longest = toRun+took/(changes-1), toApply+last.Ended.Sub(changed)/(changes-1), max(longest, took)
			}
			time.Sleep(5 * time.Second) // a change comes after the last was applied
		}
		close(stop)
		fmt.Fprintf(w, "%s\t%.1f s\t%.1f s\t%.1f s\t%.1f s\t%d\t\n", linger, first.Seconds(), toRun.Seconds(), longest.Seconds(), toApply.Seconds(), c.containers())
		w.Flush()
	}
}
