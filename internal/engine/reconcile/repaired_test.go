package reconcile

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// fail ends the runs under way as failed, and tells the loop.
func (l *loopBench) fail() {
	l.bench.t.Helper()
	l.bench.now = time.Now()
	l.bench.end(state.RunFailed, "")
	l.launcher.forget()
	l.ended <- struct{}{}
	synctest.Wait()
}

func TestLoop_TaskWhoseModuleIsRepairedNeedNotWaitForItsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := tasks(3)
		all[0].Module, all[1].Module, all[2].Module = "./fw", "./dns", "terraform-aws-modules/vpc/aws"
		l := newLoopBench(t, all...)
		var at atomic.Pointer[time.Time]
		at.Store(new(time.Now()))
		l.Reconciler.ModuleChanged = func(folder string) time.Time {
			if folder == "./fw" {
				return *at.Load()
			}
			return time.Time{}
		}
		l.start()
		for range 8 {
			l.fail()
			pass(state.MaxBackoff)
		}
		l.fail()
		pass(time.Minute)
		if got := l.launcher.launches(); len(got) > 0 || l.task("task-0").Reason.Code != state.ReasonBackoff {
			t.Fatalf("before the module is repaired: %+v, launched %+v", l.task("task-0").Reason, got)
		}

		at.Store(new(time.Now()))
		pass(2 * repairEvery)
		got := l.launcher.launches()
		if len(got) != 1 || len(got[0].Runs) != 1 || got[0].Runs[0].Task != "task-0" {
			t.Fatalf("the module of task-0 is repaired: launched %+v", got)
		}
		if reason := l.run(got[0].Runs[0]).Data.Reason; reason.Code != state.ReasonRetry || !strings.HasSuffix(reason.Text, "its local module was changed") {
			t.Errorf("its run is for %+v", reason)
		}

		l.fail() // it still fails: it waits as before
		pass(time.Minute)
		if got := l.launcher.launches(); len(got) > 0 {
			t.Errorf("without another change it does not wait: %+v", got)
		}
	})
}
