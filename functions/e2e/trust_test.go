//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestAHeldPlanIsAppliedOnceAndAsItWasApproved(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.instances(1, 60, true)
	c.module("")
	c.tasks(c.s3Backend(), "lb")
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.applied("lb") == 60 })
	c.tickUntil("its end is seen", func() bool { return c.tick().Idle })

	// Data that comes back releases the task by itself.
	c.instances(1, 40, false)
	c.heldBecause("40 of 60 service instances are gone")
	c.instances(1, 40, true)
	c.tickUntil("released", func() bool { return c.waits("lb") == nil })
	for _, run := range c.runs("lb")[1:] {
		if run.State != state.RunSuperseded {
			t.Errorf("a run was carried out: %+v", run)
		}
	}

	// A new version is deployed, and another task is added, while the plan waits.
	c.instances(1, 40, false)
	held := c.heldBecause("40 of 60 service instances are gone")
	c.tasks(c.s3Backend(), "lb", "dns")
	c.mustPush()
	c.tickUntil("the other task is applied", func() bool { return c.applied("dns") == 20 })
	if now := c.waits("lb"); now == nil || now.ID != held.ID || c.applied("lb") != 60 {
		t.Fatalf("after the deployment it waits for %+v; %d instances are applied", now, c.applied("lb"))
	}
	if status, _, plan := c.ask(http.MethodGet, "/v1/tasks/lb/plan", ""); status != http.StatusOK || !strings.Contains(plan, held.ID) {
		t.Errorf("the plan: %d %s", status, plan)
	}

	// The data changes once more before that plan is approved.
	c.instances(41, 41, false)
	if status, said := c.approve(held.ID); status != http.StatusAccepted && status != http.StatusConflict && status != http.StatusNotFound {
		t.Errorf("approve: %d %s", status, said)
	}
	held = c.heldBecause("41 of 60 service instances are gone")
	if c.applied("lb") != 60 {
		t.Fatalf("the approval of another plan was used: %d instances are applied", c.applied("lb"))
	}

	// The function that leads is killed before it has launched the approved run.
	c.ecs.Inject(ecstest.Fault{Operation: "RunTask", Code: "ServerException", Message: "killed before", Status: 500, Times: 20})
	before := c.ecs.Requests()["RunTask"]
	if status, said := c.approve(held.ID); status != http.StatusAccepted {
		t.Fatalf("approve: %d %s", status, said)
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		c.until("RunTask is asked for", func() bool { return c.ecs.Requests()["RunTask"] > before })
		c.lambda.kill(c.reconcile)
	}()
	for asked := false; !asked; { // as the schedule does: another tick may lead just then
		_, _ = c.invoke(`{"mode":"reconcile"}`) // its process is killed
		select {
		case <-killed:
			asked = true
		default:
		}
	}
	c.ecs.Heal()
	c.tickUntil("the approved plan is applied", func() bool { return c.applied("lb") == 19 })
	last := func() state.Run { runs := c.runs("lb"); return runs[len(runs)-1] }
	c.until("the run has ended", func() bool { return last().State == state.RunSucceeded })
	applied := 0
	for _, run := range c.runs("lb") {
		if run.State == state.RunSucceeded {
			applied++
		}
	}
	if applied != 2 {
		t.Errorf("%d runs were applied: %+v", applied, c.runs("lb"))
	}
	if a := last().Approval; a == nil || a.Comment != "moved" || !a.Authenticated || a.Content != *held.Content {
		t.Errorf("the run was approved by %+v, the plan was %+v", a, held.Content)
	}
}

// instances registers the instances of the service web that are numbered from first to
// last, or removes them.
func (c *cloud) instances(first, last int, there bool) {
	c.t.Helper()
	for n := first; n <= last; n++ {
		id := fmt.Sprintf("web-%02d", n)
		if there {
			c.register(id, 8000+n)
		} else if err := c.consul.Client().Agent().ServiceDeregister(id); err != nil {
			c.t.Fatal(err)
		}
	}
}

// applied is how many instances a task was applied with.
func (c *cloud) applied(task string) int { return len(strings.Fields(c.out(task))) }

// heldBecause ticks until a guard holds the task lb for this reason.
func (c *cloud) heldBecause(text string) state.Wait {
	c.t.Helper()
	var held state.Wait
	c.tickUntil("held: "+text, func() bool {
		if wait := c.waits("lb"); wait != nil {
			held = *wait
		}
		return held.Guards() && strings.Contains(held.Text, text)
	})
	return held
}

func (c *cloud) approve(plan string) (status int, said string) {
	c.t.Helper()
	status, _, said = c.ask(http.MethodPost, "/v1/tasks/lb/approval", fmt.Sprintf(`{"decision":"approve","plan":%q,"comment":"moved"}`, plan))
	return status, said
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
