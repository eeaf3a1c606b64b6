//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// s3Backend is Terraform's own S3 backend as docs/deploy.md shows it. S3 and STS are where the
// environment says.
func (c *cloud) s3Backend() string {
	return fmt.Sprintf(`"s3" {
    bucket = %q
    key    = "terrapulse/state/terraform.tfstate"
    region = %q
    workspace_key_prefix = "terrapulse/state"
    use_lockfile = true
    use_path_style = true
  }`, c.bucket, ecstest.Region)
}

// stateObject is the object that the state of a task is in.
func stateObject(task string) string {
	return "terrapulse/state/" + task + "/terrapulse/state/terraform.tfstate"
}

const consulBackend = `"consul" {}`

func TestAChangeInConsulBecomesAnAppliedFile(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"consul", "s3"} {
		t.Run("state in "+backend, func(t *testing.T) {
			c := deploy(t, options{})
			c.register("web-1", 8080)
			c.module("")
			if backend == "s3" {
				c.tasks(c.s3Backend(), "lb")
			} else {
				c.tasks(consulBackend, "lb")
			}
			c.mustPush()
			c.until("applied", func() bool { return c.out("lb") == "web-1:8080" && len(c.runs("lb")) == 1 })
			c.register("web-2", 8081)
			c.tickUntil("the change is applied", func() bool { return c.out("lb") == "web-1:8080 web-2:8081" })
			c.tickUntil("the runs have ended", func() bool { return len(c.runs("lb")) == 2 })
			for _, r := range c.runs("lb") {
				if r.State != state.RunSucceeded || r.Changes == nil || !strings.HasPrefix(r.Output.URL, "s3://"+c.bucket+"/terrapulse/logs/lb/") {
					t.Errorf("%+v", r)
				}
			}
			if backend == "s3" {
				if !c.exists(stateObject("lb")) {
					t.Errorf("the state is not in %s: %v", stateObject("lb"), c.s3.passed())
				}
				if c.sts.passed()["POST /"] == 0 {
					t.Error("Terraform did not ask STS whose credentials it has: does infra/network.yaml still need the endpoint?")
				}
			}
			c.tickUntil("the bus has the events of both runs", func() bool { return strings.Count(c.onBus("lb"), "run_succeeded") >= 2 })
			if told, want := c.onBus("lb"), "run_decided run_succeeded change_seen run_decided run_succeeded"; told != want {
				t.Errorf("the bus has %s, want %s", told, want)
			}
			out, err := c.terrapulse("logs", "-store=dynamodb://"+c.table, "lb")
			if err != nil || !strings.Contains(out, "Apply complete!") {
				t.Errorf("%s, %v", out, err)
			}
			out, err = c.terrapulse("status", "-store=dynamodb://"+c.table)
			if err != nil || !strings.Contains(out, "applied") {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
}

func TestAnIdleTickIsThreeRequestsWhateverIsWatched(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 200} { // BenchmarkGrowthTable goes up to 10,000
		t.Run(fmt.Sprint(n, " tasks"), func(t *testing.T) {
			c := deploy(t, options{})
			c.register("web-1", 8080)
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("task-%d", i)
			}
			c.module("")
			c.tasks(consulBackend, names...)
			// Of a few services only, their own views are read.
			c.file("tasks.hcl", strings.Replace(c.read("tasks.hcl"), `names = ["web"]`, `names = ["web", "api", "db", "cache"]`, 1))
			// That they are applied is not what is tested: their records say so.
			c.ecs.HoldStarts()
			c.mustPush()
			c.tickUntil("idle", func() bool { c.applyAll(); return c.tick().Idle })
			var before map[string]int
			var sent int
			tick := func() invoke.Answer {
				c.dynamo.reset()
				c.proxy.Reset()
				c.s3.reset()
				before, sent = c.ecs.Requests(), c.bus.Requests()
				return c.tick()
			}
			// Of two in a row, at most one comes when everything is to be read again.
			if first := tick(); !first.Idle {
				if answer := tick(); !answer.Idle {
					t.Fatalf("not idle: %+v, and before %+v", answer, first)
				}
			}
			if got := c.dynamo.passed(); len(got) != 1 || got["GetItem"] != 1 {
				t.Errorf("DynamoDB: %v", got)
			}
			if c.proxy.Total() != 2 {
				t.Errorf("Consul: %v", c.proxy.Requests())
			}
			if got := c.s3.passed(); len(got) != 0 {
				t.Errorf("S3: %v", got)
			}
			if after := c.ecs.Requests(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("ECS: %v, before %v", after, before)
			}
			if after := c.bus.Requests(); after != sent || len(c.bus.Events()) < n {
				t.Errorf("EventBridge: %d requests, before %d; it has %d events", after, sent, len(c.bus.Events()))
			}
		})
	}
}

func TestTwoInvocationsAtOnceHaveOneLeader(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "a", "b", "c")
	release := c.ecs.HoldStarts()
	c.mustPush()
	release()
	c.until("applied, and all is told", func() bool {
		return c.out("a") != "" && c.out("b") != "" && c.out("c") != "" && c.quiet()
	})
	c.tickUntil("idle", func() bool { return c.tick().Idle })
	before := c.containers()
	c.register("web-2", 8081)
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			if _, err := c.invoke(`{"mode":"reconcile"}`); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	c.until("applied", func() bool { return strings.Contains(c.out("a"), "web-2") && strings.Contains(c.out("c"), "web-2") })
	if n := c.containers() - before; n != 1 {
		t.Errorf("%d containers for one change", n)
	}
}

