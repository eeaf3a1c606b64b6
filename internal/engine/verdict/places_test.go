package verdict_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/verdict"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// tasks are tasks that read a service, by what they come after.
func tasks(after map[string][]string, names ...string) *config.Config {
	cfg := &config.Config{}
	for _, name := range names {
		cfg.Tasks = append(cfg.Tasks, config.Task{Name: name, Enabled: true, After: after[name],
			Condition: config.Condition{Spec: condition.Services{{Names: []string{"web"}}}}})
	}
	return cfg
}

// lb comes after firewall, which the what-if does not concern.
func TestPlaces_SayWhetherAPredecessorIsAtRestNow(t *testing.T) {
	at := noon.Add(-time.Hour)
	for name, tt := range map[string]struct {
		change func(*state.Task, *config.Task)
		want   string
	}{
		"applied": {func(*state.Task, *config.Task) {}, ""},
		"on hold": {func(s *state.Task, _ *config.Task) { s.OnHold = &state.OnHold{By: "ann", At: at} }, "on hold by ann"},
		"failed": {func(s *state.Task, _ *config.Task) {
			s.Failing.Count, s.Observed.Digest, s.Failing.RetryAt = 2, "B", noon.Add(time.Second)
			s.Attempted = state.Attempt{Definition: s.Applied.Definition, Observed: "B"}
		}, "retry number 2 at"},
		"failed, and its retry runs": {func(s *state.Task, _ *config.Task) {
			s.Failing.Count, s.Observed.Digest, s.Run = 2, "B", &state.LiveRun{ID: "r"}
			s.Attempted = state.Attempt{Definition: s.Applied.Definition, Observed: "B"}
		}, "its latest run has failed"},
		"not verified": {func(s *state.Task, _ *config.Task) {
			s.Applied.Unverified = &state.Unverified{State: state.VerifyFailed, Text: "vip failed"}
		}, "not verified: vip failed"},
		"waiting for an approval": {func(s *state.Task, _ *config.Task) {
			s.Observed.Digest, s.Run = "B", &state.LiveRun{ID: "r", Input: "B", Wait: &state.Wait{For: state.WaitApproval}}
			s.Attempted = state.Attempt{Definition: s.Applied.Definition, Observed: "B"}
		}, "run r waits for approval"},
		"outside its window": {func(s *state.Task, t *config.Task) { s.Observed.Digest, t.Windows = "B", closed(false) }, "outside"},
		"rejected": {func(s *state.Task, _ *config.Task) {
			s.Observed.Digest, s.Ended.Last = "B", &state.Result{State: state.RunCancelled}
			s.StopFor(state.Stop{Code: state.ReasonRejected, Why: "rejected by ann", For: state.Attempt{Definition: s.Applied.Definition, Observed: "B"}})
		}, "rejected by ann"},
		"held by a replaced Consul": {func(s *state.Task, _ *config.Task) {
			s.Observed.Digest, s.Reason = "B", state.Reason{Code: state.ReasonReplaced, Text: "2 of 3 are gone"}
		}, "2 of 3 are gone"},
		"blocked": {func(s *state.Task, _ *config.Task) {
			s.Reason = state.Reason{Code: state.ReasonBlocked, Text: "no module"}
		}, "no module"},
		"blocked and disabled": {func(s *state.Task, t *config.Task) {
			s.Reason, t.Enabled = state.Reason{Code: state.ReasonBlocked, Text: "no module"}, false
		}, ""},
		"disabled, and failed": {func(s *state.Task, t *config.Task) { s.Failing.Count, t.Enabled = 2, false }, ""},
		"changed":              {func(s *state.Task, _ *config.Task) { s.Observed.Digest = "B" }, ""},
		"never applied":        {func(s *state.Task, _ *config.Task) { *s = state.Task{} }, ""},
		"running":              {func(s *state.Task, _ *config.Task) { s.Observed.Digest, s.Run = "B", &state.LiveRun{ID: "r"} }, ""},
		"after one that waits": {func(s *state.Task, t *config.Task) {
			t.After, s.Reason = []string{"lb"}, state.Reason{Code: state.ReasonAfter, Text: "waits for lb"}
		}, ""},
	} {
		cfg := tasks(map[string][]string{"lb": {"firewall"}}, "firewall", "lb")
		definition := cfg.Tasks[0].Digest(cfg)
		s := state.Task{Applied: state.Applied{Definition: definition, Digest: "A", At: at}, Observed: state.Observed{Digest: "A", At: at}}
		tt.change(&s, &cfg.Tasks[0])
		if s.Applied.Definition != "" && s.Applied.Definition == definition {
			s.Applied.Definition = cfg.Tasks[0].Digest(cfg)
			s.Attempted.Definition = s.Applied.Definition
		}
		places := placesOf(t, cfg, []*config.Task{&cfg.Tasks[1]}, verdict.Records{Tasks: map[string]state.Task{"firewall": s}})
		got := ""
		for _, p := range places {
			if p.Tasks[0] == "firewall" {
				got = p.Keeps
			}
		}
		if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: lb waits because %q, want %q", name, got, tt.want)
		}
	}
}

