package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// runsPerHourAtMost is a bound for a task whose runs trigger it: some runs at full speed, and then as many as
// pauses that double fit into an hour.
const runsPerHourAtMost = 30

// The module of the task changes with each apply what the task watches.
func TestLoop_TaskThatTriggersItselfRunsSlowerAndSlowerAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopBench(t, tasks(1)...)
		l.start()
		runs := 0
		for until := time.Now().Add(time.Hour); runs <= runsPerHourAtMost && time.Now().Before(until); pass(100 * time.Millisecond) {
			if len(l.launched()) == 0 {
				continue
			}
			runs++
			rendered := l.catalog.digest
			l.change(fmt.Sprintf("run %d", runs))
			l.bench.now = time.Now()
			l.bench.end(state.RunSucceeded, rendered)
			l.launcher.forget()
			l.ended <- struct{}{}
			synctest.Wait()
		}
		if runs < 10 || runs > runsPerHourAtMost {
			t.Fatalf("it has run %d times in an hour, or in a part of it", runs)
		}
		if reason := l.task("task-0").Reason; reason.Code != state.ReasonBackoff || !strings.Contains(reason.Text, "so they seem to change it themselves") {
			t.Errorf("the reason is %+v", reason)
		}

		l.change("from outside")
		if len(l.launched()) == 0 {
			t.Fatalf("a change from outside waits: %+v", l.task("task-0").Reason)
		}
		l.finish() // this run changes nothing
		for n := range 20 {
			l.change(fmt.Sprintf("from outside %d", n))
			if len(l.launched()) != 1 {
				t.Fatalf("change %d from outside waits: %+v", n, l.task("task-0").Reason)
			}
			l.finish()
		}
	})
}
