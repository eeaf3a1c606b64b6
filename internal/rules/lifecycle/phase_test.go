package lifecycle_test

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

func TestAwaitsPeople_IsForWindowsAndPeopleAlsoThoseOfATaskThatComesBefore(t *testing.T) {
	for code, want := range map[state.ReasonCode]bool{state.ReasonPaused: true, state.ReasonOutside: true, state.ReasonReplaced: true, state.ReasonAfter: false, state.ReasonQueued: false, state.ReasonChanged: false} {
		task := state.Task{Reason: state.Reason{Code: code}}
		if got := lifecycle.AwaitsPeople(task); got != want {
			t.Errorf("%s: %v", code, got)
		}
		for _, stuck := range []bool{true, false} {
			task.After = &state.After{Task: "firewall", Stuck: stuck}
			if got := lifecycle.AwaitsPeople(task); got != (want || code == state.ReasonAfter && stuck) {
				t.Errorf("%s, behind a task that is stuck: %v: %v", code, stuck, got)
			}
		}
	}
}

func TestSummary_FailsIfAPhaseIsBad(t *testing.T) {
	if got, err := lifecycle.Summary(map[lifecycle.Phase][]string{lifecycle.Waiting: {"dns"}, lifecycle.Applied: {"web", "lb"}}); err != nil || got != "2 applied, 1 waiting" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := lifecycle.Summary(map[lifecycle.Phase][]string{lifecycle.Applied: {"web"}, lifecycle.Failing: {"dns", "lb"}, lifecycle.Unreadable: {"fw"}})
	if want := "1 applied, 2 failing, 1 unreadable (failing: dns, lb; unreadable: fw)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
