package hcp_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/hcp"
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
	s.module(keyedModule)
	s.next("run0")
	s.name("one")
	s.succeeds()
	const all = `module.web.terraform_data.keyed["a.b"] module.web.terraform_data.keyed["c"] module.web.terraform_data.named`
	if made := strings.Join(s.done.Made, " "); made != all {
		t.Errorf("the task has %s, want %s", made, all)
	}
	s.next("run1")
	s.name("two") // an update: the addresses stay
	s.succeeds()
	if s.done.Made != nil {
		t.Errorf("after an update, the state was read again: %s", s.done.Made)
	}
	s.next("run2")
	s.module(module)
	s.succeeds()
	if made := strings.Join(s.done.Made, " "); made != "module.web.terraform_data.named" {
		t.Errorf("with a smaller module, the task has %s", made)
	}
}

// TestDriver_RelativeAddressesAreThoseOfTheServer has a server that answers with addresses of uploads, outputs and
// states without its own.
func TestDriver_RelativeAddressesAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.With(hcptest.RelativeAddresses))
	s.succeeds()
	if len(s.done.Made) != 1 {
		t.Errorf("the task has %v", s.done.Made)
	}
	contains(t, s.out.String(), "Apply complete! Resources: 1 added")
}

// unadorned is an API that answers with no state and no output. It keeps how long each such call would have waited.
type unadorned struct {
	hcp.API
	waits map[string]time.Duration
	until map[time.Time]bool
}

func (a *unadorned) wait(ctx context.Context, call string) error {
	if until, limited := ctx.Deadline(); limited { // the results of check blocks are read without a limit: they decide something
		a.waits[call], a.until[until] = time.Until(until), true
	}
	return context.DeadlineExceeded
}

func (a *unadorned) State(ctx context.Context, _ string) (hcp.State, error) {
	return hcp.State{}, a.wait(ctx, "State")
}

func (a *unadorned) Log(ctx context.Context, _ string) ([]byte, error) {
	return nil, a.wait(ctx, "Log")
}

// TestDriver_OutcomeDoesNotWaitForWhatOnlyAdornsIt allows all of it one deadline, 10 seconds away at most.
func TestDriver_OutcomeDoesNotWaitForWhatOnlyAdornsIt(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.planned()
	hold := s.hcp.Hold("applying")
	s.waits(state.WaitRemote)
	hold.Release()
	s.poll(state.RemoteEnded)
	api := &unadorned{waits: map[string]time.Duration{}, until: map[time.Time]bool{}}
	s.driver = hcp.New(hcp.Options{Connect: func(c hcp.Connection) (_ hcp.API, err error) {
		api.API, err = hcp.NewClient(c)
		return api, err
	}})
	if done, err := s.driver.Apply(t.Context(), s.job); err != nil || !done.Changes.Any() || done.Made != nil {
		t.Errorf("the run has changed %+v, and the task has %v: %v", done.Changes, done.Made, err)
	}
	contains(t, s.out.String(), "Terraform's output cannot be read from HCP Terraform")
	for _, call := range []string{"State", "Log"} {
		if wait := api.waits[call]; wait <= 0 || wait > 10*time.Second {
			t.Errorf("%s waits for %s", call, wait)
		}
	}
	if len(api.until) != 1 {
		t.Errorf("there are several deadlines: %v", api.until)
	}
}

func TestDriver_ResourcesThatCannotBeReadFailNothing(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.hcp.Restrict(s.hcp.Token, hcptest.Rights{NoState: true})
	s.next("run0")
	s.name("one")
	s.succeeds()
	if s.done.Made != nil {
		t.Errorf("the task has %s, which the token may not read", s.done.Made)
	}
}
