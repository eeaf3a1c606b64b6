package reconcile_test

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Another process still runs a task that is not in the configuration any more: that is no
// outcome of this process, and no failure.
func TestOnce_SaysNothingOfTheRunOfARemovedTask(t *testing.T) {
	m := newMachine(t)
	left := m.leave(tasks("web", "gone"))
	gone := left.Runs[1]
	run, err := state.Read[state.Run](t.Context(), m.store, state.RunKey("gone", gone.ID))
	if err != nil {
		t.Fatal(err)
	}
	next := run.Data
	next.State, next.Owner, next.Claim, next.ClaimFor, next.Started = state.RunRunning, "another", "c1", time.Hour, time.Now()
	next.Expires = time.Now().Add(time.Hour)
	if _, err := m.store.Apply(t.Context(), run.Write(next)); err != nil {
		t.Fatal(err)
	}
	expect(t, "outcomes", said(m.once(tasks("web"))), "web: succeeded")
}
