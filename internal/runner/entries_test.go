package runner

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

func TestRun_SaysWhichEntriesDifferFromTheAppliedOnes(t *testing.T) {
	j := newJudging(t, config.Rules{})
	j.events()
	j.driver.fails = errors.New("the firewall does not answer")
	j.consul.count = 59
	j.apply()
	j.driver.fails = nil
	j.consul.count = 58
	run := j.apply()
	want := &state.EntryChanges{Removed: 2, Entries: []state.EntryChange{
		{Action: state.EntryRemoved, Name: "web-58", Group: "web", ID: "web-58", Address: "10.0.0.58:80"},
		{Action: state.EntryRemoved, Name: "web-59", Group: "web", ID: "web-59", Address: "10.0.0.59:80"},
	}}
	if diff := cmp.Diff(want, run.Entries); diff != "" {
		t.Error(diff)
	}
	var said []string
	for _, e := range j.events() {
		said = append(said, fmt.Sprint(e.Kind, ": ", e.Detail))
		if e.Kind == outbox.RunSucceeded && !cmp.Equal(want, e.Entries) {
			t.Errorf("the event has %+v", e.Entries)
		}
	}
	if diff := cmp.Diff([]string{"run_failed: web: -web-59 (10.0.0.59:80)", "run_succeeded: web: -web-58 (10.0.0.58:80), -web-59 (10.0.0.59:80)"}, said); diff != "" {
		t.Error(diff)
	}
	if run := j.apply(); run.Entries.Any() {
		t.Errorf("nothing changed, and the run says %s", run.Entries)
	}
}

func TestRun_KeepsNoDetailsOfVeryManyEntries(t *testing.T) {
	j := newJudging(t, config.Rules{})
	for _, count := range []int{state.MaxDetails, state.MaxDetails + 1} {
		j.consul.count = count
		j.apply()
		inputs, err := state.LoadInputs(t.Context(), j.store, "web")
		if err != nil || len(inputs.Elements) != count || (inputs.Details == nil) != (count > state.MaxDetails) {
			t.Errorf("%d entries: %d are kept with %d details: %v", count, len(inputs.Elements), len(inputs.Details), err)
		}
	}
	j.consul.count--
	if got := j.apply().Entries.String(); got != "service instances: -web-20000" {
		t.Error(got)
	}
}