func TestABundleIsReplacedAndABrokenOneRefused(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "one", "two")
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("one") != "" && c.out("two") != "" })
	good := c.record().Bundle

	debug := `"level":"DEBUG"`
	if logged := c.lambda.logs(c.reconcile) + c.output.String(); strings.Contains(logged, debug) {
		t.Errorf("lines for debugging are logged, which nobody asked for:\n%s", logged)
	}

	c.tasks(consulBackend, "two", "three")
	c.file("tasks.hcl", "log_level = \"debug\"\n"+c.read("tasks.hcl"))
	c.mustPush()
	c.tickUntil("the new task is held: it may be the other one under a new name", func() bool {
		out, _ := c.terrapulse("status", "-store=dynamodb://"+c.table)
		return strings.Contains(out, "perhaps this is task one under a new name")
	})
	if status, _, said := c.ask(http.MethodPost, "/v1/tasks/three/run", ""); status != http.StatusAccepted {
		t.Fatalf("a run of the new task: %d %s", status, said)
	}
	c.tickUntil("the new task is applied", func() bool { return c.out("three") != "" })
	if now := c.record().Bundle; now == good {
		t.Error("the bundle in force is the old one")
	}
	if !strings.Contains(c.lambda.logs(c.reconcile), debug) || !strings.Contains(c.output.String(), debug) {
		t.Error("log_level of the new bundle has no effect on the function or on containers")
	}
	good = c.record().Bundle
	if out, _ := c.terrapulse("status", "-store=dynamodb://"+c.table); !strings.Contains(out, "removed") {
		t.Errorf("a task that is gone is not told of:\n%s", out)
	}

	c.file("tasks.hcl", "task {\n  name = \"two\"\n}\n")
	if out, err := c.push(); err == nil || !strings.Contains(err.Error(), "tasks.hcl:") {
		t.Errorf("a broken one was pushed: %s, %v", out, err)
	}
	c.pushBroken()
	answer := c.mustInvoke(`{"mode":"reconcile","refresh":true}`)
	if answer.Bundle != good || answer.Problem == "" || c.record().Refused == nil {
		t.Errorf("%+v, %+v", answer, c.record())
	}
	c.register("web-2", 8081)
	c.tickUntil("the last good one goes on", func() bool { return strings.Contains(c.out("two"), "web-2") })
}

