package hcp_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/state"
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

// TestDriver_RelativeAddressesAreThoseOfTheServer has a server that answers with addresses of uploads, outputs and
// states without its own.
func TestDriver_RelativeAddressesAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.With(hcptest.RelativeAddresses))
	var made []string
	s.job.Made = func(addresses []string) { made = addresses }
	s.succeeds()
	if len(made) != 1 {
		t.Errorf("the task has %v", made)
	}
	contains(t, s.out.String(), "Apply complete! Resources: 1 added")
}

// TestDriver_OutcomeDoesNotWaitForWhatOnlyAdornsIt has a server that never answers with a state or an output.
func TestDriver_OutcomeDoesNotWaitForWhatOnlyAdornsIt(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Made = func(addresses []string) { t.Errorf("the task has %s", addresses) }
	s.planned()
	hold := s.hcp.Hold("applying")
	s.waits(state.WaitRemote)
	hold.Release()
	s.poll(state.RemoteEnded)
	never := make(chan struct{})
	defer close(never)
	for _, request := range []string{"GET signed/log-*", "GET signed/state-*", "GET workspaces/*/current-state-version"} {
		s.hcp.Fail(hcptest.Fault{Request: request, Times: -1, Hold: never})
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if changes, err := s.driver.Apply(ctx, s.job); err != nil || !changes.Any() {
		t.Errorf("the run has changed %+v: %v", changes, err)
	}
	contains(t, s.out.String(), "Terraform's output cannot be read from HCP Terraform")
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
