//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	hcpARN          = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hcp-AbCdEf"
	notificationARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hcp/notifications-AbCdEf"
	passwordARN     = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:provider-AbCdEf"
)

// deployHCP makes a deployment whose tasks run in a stand-in of HCP Terraform.
func deployHCP(t *testing.T) (*cloud, *hcptest.Server) {
	t.Helper()
	hcp := hcptest.New(t)
	c := deploy(t, options{
		parameters: rehearsal.Parameters{"SecretArns": hcpARN + "," + passwordARN, "HcpNotificationTokenArn": notificationARN},
		secrets:    map[string]string{hcpARN: `{"hcp_token": "` + hcp.Token + `"}`, notificationARN: "key-of-notifications", passwordARN: "secret-of-the-provider"},
	})
	c.register("web-1", 8080)
	return c, hcp
}

// notificationURL serves the function URL of functions/notification, as Lambda does.
func (c *cloud) notificationURL() string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		payload, err := json.Marshal(eventOfURL(r, body, caller{}))
		if err != nil {
			panic(err)
		}
		var out struct{ StatusCode int }
		text, err := c.lambda.invoke(c.t.Context(), c.notification, payload)
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(out.StatusCode)
	}))
	c.t.Cleanup(server.Close)
	return server.URL
}

// hcpTasks writes a task file for HCP Terraform. More is part of the driver's block.
func (c *cloud) hcpTasks(hcp *hcptest.Server, more string, names ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, `
driver "terraform-cloud" {
  hostname     = %q
  organization = %q
  workspaces { prefix = "net-" }
  required_providers {
    local = { source = "hashicorp/local" }
  }
  %s
}
terraform_provider "local" {
  task_env { PASSWORD = "{{ secretsmanager \"%s\" }}" }
}
`, hcp.URL, hcp.Organization, more, passwordARN)
	for _, name := range names {
		c.file("vars/"+name+".tfvars", "task = \""+name+"\"\n")
		fmt.Fprintf(&b, `
task {
  name           = %q
  module         = "./module"
  providers      = ["local"]
  variable_files = ["./vars/%s.tfvars"]
  buffer_period { enabled = false }
  condition "services" { names = ["web"] }
}
`, name, name)
	}
	c.file("tasks.hcl", b.String())
}

// scheduled waits until it is so, with a tick of the schedule every ten seconds: one that a
// notification starts may find the lease held.
func (c *cloud) scheduled(what string, is func() bool) {
	c.t.Helper()
	begun := time.Now()
	for next := begun; !is(); time.Sleep(50 * time.Millisecond) {
		switch now := time.Now(); {
		case now.Sub(begun) > patience:
			c.t.Fatalf("it never came to this: %s", what)
		case now.After(next):
			c.tick()
			next = now.Add(10 * time.Second)
		}
	}
}

