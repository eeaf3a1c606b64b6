package terraform_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// fewer is the module with a resource less, and others with other keys.
const fewer = `
variable "services" {}
variable "name" {}
variable "password" { sensitive = true }
data "local_file" "self" {
  filename = "${path.module}/main.tf"
}
resource "terraform_data" "settings" {
  input            = var.name
  triggers_replace = length(data.local_file.self.content)
}
resource "terraform_data" "named" {
  for_each = toset(["a.b", "data.x"])
  input    = each.key
}
`

func TestTerraform_SaysWhichResourcesATaskHas(t *testing.T) {
	for name, program := range map[string]func(testing.TB) string{"terraform": testtools.Terraform, "tofu": testtools.OpenTofu} {
		for _, judged := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " with a judge", false: ""}[judged], func(t *testing.T) {
				s := newTask(t, program(t), module)
				made := func(done driver.Outcome) string { return strings.Join(slices.Sorted(slices.Values(done.Made)), " ") }
				if judged {
					s.job.Judge = func(context.Context, driver.Plan) error { return nil }
				}
				apply := func(want string) {
					t.Helper()
					if done, err := s.driver.Apply(t.Context(), s.job); err != nil || made(done) != want {
						t.Errorf("after an apply, the task has %s, want %s: %v\n%s", made(done), want, err, s.out.String())
					}
				}
				const all = `module.web.local_file.names module.web.local_sensitive_file.key module.web.terraform_data.named["(redacted)"] module.web.terraform_data.settings`
				apply(all)
				apply(all) // nothing has changed
				s.module(fewer)
				const others = `module.web.terraform_data.named["a.b"] module.web.terraform_data.named["data.x"] module.web.terraform_data.settings`
				apply(others)
				s.module(fewer + "\n# the resource is replaced")
				apply(others)
				if done, err := s.driver.Destroy(t.Context(), s.job); err != nil || done.Made == nil || made(done) != "" {
					t.Errorf("after a destroy, the task has %v: %v", done.Made, err)
				}
			})
		}
	}
}

func TestTerraform_SaysWhichResourcesAFailedApplyHasMade(t *testing.T) {
	s := newTask(t, testtools.Terraform(t), strings.ReplaceAll(module, `"${path.module}/names.txt"`, `"/proc/nothing/names.txt"`))
	done, err := s.driver.Apply(t.Context(), s.job)
	if made := strings.Join(done.Made, " "); err == nil || !strings.Contains(made, "module.web.terraform_data.settings") || strings.Contains(made, "local_file.names") {
		t.Errorf("after an apply that has failed, the task has %q: %v", made, err)
	}
}
