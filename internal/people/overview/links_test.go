package overview_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// In AWS, status and events lead to the log of the container of a run, also after the run.
func TestRead_RunsAndEventsHaveLinksToTheirContainer(t *testing.T) {
	store, now := newStore(t), time.Now()
	ended := state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunFailed, Claimed: state.Claimed{Runner: "c1"}, Times: state.Times{Ended: now}, Work: state.Work{Error: "no"}}
	live := state.Run{ID: "r2", Task: "web", Kind: state.KindApply, State: state.RunRunning, Claimed: state.Claimed{Runner: "c2"}, Created: now}
	task, _ := state.Task{}.Conclude(ended, "")
	task.Run = &state.LiveRun{ID: live.ID, Created: now}
	events := outbox.NewEvents(outbox.Number(&task, outbox.OfRun(ended)))
	write(t, store, state.TaskKey("web"), task)
	write(t, store, state.RunKey("web", live.ID), live)
	if _, err := store.Apply(t.Context(), events.Changes()...); err != nil {
		t.Fatal(err)
	}
	r := overview.Reader{Store: store, Now: time.Now, Console: &apispec.ConsoleLinks{Dashboard: "d"},
		Links: func(run state.Run) *apispec.RunLinks { return &apispec.RunLinks{Logs: "log of " + run.Runner} }}
	o, err := r.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Links == nil || o.Links.Dashboard != "d" {
		t.Errorf("the deployment has the links %+v", o.Links)
	}
	for want, run := range map[string]*apispec.Run{"log of c1": o.Tasks[0].LastRun, "log of c2": o.Tasks[0].Run} {
		if run == nil || run.Links == nil || run.Links.Logs != want {
			t.Errorf("the run is %+v, want a link to the %s", run, want)
		}
	}
	listed, err := r.Events(t.Context(), apiview.EventFilter{Selection: apiview.Selection{Limit: 50}}, func(apispec.LatestEvent) bool { return true })
	latest := listed.Found
	if err != nil || len(latest) != 1 || latest[0].Links == nil || latest[0].Links.Logs != "log of c1" {
		t.Errorf("the events are %+v, %v", latest, err)
	}
}

func TestRead_DeploymentWithoutABundleSaysWhatToDo(t *testing.T) {
	store := newStore(t)
	unhealthy := func() string {
		t.Helper()
		o, err := overview.Reader{Store: store, Now: time.Now, Console: &apispec.ConsoleLinks{}}.Recorded(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return apispec.Deref(o.Unhealthy)
	}
	if got := unhealthy(); !strings.Contains(got, "terrapulse bundle push") {
		t.Errorf("before the first bundle: %q", got)
	}
	write(t, store, state.ReconcileKey, state.Reconcile{Bundle: "b1"})
	if got := unhealthy(); strings.Contains(got, "terrapulse bundle push") {
		t.Errorf("with a bundle: %q", got)
	}
}
