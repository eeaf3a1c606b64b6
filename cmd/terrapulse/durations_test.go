package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

// A run that waited for an approval has one duration everywhere: in runs, the summary of run, and
// the page and the API, which read the overview.
func TestRuns_TookAsLongAsInTheOverviewAndInTheSummary(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	run := state.Run{ID: "r1", Task: "lb", Kind: state.KindApply, State: state.RunSucceeded, Claimed: state.Claimed{Claim: "c1"}, Created: began, Times: state.Times{Started: began, Ended: began.Add(3 * time.Minute)},
		Waits: state.Waits{Waited: 128 * time.Second, Wait: &state.Wait{For: state.WaitApproval, Since: began.Add(1600 * time.Millisecond)}}}
	task, _ := state.Task{}.Conclude(run, "definition")
	if _, err := store.Apply(t.Context(), state.Create(state.TaskKey("lb"), state.Encode(task)), state.Create(state.RunKey("lb", run.ID), state.Encode(run))); err != nil {
		t.Fatal(err)
	}
	o, err := overview.Reader{Store: store, Now: func() time.Time { return run.Ended }}.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	inOverview, _ := apiview.Worked(*o.Tasks[0].LastRun)
	for what, got := range map[string]string{
		"runs": tookOf(apiview.Run(run)), "the overview": rounded(inOverview).String(),
		"the summary of run": took(*instance.OutcomeOf(apiview.Run(run)).Run), "the summary of start -once": took(run),
	} {
		if got != "52s" {
			t.Errorf("%s: it took %s, want 52s", what, got)
		}
	}
}
