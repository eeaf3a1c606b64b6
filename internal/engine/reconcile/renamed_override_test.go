package reconcile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestRename_MovesWhatPeopleHaveDisabledAndEnabled(t *testing.T) {
	yes, no := true, false
	said := func(enabled *bool, by string) state.Override { return state.Override{Enabled: enabled, By: by} }
	provisional := said(&yes, "ann")
	provisional.Provisional = &state.Provisional{}
	after := provisional
	after.Provisional = &state.Provisional{Before: &state.Override{Enabled: &no, By: "bob"}}
	for name, tt := range map[string]struct {
		was, is *state.Override
		file    bool // the new name is enabled in its file
		enabled bool
		by      string
	}{
		"disabled":                             {was: new(said(&no, "ann")), file: true, by: "ann"},
		"enabled":                              {was: new(said(&yes, "ann")), enabled: true, by: "ann"},
		"enabled, and in the file as well":     {was: new(said(&yes, "ann")), file: true, enabled: true},
		"disabled, and the new name enabled":   {was: new(said(&no, "ann")), is: new(said(&yes, "bob")), enabled: true, by: "bob"},
		"enabled, and that is not confirmed":   {was: &provisional},
		"the same, after it had been disabled": {was: &after, file: true, by: "bob"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tasks(1)...)
			b.settle()
			for task, o := range map[string]*state.Override{"task-0": tt.was, "new": tt.is} {
				if o != nil {
					next := *o
					next.Task, next.At, next.Made = task, b.now, b.now
					if p := next.Provisional; p != nil {
						next.Provisional = &state.Provisional{Since: b.task("task-0").Ended.Last.Run, Before: p.Before}
					}
					b.overridden(next)
				}
			}
			is := renamedTask("task-0")
			is.Enabled = tt.file
			b.reload(is)
			o := b.override("new").Data
			got, _ := b.effective.Config.Task("new")
			if got.Enabled != tt.enabled || o.By != tt.by || o.Provisional != nil || b.override("task-0").Exists() {
				t.Errorf("enabled %v, by %+v", got.Enabled, o)
			}
		})
	}
}

// A task is created through the API under its new name, provisionally: its own run decides.
func TestRename_RunOfTheFormerNameDoesNotConfirmAProvisionalTask(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.launcher.forget()
	b.Config = &config.Config{KeepRemoved: keptRemoved}
	b.effective = nil
	definition := json.RawMessage(strings.Replace(made, `"name":"made"`, `"name":"made","moved_from":["task-0"]`, 1))
	b.must(b.people().Create(t.Context(), definition, control.ChangeOptions{By: "ann", Provisional: true}))
	b.tick()
	if run := b.runs("made"); run == nil || run.Moves == nil || b.override("made").Data.Provisional == nil {
		t.Fatalf("the run is %+v, the override %+v", run, b.override("made").Data)
	}
	b.end(state.RunFailed, "")
	b.tickAfterEnd()
	if b.override("made").Exists() {
		t.Error("the change is kept although its run failed")
	}
}

// The new bundle is the one with the rename.
func TestRename_OfADisabledTaskPutsItsBundleInForce(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.Bundle = "one"
	b.settle()
	b.must(b.people().SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{By: "ann"}))
	b.tick()
	rec, err := state.ReadReconcile(t.Context(), b.store)
	b.must(err)
	b.Reconciler = b.another([]config.Task{renamedTask("task-0")})
	b.Bundle = "two"
	b.must(b.Tick(t.Context(), TickOptions{Replaces: rec.Version}))
	if got := b.record().Bundle; got != "two" || b.task("new").Reason.Code != state.ReasonDisabled {
		t.Errorf("bundle %q is in force; %+v", got, b.task("new").Reason)
	}
}

// Rights are checked on the names in a request. So a task from the API gets nothing that the files have given
// another name, be it before the request or after it.
func TestRename_TaskFromTheAPITakesOverOnlyWhatItNames(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.launcher.forget()
	b.Config, b.effective = &config.Config{KeepRemoved: keptRemoved}, nil
	definition := json.RawMessage(strings.Replace(made, `"name":"made"`, `"name":"made","moved_from":["task-0"]`, 1))
	b.must(b.people().Create(t.Context(), definition, control.ChangeOptions{By: "ann"}))
	b.reload(renamedTask("task-0")) // it has the name in its moved_from, too, and files count first
	b.end(state.RunSucceeded, "A")
	b.tickAfterEnd()
	b.launcher.forget()
	b.reload()
	b.waitsAs(map[string]string{"made": "task-0, which was renamed to new since"})
	if is := b.task("new"); is.Gone.MovedTo != "" || is.Applied.Digest != "A" {
		t.Errorf("the renamed task is %+v", is)
	}
	b.must(b.people().Delete(t.Context(), "made", "ann"))
	if _, _, err := b.people().Create(t.Context(), definition, control.ChangeOptions{}); err == nil || !strings.Contains(err.Error(), `task "task-0" was renamed since`) {
		t.Errorf("created again: %v", err)
	}
}
