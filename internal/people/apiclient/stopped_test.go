package apiclient

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

func TestStopped_OnlyAPersonOrAWindowLetsTheTaskRun(t *testing.T) {
	task := func(phase apispec.Phase, code state.ReasonCode, wait apispec.WaitFor) apispec.TaskOverview {
		shown := apispec.TaskOverview{Phase: phase, NeedsPerson: lifecycle.RowOf(code).Person, Reason: apispec.Reason{Code: code}}
		if wait != "" {
			shown.Run = &apispec.Run{Wait: &apispec.Wait{For: wait}}
		}
		return shown
	}
	for name, tt := range map[string]struct {
		task apispec.TaskOverview
		want bool
	}{
		"paused":                     {task(apispec.PhaseStopped, state.ReasonPaused, ""), true},
		"a replaced Consul":          {task(apispec.PhaseWaiting, state.ReasonReplaced, ""), true},
		"waits for an approval":      {task(apispec.PhaseWaiting, state.ReasonWaiting, apispec.WaitForApproval), true},
		"outside its window":         {task(apispec.PhaseSoon, state.ReasonOutside, ""), true},
		"its run waits for a window": {task(apispec.PhaseSoon, state.ReasonWaiting, apispec.WaitForWindow), true},
		"a remote run":               {task(apispec.PhaseRunning, state.ReasonWaiting, apispec.WaitForRemote), false},
		"blocked for now":            {task(apispec.PhaseFailing, state.ReasonBlocked, ""), false},
		"failing, and on hold":       {apispec.TaskOverview{Phase: apispec.PhaseFailing, NeedsPerson: true, Reason: apispec.Reason{Code: state.ReasonOnHold}}, true},
		"buffering":                  {task(apispec.PhaseSoon, state.ReasonBuffering, ""), false},
	} {
		if got := stopped(tt.task); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
