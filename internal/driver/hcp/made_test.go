package hcp_test

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
)

const keyedModule = module + `
resource "terraform_data" "keyed" {
  for_each = toset(["a.b", "c"])
  input    = each.key
}
`

func TestDriver_SaysWhichResourcesATaskHas(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	made := "nothing was said"
	s.job.Made = func(addresses []string) { made = strings.Join(addresses, " ") }
	s.module(keyedModule)
	s.next("run0")
	s.name("one")
	s.succeeds()
	const all = `module.web.terraform_data.keyed["a.b"] module.web.terraform_data.keyed["c"] module.web.terraform_data.named`
	if made != all {
		t.Errorf("the task has %s, want %s", made, all)
	}
	made = "nothing was said"
	s.next("run1")
	s.name("two") // an update: the addresses stay
	s.succeeds()
	if made != "nothing was said" {
		t.Errorf("after an update, the state was read again: %s", made)
	}
	s.next("run2")
	s.module(module)
	s.succeeds()
	if made != "module.web.terraform_data.named" {
		t.Errorf("with a smaller module, the task has %s", made)
	}
}

func TestDriver_ResourcesThatCannotBeReadFailNothing(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.job.Made = func(addresses []string) { t.Errorf("the task has %s, which the token may not read", addresses) }
	s.hcp.Restrict(s.hcp.Token, hcptest.Rights{NoState: true})
	s.next("run0")
	s.name("one")
	s.succeeds()
}
