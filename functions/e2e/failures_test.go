//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// pushAndDie pushes a bundle. The process of the function is killed when it asks ECS for a container, which has
// the fault until then.
func (c *cloud) pushAndDie(fault ecstest.Fault) {
	c.t.Helper()
	c.ecs.Inject(fault)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		c.until("RunTask is asked for", func() bool { return c.ecs.Requests()["RunTask"] > 0 })
		c.lambda.kill(c.reconcile)
	}()
	c.push()
	<-killed
	c.ecs.Heal()
}

func TestAnInvocationThatIsKilledLeavesOneContainerInTheEnd(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]ecstest.Fault{
		"before RunTask":             {Operation: "RunTask", Code: "ServerException", Message: "killed before", Status: 500, Times: 20},
		"between RunTask and answer": {Operation: "RunTask", Lose: true, Times: 20},
	} {
		t.Run(name, func(t *testing.T) {
			c := deploy(t, options{})
			c.register("web-1", 8080)
			c.module("")
			c.tasks(consulBackend, "lb")
			c.pushAndDie(fault)
			c.tickUntil("applied", func() bool { return c.out("lb") != "" })
			if n := c.containers(); n != 1 {
				t.Errorf("%d containers", n)
			}
		})
	}
}

func TestAContainerKilledWhileItAppliesIsSettledAndItsLockReleased(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module(`
resource "terraform_data" "slow" {
  input = var.services
  provisioner "local-exec" { command = "touch ` + c.dir + `/begun; test -e ` + c.dir + `/fast || sleep 600" }
}`)
	c.tasks(c.s3Backend(), "lb")
	c.mustPush()
	// Not while Terraform initializes: it locks the state then, too, and no lock can be released
	// before the workspace exists.
	c.until("the apply has begun", func() bool { _, err := os.Stat(filepath.Join(c.dir, "begun")); return err == nil })
	if !c.exists(stateObject("lb") + ".tflock") {
		t.Error("the state is not locked")
	}
	arn := c.ecs.Tasks("")[0]
	c.ecs.Kill(arn, "OutOfMemoryError: Container killed due to memory usage")
	c.until("the container has stopped", func() bool { return c.ecs.LastStatus(arn) == "STOPPED" })
	c.file("../fast", "")
	c.tickUntil("applied", func() bool { return c.out("lb") == "web-1:8080" && len(c.runs("lb")) >= 2 })
	runs := c.runs("lb")
	if runs[0].State != state.RunLost || !strings.Contains(strings.ToLower(runs[0].Error), "memory") {
		t.Errorf("the killed run: %+v", runs[0])
	}
	if last := runs[len(runs)-1]; last.State != state.RunSucceeded {
		t.Errorf("the next run: %+v", last)
	}
	if c.exists(stateObject("lb") + ".tflock") {
		t.Error("the lock is still there")
	}
}

func TestConsulGoneForAQuarterOfAnHourAndBack(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(c.s3Backend(), "lb")
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("lb") != "" && len(c.runs("lb")) == 1 })
	c.proxy.Set(consultest.Cut)
	for range 15 {
		// One that a container's end has caused may be at work.
		if answer := c.tick(); answer.Skipped == "" && answer.Problem == "" || len(answer.Launches) > 0 {
			t.Fatalf("%+v", answer)
		}
	}
	if out, err := c.terrapulse("status", "-store=dynamodb://"+c.table); err != nil || !strings.Contains(out, "Problem: ") {
		t.Errorf("%s, %v", out, err)
	}
	c.register("web-2", 8081)
	c.proxy.Set(consultest.Working)
	c.tickUntil("the change is applied", func() bool { return strings.Contains(c.out("lb"), "web-2") })
	if c.record().ConsulError != "" {
		t.Errorf("%+v", c.record())
	}
}

func TestALeaseOfAProcessWhoseClockIsOffIsRespected(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	// By its clock, 20 seconds slow, the lease lasts; by ours it has expired.
	slow := func() time.Time { return time.Now().Add(-20 * time.Second) }
	held, err := lease.Acquire(t.Context(), c.store, state.LeaderLease, "another", lease.Options{TTL: 20 * time.Second, Now: slow})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := c.bundlePush(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	if answer := c.tick(); !strings.Contains(answer.Skipped, "another") || c.containers() != 0 {
		t.Fatalf("%+v", answer)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.tickUntil("applied", func() bool { return c.out("lb") != "" })
}

func TestAWriteWhoseAnswerWasLostIsRecognised(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	c.dynamo.loses("PutItem", 2)
	c.dynamo.loses("TransactWriteItems", 1)
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("lb") != "" && len(c.runs("lb")) == 1 })
	if n := c.containers(); n != 1 {
		t.Errorf("%d containers", n)
	}
}

func TestAThrottledTableIsNoCrashLoop(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("lb") != "" && len(c.runs("lb")) == 1 })
	c.untilIdle() // what the container's end starts holds the lease
	c.dynamo.throttles("GetItem", 1000)
	answer := c.tick()
	if !strings.Contains(answer.Skipped, "Throttling") {
		t.Errorf("%+v", answer)
	}
	c.dynamo.throttles("GetItem", 0)
	if answer := c.tick(); answer.Skipped != "" {
		t.Errorf("%+v", answer)
	}
}

func TestAContainerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	c.ecs.Inject(ecstest.Fault{Operation: "RunTask", FailToStart: "CannotPullContainerError: pull image manifest has been retried 1 time(s): not found"})
	c.mustPush()
	c.tickUntil("applied by the next container", func() bool { return c.out("lb") != "" })
	if runs := c.runs("lb"); runs[0].State != state.RunLost || !strings.Contains(runs[0].Error, "image") {
		t.Errorf("%+v", runs[0])
	}
}

func TestECSWithoutCapacityIsAskedAgain(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	c.ecs.Inject(ecstest.Fault{Operation: "RunTask", Failure: "RESOURCE:MEMORY", Times: 3})
	c.push()
	if rec := c.record(); rec.Stalled == "" {
		t.Errorf("%+v", rec)
	}
	c.tickUntil("applied", func() bool { return c.out("lb") != "" })
	if n := c.containers(); n != 1 {
		t.Errorf("%d containers", n)
	}
}

func TestEventsThatAreLateTwiceAndOutOfOrderDoNoHarm(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	c.ecs.Hold()
	c.mustPush()
	c.tickUntil("applied", func() bool { return len(c.runs("lb")) == 1 })
	c.register("web-2", 8081)
	c.tickUntil("applied again", func() bool { return len(c.runs("lb")) == 2 })
	c.ecs.Release(2, true)
	time.Sleep(2 * time.Second) // they are delivered one by one; what they do wrong would show
	for _, r := range c.runs("lb") {
		if r.State != state.RunSucceeded {
			t.Errorf("%+v", r)
		}
	}
}
