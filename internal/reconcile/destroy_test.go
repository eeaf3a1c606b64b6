package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/block"
	"github.com/terrapulse/terrapulse/internal/config/configtest"
	"github.com/terrapulse/terrapulse/internal/removal"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/window"
)

func TestDecide_RemovedTaskIsDestroyedThroughAdmission(t *testing.T) {
	gone := with(applied(), func(s *state.Task) { s.OnRemoval, s.RemovedAt = "kept", noon.Add(-time.Hour) })
	after := func(change func(*state.Task)) state.Task { return with(gone, change) }
	ended := func(as state.RunState, rejected bool) func(*state.Task) {
		return func(s *state.Task) {
			s.Last = &state.Result{Run: "r1", Kind: state.KindDestroy, State: as, Rejected: rejected, Error: "by Jo"}
		}
	}
	waiting := func(s *state.Task) {
		s.Attempted = state.Attempt{Definition: "def", Observed: s.Observed}
		s.Run = &state.LiveRun{ID: "r1", Kind: state.KindDestroy, Wait: &state.Wait{For: state.WaitApproval, ID: "w1", Content: &state.Content{Plan: "p"}}}
	}
	unasked := webTask()
	unasked.Removal = removal.Spec{On: removal.Destroy, Approve: removal.Never}
	closed := *unasked
	closed.Windows = window.Specs(&block.Report{}, []window.Keys{{Kind: block.String{V: "deny"}, Schedule: block.String{V: "* * * * *"},
		Duration: block.Duration{Origin: block.Origin{Set: true}, V: time.Hour}, On: block.Strings{V: []string{"destroy"}}}})
	for _, tt := range []struct {
		name   string
		in     Input
		action Action
		code   state.ReasonCode
	}{
		{"removed", Input{Task: webTask(), State: gone, Destroy: true}, Run, state.ReasonDestroy},
		{"removed while disabled", Input{Task: &config.Task{Name: "web"}, State: gone, Destroy: true}, Run, state.ReasonDestroy},
		{"removed while its condition was not read", Input{Task: webTask(), State: after(func(s *state.Task) { s.Recheck = true }), Destroy: true}, Run, state.ReasonDestroy},
		{"removed after a failed apply", Input{Task: webTask(), State: after(func(s *state.Task) { s.Failures, s.RetryAt = 3, noon.Add(time.Hour) }), Destroy: true}, Run, state.ReasonDestroy},
		{"on hold", Input{Task: webTask(), State: after(func(s *state.Task) { s.OnHold = &state.OnHold{By: "Jo", At: noon} }), Destroy: true}, Wait, state.ReasonOnHold},
		{"another run is under way", Input{Task: webTask(), State: after(func(s *state.Task) { s.Run = &state.LiveRun{ID: "r0"} }), Destroy: true}, Wait, state.ReasonRunning},
		{"its provider is gone", Input{Task: webTask(), State: gone, Undestroyable: errors.New("no provider")}, Wait, state.ReasonBlocked},
		{"its provider is gone for long", Input{Task: webTask(), State: after(func(s *state.Task) { s.RemovedAt = noon.Add(-2 * keptRemoved) }), Undestroyable: errors.New("no provider")}, Wait, state.ReasonBlocked},
		{"rejected", Input{Task: webTask(), State: after(ended(state.RunCancelled, true)), Destroy: true}, Wait, state.ReasonRejected},
		{"cancelled", Input{Task: webTask(), State: after(ended(state.RunCancelled, false)), Destroy: true}, Wait, state.ReasonCancelled},
		{"rejected and requested again", Input{Task: webTask(), State: with(after(ended(state.RunCancelled, true)), func(s *state.Task) { s.Destroy = &state.Request{By: "Jo"} }), Destroy: true}, Run, state.ReasonDestroy},
		{"rejected, and kept for long enough", Input{Task: webTask(), State: with(after(ended(state.RunCancelled, true)), func(s *state.Task) { s.RemovedAt = noon.Add(-keptRemoved) }), Destroy: true}, Erase, state.ReasonRemoved},
		{"failed", Input{Task: webTask(), State: with(after(ended(state.RunFailed, false)), func(s *state.Task) { s.Failures, s.RetryAt = 1, noon.Add(time.Second) }), Destroy: true}, Wait, state.ReasonBackoff},
		{"waiting", Input{Task: webTask(), State: after(waiting), Destroy: true}, Wait, state.ReasonWaiting},
		{"waiting, and its input changes", Input{Task: webTask(), State: with(after(waiting), func(s *state.Task) { s.Observed = "B" }), Destroy: true}, Wait, state.ReasonWaiting},
		{"waiting, and back in the configuration", Input{Task: webTask(), State: after(waiting), Observed: &Observed{Digest: "A"}}, End, state.ReasonDestroy},
		{"waiting, and its provider goes", Input{Task: webTask(), State: after(waiting), Undestroyable: errors.New("no provider")}, End, state.ReasonBlocked},
		{"without an approval", Input{Task: unasked, State: gone, Destroy: true}, Run, state.ReasonDestroy},
		{"without an approval, outside of its window", Input{Task: &closed, State: gone, Destroy: true}, Wait, state.ReasonOutside},
		{"to be kept", Input{Task: webTask(), State: gone}, Wait, state.ReasonRemoved},
		{"back in the configuration", Input{Task: webTask(), State: gone, Observed: &Observed{Digest: "A"}}, Wait, state.ReasonUnchanged},
		{"destroyed by hand", Input{Task: webTask(), State: with(applied(), func(s *state.Task) { s.Destroy = &state.Request{By: "Jo"} })}, Run, state.ReasonDestroy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Definition, tt.in.Keep = "def", keptRemoved
			tt.in.Removed = tt.in.Destroy || tt.in.Undestroyable != nil || tt.name == "to be kept"
			d := Decide([]Input{tt.in}, noon)[0]
			if d.Action != tt.action || d.Reason.Code != tt.code {
				t.Errorf("got action %v because of %q (%s)", d.Action, d.Reason.Code, d.Reason.Text)
			}
			if d.Action == Run && d.Kind != state.KindDestroy {
				t.Errorf("got a run of kind %s", d.Kind)
			}
		})
	}
}

