package reconcile

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// refuseWeb is the Blocked of a process that cannot run the task "web".
func refuseWeb() map[string]error { return map[string]error{"web": errors.New("no module")} }

func TestLoop_TakingTheLeadRunsNoTaskThatARuleRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := *webTask()
		other.Name = "other"
		b := newLoopBench(t, *webTask(), other)
		b.Loop.Blocked = refuseWeb
		b.start()
		if got := b.launched(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("launched %v, want the other task only", got)
		}
		if got := b.task("web"); got.Reason.Code != state.ReasonBlocked || got.Forced.By != "" {
			t.Errorf("the refused task reads %+v", got)
		}
		pass(time.Minute)
		if got := b.launched(); slices.Contains(got, "web") {
			t.Errorf("launched %v later", got)
		}
	})
}

func TestOnce_RunsNoTaskThatARuleRefuses(t *testing.T) {
	b := newBench(t, *webTask())
	b.Blocked = refuseWeb
	outcomes, err := b.Once(t.Context(), func() {})
	if err != nil || len(outcomes) != 1 || outcomes[0].Run != nil || outcomes[0].Reason.Code != state.ReasonBlocked || !outcomes[0].Failed() {
		t.Errorf("got %+v (%v), want a task that was not run and why", outcomes, err)
	}
	if got := b.launcher.launches(); len(got) != 0 {
		t.Errorf("launched %v", got)
	}
}
