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