func TestHCP_RunsNeedNoContainerAndNotificationsStartTicks(t *testing.T) {
	t.Parallel()
	c, hcp := deployHCP(t)
	c.module("")
	c.hcpTasks(hcp, fmt.Sprintf("notification {\n    url   = %q\n    token = \"{{ secretsmanager \\\"%s\\\" }}\"\n  }", c.notificationURL(), notificationARN), "lb", "dns")
	c.mustPush()
	c.scheduled("both are applied", func() bool { return c.out("lb") == "web-1:8080" && c.out("dns") == "web-1:8080" })
	ended := func(n int) func() bool {
		return func() bool { return len(c.runs("lb")) == n && len(c.runs("dns")) == n }
	}
	c.scheduled("both have ended", ended(1))
	c.register("web-2", 8081)
	c.scheduled("the change is applied", func() bool { return strings.Contains(c.out("lb"), "web-2") && strings.Contains(c.out("dns"), "web-2") })
	c.scheduled("both have ended again", ended(2))
	if n := c.lambda.asked(); n < 4 {
		t.Errorf("notifications have started %d ticks", n)
	}
	c.untilIdle()

	for _, run := range append(c.runs("lb"), c.runs("dns")...) {
		if run.State != state.RunSucceeded || run.Remote == nil || !strings.HasPrefix(run.Output.URL, "s3://") {
			t.Errorf("%s %s, remote run %+v, output %+v", run.State, run.Error, run.Remote, run.Output)
		}
	}
	if n := c.containers(); n != 0 {
		t.Errorf("%d containers", n)
	}
	w := hcp.Workspace("net-lb")
	if len(hcp.Workspaces()) != 2 || len(w.Runs) != 2 {
		t.Errorf("workspaces %v, %d runs", hcp.Workspaces(), len(w.Runs))
	}
	found := false
	for _, v := range w.Variables {
		found = found || v.Key == "PASSWORD" && v.Sensitive && v.Value == "secret-of-the-provider"
	}
	if !found {
		t.Errorf("the workspace has the variables %+v", w.Variables)
	}
	c.untilIdle() // a notification may have come late
	before := hcp.Requests()
	if answer := c.tick(); !answer.Idle || len(hcp.Requests()) != len(before) {
		t.Errorf("an idle tick: %+v, %d requests of HCP Terraform", answer, len(hcp.Requests())-len(before))
	}
	out, err := c.terrapulse("doctor", "-stack=e2e")
	if err != nil || !strings.Contains(out, "hcp terraform") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, secret := range []string{hcp.Token, "key-of-notifications", "secret-of-the-provider"} {
		for _, text := range []string{c.lambda.logs(c.reconcile), c.lambda.logs(c.notification)} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in a log", secret)
			}
		}
	}
	c.noSecretsInTheTable(hcp.Token, "key-of-notifications", "secret-of-the-provider")

	resp, err := http.Post(c.notificationURL(), "application/json", strings.NewReader(`{"run_id":"run-1"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a notification that is not signed gets status %d", resp.StatusCode)
	}
}

// A what-if is answered by speculative runs, which the function starts and awaits.
func TestHCP_FunctionAnswersAWhatIf(t *testing.T) {
	t.Parallel()
	c, hcp := deployHCP(t)
	c.module("")
	c.hcpTasks(hcp, "", "lb")
	c.register("web-2", 8081)
	c.mustPush()
	c.scheduled("it is applied", func() bool { return strings.Contains(c.out("lb"), "web-2") && len(c.runs("lb")) == 1 })
	c.untilIdle()
	before := len(hcp.Workspace("net-lb").Runs)
	out, err := c.terrapulse("invoke", "-stack=e2e", "-inspect", "-without", "instance=web-2", "-wait")
	for _, words := range []string{"### Task lb", "1 task: 1 would be applied"} {
		if err != nil || !strings.Contains(out, words) {
			t.Errorf("want %q: %v\n%s", words, err, out)
		}
	}
	w := hcp.Workspace("net-lb")
	if last := w.Runs[len(w.Runs)-1]; len(w.Runs) != before+1 || !last.PlanOnly || !strings.Contains(c.out("lb"), "web-2") {
		t.Errorf("of %d runs, the last is speculative: %v; applied is %q", len(w.Runs), last.PlanOnly, c.out("lb"))
	}
}

// The function is killed after HCP Terraform has created the run, and before it knows that.
func TestHCP_InvocationThatIsKilledLeavesOneRun(t *testing.T) {
	t.Parallel()
	c, hcp := deployHCP(t)
	c.module("")
	c.hcpTasks(hcp, "", "lb")
	release := make(chan struct{})
	hcp.Fail(hcptest.Fault{Request: "POST runs", After: true, Lost: true, Hold: release})
	if out, err := c.bundlePush(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.invoke(`{"mode":"reconcile"}`)
	}()
	hcp.AwaitRequest("POST runs", 1)
	c.lambda.kill(c.reconcile)
	<-done
	close(release)
	run := hcp.AwaitRun("net-lb", 1)
	hcp.Await(run.ID, "planned")
	c.tickUntil("applied", func() bool {
		runs := c.runs("lb")
		return len(runs) > 0 && runs[len(runs)-1].State == state.RunSucceeded
	})
	if runs := c.runs("lb"); len(runs) != 2 || runs[0].State != state.RunLost || c.out("lb") != "web-1:8080" {
		t.Errorf("%+v", runs)
		t.Logf("%s", c.lambda.logs(c.reconcile))
	}
	if w := hcp.Workspace("net-lb"); len(w.Runs) != 1 {
		t.Errorf("%d runs in HCP Terraform", len(w.Runs))
	}
}

// People follow the output of a run while HCP Terraform applies, and what it has in the end
// begins with what they have read.
func TestHCP_OutputIsShownWhileTheRunGoesOn(t *testing.T) {
	t.Parallel()
	c, hcp := deployHCP(t)
	goOn := filepath.Join(t.TempDir(), "go-on")
	c.module(`
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "echo the password is $PASSWORD; until test -e ` + goOn + `; do sleep 0.05; done"
  }
}
`)
	c.hcpTasks(hcp, "", "lb")
	c.mustPush()
	var shown apispec.RunsResponse
	c.tickUntil("it waits for the apply", func() bool {
		c.get("/v1/tasks/lb/runs", &shown)
		return len(shown.Runs) == 1 && shown.Runs[0].Wait != nil && shown.Runs[0].Wait.For == apispec.WaitForRemote
	})
	run := shown.Runs[0]
	var read apispec.RunOutputResponse
	c.until("the apply has printed", func() bool {
		c.get("/v1/tasks/lb/runs/"+run.ID+"/output", &read)
		return strings.Contains(read.Output, "the password is")
	})
	if read.Ended || read.Remote == nil || strings.Contains(read.Output, "secret-of-the-provider") || !strings.Contains(read.Output, "was created in the workspace net-lb") {
		t.Errorf("the output while the run goes on is %+v", read)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.tickUntil("it has succeeded", func() bool {
		runs := c.runs("lb")
		return len(runs) == 1 && runs[0].State == state.RunSucceeded
	})
	var whole apispec.RunOutputResponse
	c.get("/v1/tasks/lb/runs/"+run.ID+"/output", &whole)
	if !whole.Ended || !strings.HasPrefix(whole.Output, strings.TrimRight(read.Output, "\n")) || !strings.Contains(whole.Output, "Apply complete!") {
		t.Errorf("the whole output is\n%s\nand while the run went on\n%s", whole.Output, read.Output)
	}
	c.noSecretsInTheTable("secret-of-the-provider")
}