func TestATokenIsReplacedWithoutADeployment(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:consul-AbCdEf"
	c := deploy(t, options{consul: []consultest.Option{consultest.WithACLs()},
		parameters: rehearsal.Parameters{"SecretArns": arn}, secrets: map[string]string{arn: ""}})
	c.register("web-1", 8080)
	first, second := c.token(), c.token()
	// The function reads it itself, the container gets it from ECS. Files end in a newline.
	held := func(token string) string { return `{"consul_token": "` + token + `\n"}` }
	c.setSecret(arn, held(first))
	c.module("")
	c.tasks(consulBackend, "lb")
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("lb") != "" })
	c.untilIdle() // a container keeps the token that it was started with
	c.setSecret(arn, held(second))
	tokens, _, err := c.consul.Client().ACL().TokenList(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if token.SecretID == first {
			if _, err := c.consul.Client().ACL().TokenDelete(token.AccessorID, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.register("web-2", 8081)
	c.until("the change is applied, and no tick meets a token that is refused", func() bool {
		if answer := c.tick(); answer.Problem != "" {
			t.Fatalf("%+v", answer)
		}
		return strings.Contains(c.out("lb"), "web-2")
	})
	c.tickUntil("idle", func() bool { return c.tick().Idle })
	if n := c.containers(); n != 2 {
		t.Errorf("%d containers for two changes", n)
	}
	for _, text := range []string{c.lambda.logs(c.reconcile), c.lambda.logs(c.settle), c.output.String()} {
		if strings.Contains(text, first) || strings.Contains(text, second) {
			t.Error("a token is in a log")
		}
	}
	c.noSecretsInTheTable(first, second)
}

// A container carries out 25 runs at most.
func TestFiftyOneTasksConcernedAtOnceAreThreeContainers(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	var names []string
	for i := range 51 {
		names = append(names, fmt.Sprintf("task-%02d", i))
	}
	c.module("")
	c.tasks(c.s3Backend(), names...)
	c.mustPush()
	c.tickUntil("all are applied", func() bool {
		for _, name := range names {
			if c.out(name) == "" {
				return false
			}
		}
		return true
	})
	if n := c.containers(); n != 3 {
		t.Errorf("%d containers", n)
	}
}

func TestOnceAndInspectByHand(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "one", "two")
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("one") != "" && len(c.runs("one")) == 1 && len(c.runs("two")) == 1 })

	answer := c.mustInvoke(`{"mode":"once","tasks":["one"],"wait":true}`)
	if len(answer.Runs) != 1 || answer.Runs[0].Task != "one" || answer.Runs[0].State != state.RunSucceeded {
		t.Errorf("once: %+v", answer)
	}
	if len(c.runs("two")) != 1 {
		t.Error("a task that nobody asked for was run")
	}
	// Something is changed behind Terraform's back.
	if err := os.Remove(filepath.Join(c.dir, "out", "one")); err != nil {
		t.Fatal(err)
	}
	answer = c.mustInvoke(`{"mode":"inspect","wait":true}`)
	if len(answer.Runs) != 2 {
		t.Fatalf("inspect: %+v", answer)
	}
	for _, r := range answer.Runs {
		if r.State != state.RunSucceeded || r.Changes == nil || (r.Changes.Add > 0) != (r.Task == "one") {
			t.Errorf("inspect: %+v", r)
		}
		if r.Task != "one" {
			continue
		}
		if out, err := c.terrapulse("logs", "-store=dynamodb://"+c.table, r.Run); err != nil || !strings.Contains(out, "1 to add") {
			t.Errorf("the plan: %s, %v", out, err)
		}
	}
	if c.out("one") != "" {
		t.Error("an inspection applied something")
	}
	for payload, says := range map[string]string{
		`{"mode":"once","tasks":["nope"]}`:                                 `task \"nope\" is not in the bundle`,
		`{"mode":"reconcile","junk":"` + strings.Repeat("x", 1<<20) + `"}`: "the request has 1048606 bytes",
	} {
		if _, err := c.invoke(payload); err == nil || !strings.Contains(fmt.Sprintf("%q", err.Error()), says) {
			t.Errorf("%.60s: %v", payload, err)
		}
	}
}

func TestPause_NewStackAppliesNothingUntilSomebodyResumes(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{paused: true})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	// The schedule ticks before a bundle is pushed: that is no failure.
	if answer := c.mustInvoke(`{"mode":"reconcile","window":true}`); !strings.Contains(answer.Skipped, "terrapulse bundle push") || answer.Problem != "" {
		t.Errorf("without a bundle: %+v", answer)
	}
	rec, err := state.ReadReconcile(t.Context(), c.store)
	if err != nil || rec.Data.Paused == nil {
		t.Fatalf("the new stack is not paused: %+v, %v", rec.Data, err)
	}
	out, err := c.terrapulse("bundle", "push", "-stack=e2e", "-config-file=tasks.hcl")
	if err != nil || !strings.Contains(out, "terrapulse resume -stack=e2e") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := c.terrapulse("doctor", "-stack=e2e"); err != nil || !strings.Contains(out, "paused by the deployment") || !strings.Contains(out, "planned task lb") || !strings.Contains(out, "template checkout, container dev") {
		t.Fatalf("doctor: %v\n%s", err, out)
	}
	if answer := c.mustInvoke(`{"mode":"inspect","wait":true}`); len(answer.Runs) != 1 || answer.Runs[0].State != state.RunSucceeded || answer.Runs[0].Changes.Add != 1 {
		t.Fatalf("inspect: %+v", answer)
	}
	answer := c.mustInvoke(`{"mode":"once","tasks":["lb"],"wait":true}`)
	if len(answer.Runs) > 0 || len(answer.Decisions) != 1 || answer.Decisions[0].Reason.Code != state.ReasonPaused {
		t.Errorf("once: %+v", answer)
	}
	if n := c.containers(); n != 2 || c.out("lb") != "" {
		t.Errorf("%d containers, which have made %q", n, c.out("lb"))
	}
	if out, err := c.terrapulse("resume", "-store=dynamodb://"+c.table); err != nil || !strings.Contains(out, "Resumed") {
		t.Fatalf("resume: %v\n%s", err, out)
	}
	c.tickUntil("the task is applied", func() bool { return c.out("lb") != "" })
}

