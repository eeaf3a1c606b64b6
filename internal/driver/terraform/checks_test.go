package terraform_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// checkedModule has a check that fails as long as a file says so, and another one that passes.
const checkedModule = `
variable "services" { default = {} }
variable "name" {}
variable "password" { sensitive = true }
resource "terraform_data" "vip" {
  input = var.name
}
check "vip" {
  assert {
    condition     = trimspace(file("${path.module}/vip.txt")) == "up"
    error_message = "the VIP of ${terraform_data.vip.output} is down"
  }
}
check "fine" {
  assert {
    condition     = terraform_data.vip.output != ""
    error_message = "no VIP"
  }
}
`

func TestTerraform_SaysWhichCheckBlocksFail(t *testing.T) {
	s := newTask(t, testtools.Terraform(t), checkedModule)
	vip := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.job.Task.Module, "vip.txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	apply := func(when, want string) {
		t.Helper()
		done, err := s.driver.Apply(t.Context(), s.job)
		if err != nil || done.Checks == nil {
			t.Fatalf("%s: %v, %v\n%s", when, done.Checks, err, s.out.String())
		}
		if got := fmt.Sprint(done.Checks.Failing, done.Checks.Unknown, done.Checks.Err); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	const fails, passes = "[module.web.check.vip: the VIP of one is down] [] <nil>", "[] [] <nil>"
	vip("down")
	apply("in the first apply", fails)
	apply("in an apply without changes", fails)
	vip("up")
	apply("when it passes again, without changes", passes)
	s.job.ChecksRequired = true
	apply("when the state is read for it", passes)

	s.job.Judge = func(context.Context, driver.Plan) error { return nil }
	vip("down")
	apply("in a plan without changes, that is judged", fails)
	s.module(strings.Replace(checkedModule, "input = var.name", `input = "${var.name}"
  triggers_replace = 1`, 1))
	s.job.ChecksRequired = false
	apply("in a plan with changes, that is judged", fails)
	vip("up")
	apply("in a judged plan, when it passes again", passes)

	s.module(module)
	s.job.Judge, s.job.ChecksRequired = nil, true
	apply("in a module without check blocks", passes)
}
