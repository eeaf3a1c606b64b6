package terraform_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// changesModule writes what it gets into a file.
const changesModule = `
variable "services" {}
variable "name" {}
variable "password" {}
variable "changes" {
  type = object({
    added   = optional(list(string), [])
    removed = set(string)
  })
  default = { removed = [] }
}
resource "local_file" "changes" {
  filename = "${path.module}/changes.json"
  content  = jsonencode(var.changes)
}
`

func TestTerraform_ModuleThatDeclaresChangesGetsThem(t *testing.T) {
	s := newTask(t, testtools.Terraform(t), changesModule)
	apply := func(names consul.Names, want string) {
		t.Helper()
		s.job.Changes = names
		if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
			t.Fatalf("%v\n%s", err, s.out.String())
		}
		got, err := os.ReadFile(filepath.Join(s.job.Task.Module, "changes.json"))
		if err != nil || string(got) != want {
			t.Errorf("the module got %s (%v), want %s", got, err, want)
		}
	}
	if errs := s.driver.Check(s.job.Config, s.job.Task); len(errs) > 0 {
		t.Error(errs)
	}
	apply(consul.Names{Added: []string{`cfg/"${a}"`, "web-1.n1.dc1"}, Changed: []string{"web-2.n1.dc1"}}, `{"added":["cfg/\"${a}\"","web-1.n1.dc1"],"removed":[]}`)
	apply(consul.Names{Removed: []string{"web-3.n1.dc1"}}, `{"added":[],"removed":["web-3.n1.dc1"]}`)
	apply(consul.Names{}, `{"added":[],"removed":[]}`)

	if _, err := s.driver.Destroy(t.Context(), s.job); err != nil {
		t.Error(err)
	}
}
