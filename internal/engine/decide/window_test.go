package decide

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestWindow_RemovalPassesOnlyWithTheDefinitionThatWasApplied(t *testing.T) {
	task := webTask()
	task.BufferPeriod, task.Windows = config.BufferPeriod{}, night(t)
	removal := with(applied(), func(s *state.Task) {
		s.Pending = &state.Pending{First: noon, Latest: noon, Entries: &state.EntryChanges{Removed: 1}}
	})
	seen := &Observed{Digest: "B", Entries: removal.Pending.Entries}
	for _, tt := range []struct {
		definition string
		action     Action
		code       state.ReasonCode
	}{
		{"def", Run, state.ReasonChanged},
		{"other", Wait, state.ReasonOutside}, // it would apply more than the removal
	} {
		d := Decide([]Input{{Task: task, Definition: tt.definition, State: removal, Reading: Reading{Observed: seen}}}, noon)[0]
		if d.Action != tt.action || d.Reason.Code != tt.code {
			t.Errorf("definition %s: action %v because of %+v", tt.definition, d.Action, d.Reason)
		}
	}
}

// night is from 22:00 to 06:00.
func night(t *testing.T) []window.Window {
	t.Helper()
	w, err := window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: 8 * time.Hour, TimeZone: "UTC", AllowRemovalsAlways: true}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return []window.Window{w}
}

// The window closes between the clock of the leader and that of the runner, which is ahead.
func TestWindow_RunnerWithAClockAheadHasSeenItClosed(t *testing.T) {
	task := webTask()
	task.BufferPeriod, task.Windows = config.BufferPeriod{}, night(t)
	closes := time.Date(noon.Year(), noon.Month(), noon.Day(), 6, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		runner time.Duration // its clock when it judged, after the window closed
		leader time.Duration
		action Action
	}{
		{runner: 10 * time.Second, leader: -15 * time.Second, action: Wait},
		{runner: 10 * time.Second, leader: 10 * time.Second, action: Wait},
		{runner: 10 * time.Second, leader: 16 * time.Hour, action: Resume},
		{runner: time.Hour, leader: -15 * time.Second, action: Resume}, // its clock was wrong
	} {
		waiting := with(applied(), func(s *state.Task) {
			s.Observed.Digest, s.Attempted = "B", state.Attempt{Definition: "def", Observed: "B"}
			s.Run = &state.LiveRun{ID: "r", Input: "B", Wait: &state.Wait{For: state.WaitWindow, Since: closes.Add(tt.runner), Rules: task.RulesDigest()}}
		})
		in := Input{Task: task, Definition: "def", State: waiting, Skew: 30 * time.Second, Reading: Reading{Observed: &Observed{Digest: "B"}}}
		if d := Decide([]Input{in}, closes.Add(tt.leader))[0]; d.Action != tt.action {
			t.Errorf("judged %s after the window closed, and seen at %s: action %v because of %+v", tt.runner, tt.leader, d.Action, d.Reason)
		}
	}
}
