//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/state"
)

func TestAHeldPlanSurvivesARedeploymentAndIsAppliedWhenSomebodyApproves(t *testing.T) {
	c := deploy(t, options{})
	for i := range 12 {
		c.register(fmt.Sprintf("web-%02d", i), 8000+i)
	}
	c.module("")
	c.tasks(c.s3Backend(), "lb")
	c.mustPush()
	c.tickUntil("applied", func() bool { return len(strings.Fields(c.out("lb"))) == 12 })
	c.tickUntil("its end is seen", func() bool { return c.tick().Idle })

	for i := range 8 {
		if err := c.consul.Client().Agent().ServiceDeregister(fmt.Sprintf("web-%02d", i)); err != nil {
			t.Fatal(err)
		}
	}
	c.tickUntil("held", func() bool { return c.waits("lb") != nil })
	held := *c.waits("lb")
	if !held.Guards() || !strings.Contains(held.Text, "8 of 12 service instances are gone") {
		t.Errorf("it waits: %+v", held)
	}

	var failed *exec.ExitError
	if out, err := c.terrapulse("invoke", "-stack=e2e", "-once", "-wait"); !errors.As(err, &failed) || failed.ExitCode() != 3 || !strings.Contains(out, "held") {
		t.Errorf("the exit code is not that of a task that is held: %v\n%s", err, out)
	}

	// A new version is deployed, and another task is added.
	c.tasks(c.s3Backend(), "lb", "dns")
	c.mustPush()
	c.tickUntil("the other task is applied", func() bool { return len(strings.Fields(c.out("dns"))) == 4 })
	if now := c.waits("lb"); now == nil || now.ID != held.ID || len(strings.Fields(c.out("lb"))) != 12 {
		t.Fatalf("after the deployment it waits for %+v; applied: %s", now, c.out("lb"))
	}

	status, _, said := c.ask(http.MethodPost, "/v1/tasks/lb/approval", fmt.Sprintf(`{"decision":"approve","plan":%q,"comment":"moved"}`, held.ID))
	if status != http.StatusAccepted {
		t.Fatalf("approve: %d %s", status, said)
	}
	c.tickUntil("the approved plan is applied", func() bool { return len(strings.Fields(c.out("lb"))) == 4 })
	c.tickUntil("the run has ended", func() bool { return len(c.runs("lb")) == 2 })
	if run := c.runs("lb")[1]; run.State != state.RunSucceeded || run.Approval == nil || run.Approval.Comment != "moved" || !run.Approval.Authenticated {
		t.Errorf("the run is %+v, approved by %+v", run, run.Approval)
	}
}

// waits is what a task's run waits for; nil if it does not.
func (c *cloud) waits(task string) *state.Wait {
	c.t.Helper()
	record, err := state.Read[state.Task](c.t.Context(), c.store, state.TaskKey(task))
	if err != nil {
		c.t.Fatal(err)
	}
	return record.Data.Waits()
}