// placesOf are the places of tasks with these records.
func placesOf(t *testing.T, cfg *config.Config, of []*config.Task, known verdict.Records) []state.Place {
	t.Helper()
	places, err := verdict.Places(cfg, of, func([]string) (verdict.Records, error) { return known, nil }, noon)
	if err != nil {
		t.Fatal(err)
	}
	return places
}

func TestPlaces_AreOfAllTasksThatComeBefore(t *testing.T) {
	cfg := tasks(map[string][]string{"lb": {"edge-*", "old", "nobody"}, "edge-1": {"vpn"}, "edge-2": {"vpn"}, "other": {"vpn"}, "vpn": {"core"}},
		"lb", "edge-1", "edge-2", "vpn", "core", "new", "other")
	cfg.Tasks[5].MovedFrom = []string{"old"}
	of := []*config.Task{&cfg.Tasks[0], &cfg.Tasks[5]}
	var read []string
	got, err := verdict.Places(cfg, of, func(names []string) (verdict.Records, error) {
		read = slices.Sorted(slices.Values(names))
		return verdict.Records{Corrupt: map[string]error{"core": errors.New("its record is broken")}}, nil
	}, noon)
	if err != nil || strings.Join(read, " ") != "core edge-1 edge-2 lb new old vpn" {
		t.Errorf("read the records of %q, %v", read, err)
	}
	unordered, err := verdict.Places(cfg, of[1:], func(names []string) (verdict.Records, error) { return verdict.Records{}, errors.New("read") }, noon)
	if unordered != nil || err != nil {
		t.Errorf("no task comes before another one: %v, %v", unordered, err)
	}
	want := []state.Place{{Tasks: []string{"core"}, Keeps: "its record is broken"}, {Tasks: []string{"edge-1", "edge-2"}, After: []string{"vpn"}},
		{Tasks: []string{"lb"}, After: []string{"edge-*", "old", "nobody"}}, {Tasks: []string{"nobody"}, Keeps: "there is no such task"},
		{Tasks: []string{"old"}, After: []string{"new"}}, {Tasks: []string{"vpn"}, After: []string{"core"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// A question is one record: it has to fit into one write to each store, with its runs.
func TestPlaces_Of1000TasksFitIntoTheRecord(t *testing.T) {
	after, held := map[string][]string{}, map[string]state.Task{}
	var names []string
	for i := range 1000 {
		name := fmt.Sprintf("site-%04d-firewall", i)
		if names = append(names, name); i > 0 {
			after[name] = []string{names[i-1]}
		}
		held[name] = state.Task{Stops: state.Stops{OnHold: &state.OnHold{By: name, Comment: strings.Repeat("x", 500)}}}
	}
	cfg := tasks(after, names...)
	q := state.Question{Order: placesOf(t, cfg, []*config.Task{&cfg.Tasks[999]}, verdict.Records{Tasks: held})}
	for _, name := range names {
		q.Runs = append(q.Runs, state.Answering{Task: name, Run: "0193a7c0-1234-7000-8000-000000000000"})
	}
	if raw, err := json.Marshal(q); err != nil || len(raw) > state.MaxBytes-10_000 {
		t.Errorf("the question has %d bytes, %v", len(raw), err)
	}
}