func TestTick_DeletedTaskIsDestroyedBeforeItsRecordsAreErased(t *testing.T) {
	b := newBench(t)
	b.Config.Rules.Removal = removal.Default
	c := controlOf(b)
	definition := json.RawMessage(`{"name":"api","module":"./m","on_removal":"destroy","condition":{"services":{"names":["web"]}}}`)
	if _, err := c.Create(t.Context(), definition, ChangeOptions{By: "ci", Provisional: true}); err != nil {
		t.Fatal(err)
	}
	b.tick()
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()
	if b.task("api").OnRemoval == "" {
		t.Fatal("its definition is not kept")
	}
	if _, err := c.Delete(t.Context(), "api", "ci"); err != nil {
		t.Fatal(err)
	}
	// The process dies after the task was removed: another one destroys it.
	cfg := b.Config
	b.Reconciler = b.another(nil)
	b.Config = cfg
	report := b.tick()
	if len(report.Launches) != 1 || report.Launches[0].Kind != state.KindDestroy {
		t.Fatalf("launched %+v", report.Launches)
	}
	b.end(state.RunSucceeded, "")
	b.now = b.now.Add(liveCheck)
	b.tick()
	b.tick()
	if n := b.kept(); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestTick_OnRemovalCountsAsItWasInForceLast(t *testing.T) {
	dir := t.TempDir()
	load := func(text string) *config.Config { return configtest.Load(t, dir, "f.hcl", text) }
	task := func(on removal.Action) string {
		return fmt.Sprintf("task {\n name = \"task-0\"\n module = \"./m\"\n on_removal = %q\n condition \"services\" {\n names = [\"web\"]\n }\n}\n", on)
	}
	for last, first := range map[removal.Action]removal.Action{removal.Keep: removal.Destroy, removal.Destroy: removal.Keep} {
		b := newBench(t)
		b.Config = load(task(first))
		b.settle()
		b.Config, b.effective = load(task(last)), nil
		if report := b.tick(); len(report.Launches) != 0 { // no run is needed for that
			t.Fatalf("launched %+v", report.Launches)
		}
		b.Config, b.effective = load("port = 1\n"), nil
		if report := b.removed(); (len(report.Launches) == 1) != (last == removal.Destroy) {
			t.Errorf("%s: launched %+v; %+v", last, report.Launches, b.task("task-0").Reason)
		}
	}
}
