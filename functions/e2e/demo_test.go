//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
)

var (
	demo = flag.Bool("demo", false, "tell what the demonstration does")
	keep = flag.Bool("keep", false, "leave the deployment of the demonstration running until Ctrl-C")
)

// TestDemo shows a deployment at work: make demo-aws.
func TestDemo(t *testing.T) {
	if !*demo {
		t.Skip("make demo-aws shows it")
	}
	d := &story{cloud: deploy(t, options{})}
	d.tell("A deployment of template.yaml: its functions under Lambda's emulator, DynamoDB Local, an S3 server, Consul, Terraform;",
		"a stand-in for ECS starts the container's program. Nothing runs but while something is to be done.")
	d.register("web-1", 8080)
	d.module(slowOnce(d.dir))
	d.tasks(d.s3Backend(), "load-balancer", "firewall", "dns")

	d.chapter("1. Task files are pushed as a bundle")
	d.run("bundle", "push", d.bundles, "-config-file=tasks.hcl")
	d.tell("What follows can be watched in a browser, too: terrapulse ui asks the function URL, with your AWS credentials.",
		"$ terrapulse ui -stack=e2e", "The pages of e2e: "+d.launchUI(d.serveURL(ann).env, ann.environ()))
	d.chapter("2. The schedule's next tick finds three new tasks, and launches one container for them")
	d.show(d.tick())
	d.waitFor("applied", func() bool {
		return d.out("load-balancer") == "web-1:8080" && d.out("firewall") != "" && d.out("dns") != ""
	})
	d.tell("made by Terraform: load-balancer, with the content " + d.out("load-balancer"))
	d.waitFor("quiet", func() bool { return d.quiet() && d.cloud.tick().Idle })

	d.chapter("3. Nothing changes: a tick reads one record of DynamoDB and Consul's gates, and writes nothing")
	before := d.taken()
	d.dynamo.reset()
	d.proxy.Reset()
	for range 3 {
		d.show(d.tick())
	}
	idle := d.taken().minus(before).times(1.0 / 3)
	idle.scheduled = 1
	d.tell(fmt.Sprintf("three ticks: DynamoDB %v, Consul %d requests; a month of them costs $%.2f", d.dynamo.passed(), d.proxy.Total(), idle.times(month.Minutes()).dollars()))

	d.chapter("4. An instance registers; the container that applies it is killed in the midst of it")
	d.file("../slow", "")
	d.register("web-2", 8081)
	d.waitFor("a container", func() bool { answer := d.tick(); d.show(answer); return len(answer.Launches) > 0 })
	d.waitFor("Terraform holds a state lock", func() bool { return d.exists(stateObject("firewall") + ".tflock") })
	if err := os.Remove(d.dir + "/slow"); err != nil {
		t.Fatal(err)
	}
	arns := d.ecs.Tasks("")
	d.ecs.Kill(arns[len(arns)-1], "OutOfMemoryError: Container killed due to memory usage")
	d.tell("killed: ECS tells the settle function, which marks the runs lost and has the reconcile function decide anew;",
		"the next container finds whose the state lock was, and releases it")
	d.waitFor("applied all the same", func() bool {
		d.cloud.tick()
		return strings.Contains(d.out("dns"), "web-2") && strings.Contains(d.out("load-balancer"), "web-2") && d.quiet()
	})
	d.run("runs", "-store=dynamodb://"+d.table, "firewall")

	d.chapter("5. What a person sees")
	d.waitFor("idle", func() bool { return d.quiet() && d.cloud.tick().Idle })
	d.run("status", "-store=dynamodb://"+d.table)

	d.chapter("6. What all this would have cost")
	fmt.Print(bill(d.taken()))
	d.tell(fmt.Sprintf("in all $%.4f; see docs/scale.md for a month", d.taken().dollars()))
	if *keep {
		d.goOn()
	}
}

// goOn ticks until Ctrl-C.
func (d *story) goOn() {
	ctx, stop := signal.NotifyContext(d.t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d.chapter("The deployment goes on, with a tick every 10 seconds, until you press Ctrl-C")
	d.tell("Try, in another terminal: curl -X PUT -d '{\"Name\": \"web\", \"ID\": \"web-3\", \"Port\": 8082}' http://" + d.consul.Addr() + "/v1/agent/service/register")
	for ctx.Err() == nil {
		d.show(d.tick())
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		}
	}
}

// slowOnce makes an apply last as long as the file slow is there.
func slowOnce(dir string) string {
	return `
resource "terraform_data" "slow" {
  input = var.services
  triggers_replace = join(" ", [for s in var.services : s.id])
  provisioner "local-exec" { command = "while test -e ` + dir + `/slow; do sleep 0.1; done" }
}`
}

// story is a deployment that tells what happens to it.
type story struct{ *cloud }

func (d *story) chapter(text string) { fmt.Printf("\n%s\n", text) }

func (d *story) tell(lines ...string) {
	for _, line := range lines {
		fmt.Println("  " + line)
	}
}

func (d *story) run(args ...string) {
	d.t.Helper()
	fmt.Printf("  $ terrapulse %s\n", strings.Join(args, " "))
	out, err := d.terrapulse(args...)
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		fmt.Print("    " + line)
	}
}

// show tells what a tick has answered.
func (d *story) show(answer invoke.Answer) {
	switch {
	case answer.Idle:
		d.tell("reconcile: nothing has moved and nothing is due")
	case answer.Skipped != "":
		d.tell("reconcile: skipped, " + answer.Skipped)
	}
	for _, decision := range answer.Decisions {
		if decision.Run {
			d.tell(fmt.Sprintf("reconcile: %s is run: %s", decision.Task, decision.Reason.Text))
		}
	}
	for _, launch := range answer.Launches {
		d.tell("ECS: one container for launch " + launch)
	}
}

func (d *story) waitFor(what string, is func() bool) {
	d.t.Helper()
	began := time.Now()
	d.until(what, func() bool {
		time.Sleep(300 * time.Millisecond)
		return is()
	})
	d.tell(fmt.Sprintf("… %s after %.1f s", what, time.Since(began).Seconds()))
}
