package hcptest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
)

func TestTerraform_GetsTheVariablesOfTheWorkspace(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	ws := c.workspace("web", nil)
	c.must(201, "POST", "workspaces/"+ws+"/vars", data("vars", object{"key": "SECRET", "value": "s3cret", "category": "env", "sensitive": true}))
	c.SetVariable("web", hcptest.Variable{Key: "value", Value: "${shadowed}", Category: "terraform"})
	c.SetVariable("web", hcptest.Variable{Key: "list", Value: `["a"]`, Category: "terraform", HCL: true})
	secret := filepath.Join(t.TempDir(), "secret")
	all := files("one")
	all["more.tf"] = `variable "list" {}
resource "terraform_data" "more" {
  input = var.list[0]
  provisioner "local-exec" {
    command = "printf %s \"$SECRET\" > ` + secret + `"
  }
}
`
	run := c.run(ws, c.upload(ws, nil, all), object{"auto-apply": true})
	c.Await(run, "applied")
	if state := string(c.Workspace("web").State); !strings.Contains(state, "${shadowed}") {
		t.Errorf("the state is %s", state)
	}
	if got, err := os.ReadFile(secret); string(got) != "s3cret" {
		t.Errorf("the variable of the environment is %q, %v", got, err)
	}
	for _, v := range c.must(200, "GET", "workspaces/"+ws+"/vars", nil)["data"].([]any) {
		if at(v, "attributes.key") == "SECRET" && at(v, "attributes.value") != nil {
			t.Error("a sensitive value is shown")
		}
	}
	// A list of structured logs has one JSON object a line.
	doc := c.must(200, "GET", "runs/"+run+"?include=plan", nil)
	if log := c.get(at(doc, "included.attributes.log-read-url").(string)); !strings.Contains(log, "\n{\"@level\"") {
		t.Errorf("the log is %q", log)
	}
}

func TestTerraform_CancelledApplyKeepsItsState(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	ws := c.workspace("web", nil)
	mark := filepath.Join(t.TempDir(), "started")
	all := files("one")
	all["slow.tf"] = `resource "terraform_data" "slow" {
  depends_on = [terraform_data.kept]
  provisioner "local-exec" {
    command = "touch ` + mark + ` && exec sleep 600"
  }
}
`
	run := c.run(ws, c.upload(ws, nil, all), object{"auto-apply": true})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(mark); err == nil {
			break
		}
	}
	c.Await(run, "applying")
	c.Cancel(run, "jane")
	if got := c.Await(run, "canceled", "errored", "applied"); got.Status != "canceled" || got.Decider != "jane" {
		t.Errorf("the run is %+v", got)
	}
	if got := c.Workspace("web"); got.LockedBy != "" || !strings.Contains(string(got.State), "terraform_data") {
		t.Errorf("the workspace is %+v", got)
	}
	c.must(409, "POST", "workspaces/"+ws+"/actions/safe-delete", nil)
}

func TestTerraform_FailedApplyIsErrored(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	ws := c.workspace("web", nil)
	all := files("one")
	all["broken.tf"] = `resource "terraform_data" "broken" {
  provisioner "local-exec" {
    command = "exit 7"
  }
}
`
	run := c.run(ws, c.upload(ws, nil, all), object{"auto-apply": true})
	c.Await(run, "errored")
	doc := c.must(200, "GET", "runs/"+run+"?include=apply", nil)
	if status := at(doc, "included.attributes.status"); status != "errored" {
		t.Errorf("the apply is %v", status)
	}
	if log := c.get(at(doc, "included.attributes.log-read-url").(string)); !strings.Contains(log, "exit status 7") {
		t.Errorf("the log is %q", log)
	}
	c.Await(c.run(ws, c.upload(ws, nil, files("two")), nil), "planned") // the workspace is free again
}