func TestADeploymentIsWorkedWithByTheNameOfItsStack(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(c.s3Backend(), "one", "two")
	say := func(wants string, args ...string) string {
		t.Helper()
		out, err := c.terrapulse(args...)
		if err != nil || !strings.Contains(out, wants) {
			t.Errorf("terrapulse %s: want %q: %v\n%s", strings.Join(args, " "), wants, err, out)
		}
		return out
	}
	say("in force", "bundle", "push", "-stack=e2e", "-config-file=tasks.hcl")
	c.tickUntil("applied", func() bool { return c.out("one") != "" && c.out("two") != "" })
	c.untilIdle()
	say("succeeded", "invoke", "-stack=e2e", "-once", "-task=one", "-wait")
	if len(c.runs("one")) != 2 || len(c.runs("two")) != 1 {
		t.Errorf("%d and %d runs", len(c.runs("one")), len(c.runs("two")))
	}
	if err := os.Remove(filepath.Join(c.dir, "out", "two")); err != nil {
		t.Fatal(err)
	}
	if out := say("### Task two", "invoke", "-stack=e2e", "-inspect", "-wait"); !strings.Contains(out, "1 to add") {
		t.Errorf("no plan in:\n%s", out)
	}
	say("planned task one", "doctor", "-stack=e2e", "-task=one")

	c.ecs.Inject(ecstest.Fault{Operation: "RunTask", FailToStart: "CannotPullContainerError: pull image manifest has been retried 1 time(s): not found"})
	if out, err := c.terrapulse("doctor", "-stack=e2e", "-task=one"); err == nil || !strings.Contains(out, "image") {
		t.Errorf("an image that cannot be pulled: %v\n%s", err, out)
	}
	c.file("vars/two.tfvars", "task = \"three\"\n")
	if out := say("two", "bundle", "diff", "-stack=e2e", "-config-file=tasks.hcl"); strings.Contains(out, "one  ") {
		t.Errorf("a task that does not differ:\n%s", out)
	}
}

func TestARunOutlivesTheLeaseAndTicksGoOn(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module(`
resource "terraform_data" "slow" {
  input = var.services
  provisioner "local-exec" { command = "while ! test -e ` + c.dir + `/go; do sleep 0.1; done" }
}`)
	c.tasks(consulBackend, "slow")
	c.mustPush()
	c.until("the run is under way", func() bool { return c.exists("terrapulse/current") && c.containers() == 1 })
	if testing.Verbose() {
		t.Log("waiting for longer than the lease lasts")
	}
	for end := time.Now().Add(25 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Second) {
		if answer := c.tick(); len(answer.Launches) > 0 {
			t.Fatalf("%+v", answer)
		}
	}
	c.file("../go", "")
	c.tickUntil("applied", func() bool { return len(c.runs("slow")) == 1 })
	if runs := c.runs("slow"); runs[0].State != state.RunSucceeded || c.containers() != 1 {
		t.Errorf("%d containers, %+v", c.containers(), runs)
	}
}

// token makes a token that may do what Terrapulse needs.
func (c *cloud) token() string {
	c.t.Helper()
	client := c.consul.Client().ACL()
	policies, _, err := client.PolicyList(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	have := false
	for _, p := range policies {
		have = have || p.Name == "terrapulse"
	}
	if !have {
		_, _, err := client.PolicyCreate(&api.ACLPolicy{Name: "terrapulse", Rules: `
service_prefix "" { policy = "read" }
node_prefix "" { policy = "read" }
key_prefix "" { policy = "write" }
session_prefix "" { policy = "write" }`}, nil)
		if err != nil {
			c.t.Fatal(err)
		}
	}
	token, _, err := client.TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{Name: "terrapulse"}}}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return token.SecretID
}

// noSecretsInTheTable looks through everything in the table.
func (c *cloud) noSecretsInTheTable(secrets ...string) {
	c.t.Helper()
	for _, collection := range []string{"lease/", "reconcile/", "task/", "run/", "launch/", "inputs/"} {
		records, err := c.store.List(c.t.Context(), collection)
		if err != nil {
			c.t.Fatal(err)
		}
		text, err := json.Marshal(records)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, rec := range records {
			text = append(text, rec.Value...)
		}
		for _, secret := range secrets {
			if strings.Contains(string(text), secret) {
				c.t.Errorf("a secret is in %s", collection)
			}
		}
	}
}
