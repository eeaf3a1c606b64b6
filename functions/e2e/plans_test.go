//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// IAM judges each request of a container by the role that it was started with.
func TestPlans_ContainersThatApplyNothingHaveAnotherRole(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(c.s3Backend(), "lb")
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("lb") == "web-1:8080" && len(c.runs("lb")) == 1 })
	c.untilIdle()

	plan := func(kind state.Kind, make func()) {
		t.Helper()
		c.s3.reset()
		make()
		runs := c.runs("lb")
		if last := runs[len(runs)-1]; last.Kind != kind || last.State != state.RunSucceeded {
			t.Errorf("the run is %+v", last)
		}
	}
	plan(state.KindPlan, func() {
		if answer := c.mustInvoke(`{"mode":"inspect","tasks":["lb"]}`); len(answer.Launches) != 1 {
			t.Fatalf("%+v", answer)
		}
		c.until("planned", func() bool { return len(c.runs("lb")) == 2 })
	})
	locked := fmt.Sprintf("PUT /%s/%s.tflock", c.bucket, stateObject("lb"))
	if c.s3.passed()[locked] == 0 {
		t.Error("the plan has not locked the state, which PlanRole may do")
	}
	// A check for drift also writes the record of its task, and removes the check before.
	c.file("tasks.hcl", c.read("tasks.hcl")+"drift {\n  schedule = \"* * * * * * *\"\n}\n")
	c.mustPush()
	var first string
	checks := func() (ids []string) {
		for _, run := range c.runs("lb") {
			if run.Kind == state.KindDrift {
				ids = append(ids, run.ID)
			}
		}
		return ids
	}
	plan(state.KindDrift, func() {
		c.tickUntil("checked for drift", func() bool { return len(checks()) > 0 })
		first = checks()[0]
		c.tickUntil("checked again", func() bool { return len(checks()) > 0 && !slices.Contains(checks(), first) })
	})
	if had := c.rolesHad(); had != "RunnerRole PlanRole" {
		t.Errorf("the containers of an apply, a plan and checks for drift have the roles %s", had)
	}
}

// rolesHad returns the roles of the containers in the order of their starts, each once in a row.
func (c *cloud) rolesHad() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(slices.Compact(slices.Clone(c.had)), " ")
}
