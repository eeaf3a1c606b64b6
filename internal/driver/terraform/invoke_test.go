package terraform_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

const invokes = `
variable "services" {}
variable "name" {}
variable "password" { sensitive = true }

action "local_command" "note" {
  config {
    command   = "touch"
    arguments = ["${path.module}/${var.name}", "${path.module}/${var.password}"]
  }
}
resource "terraform_data" "web" {
  input = var.name
  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.local_command.note]
    }
  }
}
`

// The person who approves a plan must see what it does besides resources, and approves that alone.
func TestTerraform_PlanHasTheActionsThatItInvokes(t *testing.T) {
	program := testtools.Terraform(t)
	v, err := terraformcli.Version(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	if v.LessThan(version.Must(version.NewVersion("1.14.0"))) || os.Getenv("TERRAPULSE_TEST_ENGINE") == "tofu" {
		t.Skip("it has no actions")
	}
	s := newTask(t, program, invokes)
	const address = "module.web.action.local_command.note"
	plan, found := s.plan()
	if r := found[address]; r.Action != driver.Invoke || r.Type != "local_command" || plan.Changes.Add != 1 || len(plan.Changes.Resources) != 2 {
		t.Errorf("the plan is %+v", plan)
	}
	var judged driver.Plan
	s.job.Judge = func(ctx context.Context, p driver.Plan) (err error) {
		if len(p.Changes.Resources) != 2 || p.Changes.Resources[0].Address != address {
			t.Errorf("the judge gets the changes %+v", p.Changes)
		}
		judged, err = p.Detail(ctx)
		return err
	}
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
		t.Fatalf("%v\n%s", err, s.out.String())
	}
	if judged.Digest != plan.Digest {
		t.Errorf("the judge got the digest %s, want %s", judged.Digest, plan.Digest)
	}
	if _, err := os.Stat(filepath.Join(s.job.Task.Module, "one")); errors.Is(err, os.ErrNotExist) {
		t.Error("the action was not invoked")
	}

	other := newTask(t, program, strings.Replace(invokes, `"touch"`, `"rm"`, 1))
	if plan, _ := other.plan(); plan.Digest == judged.Digest {
		t.Error("a plan that invokes something else has the same digest")
	}
}
