package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// planning is a site that starts a plan run, which the test ends.
func planning(t *testing.T) (*site, *state.Run) {
	run := &state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: "web", Kind: state.KindPlan, State: state.RunRunning, Created: time.Now().UTC()}
	s := newSiteOf(t, tasksOnWeb("web", "dns")+"task {\n name = \"off\"\n enabled = false\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n}\n", func(o *api.Options) {
		o.Control.Plan = func(ctx context.Context, task string, _ json.RawMessage) (state.PlannedRun, error) {
			if task != "web" {
				return state.PlannedRun{}, errors.New("no container")
			}
			_, err := o.Control.Store.Apply(ctx, state.Create(state.RunKey(task, run.ID), state.Encode(*run)))
			return state.PlannedRun{ID: run.ID, Task: task}, err
		}
	})
	return s, run
}

func TestPlanButton_ShowsThePlanAndTheVerdictWhenTheyAreThere(t *testing.T) {
	s, run := planning(t)
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks/web")
	b.Click("Plan")
	b.Until("Nothing is applied.")
	b.Click("Plan now")
	b.Comes("runs/" + run.ID)
	b.Until("running", "plan")
	data := `{"resources":[{"address":"module.web.junos_filter.a","action":"create"},{"address":"module.web.junos_filter.b","action":"delete"}]}`
	if err := state.SaveLog(t.Context(), s.store, "web", "plan-data", []byte(data), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	run.State, run.Ended = state.RunSucceeded, time.Now().UTC()
	run.Changes, run.PlanData = &state.Changes{Add: 1, Destroy: 1}, state.Kept{Name: "plan-data"}
	run.Verdict = &state.Verdict{Outcome: state.WouldHold, Text: "would be held: 12 of 20 service instances are gone"}
	s.put(state.RunKey("web", run.ID), *run)
	b.Until("What would happen: would be held: 12 of 20 service instances are gone", "The plan", "junos_filter.b", "Destroy")
	b.Accessible()
	b.Quiet()
	b.Open(s.url + "/ui/audit?action=plan")
	b.Until("plan", "web", "pages")
}

func TestPlanButton_SaysWhyNothingCanBePlanned(t *testing.T) {
	s, run := planning(t)
	s.page("/ui/tasks/off", "<button disabled>Plan</button>", "a task that is disabled is not planned")
	if status, page := s.post("/ui/tasks/dns/plan", nil); status != 500 || !strings.Contains(page, "no container") {
		t.Errorf("%d %s", status, page)
	}
	s.put(state.RunKey("web", run.ID), *run)
	s.page("/ui/tasks/web", "a plan is being made") // and no second one can be requested
	for role, may := range map[roles.Role]bool{roles.View: false, roles.Approve: false, roles.Operate: true} {
		c := access.Caller{Rights: roles.Given(map[roles.Role][]string{roles.View: {"*"}, role: {"dns"}})}
		if _, page := s.as(c, http.MethodGet, "/ui/tasks/dns", nil); strings.Contains(page, "Plan now") != may || role == roles.Approve && !strings.Contains(page, "Run now or Hold or Plan needs the role operate") {
			t.Errorf("with the role %s, a plan can be requested: %v", role, !may)
		}
	}
}
