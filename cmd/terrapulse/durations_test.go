package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

// A run that waited for an approval has one duration everywhere: in runs, the summary of run,
// the page and the API, which read the overview, and in its event.
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
	o, err := overview.Reader{Store: store, Now: func() time.Time { return run.Ended }}.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inOverview, _ := apiview.Worked(*o.Tasks[0].LastRun)
	event := outbox.OfRun(run)
	var logged bytes.Buffer
	if err := (outbox.Log{To: slog.New(slog.NewTextHandler(&logged, nil))}).Deliver(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	inLog, _ := time.ParseDuration(regexp.MustCompile(`duration=(\S+)`).FindStringSubmatch(logged.String())[1])
	inMessage, _ := strings.CutPrefix(notify.Lines(event)[len(notify.Lines(event))-1], "Duration: ")
	for what, got := range map[string]string{
		"its event": rounded(event.Worked()).String(), "the log": rounded(inLog).String(), "a message": inMessage,
		"runs": tookOf(apiview.Run(run)), "the overview": rounded(inOverview).String(),
		"the summary of run": took(*instance.OutcomeOf(apiview.Run(run)).Run), "the summary of start -once": took(run),
	} {
		if got != "52s" {
			t.Errorf("%s: it took %s, want 52s", what, got)
		}
	}
}
