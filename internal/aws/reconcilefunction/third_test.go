package reconcilefunction

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/drivertest"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

// A driver that is only registered is executed by the function, without a container.
func TestExecute_RunsOfARegisteredDriverNeedNoContainer(t *testing.T) {
	t.Setenv("OFFICE_TOKEN", "secret-of-the-office")
	office := drivertest.Serve("function", "secret-of-the-office")
	s := newStack(t, "web")
	s.configs["b1"] = configtest.Load(t, t.TempDir(), "tasks.hcl", `
driver "bureau" {
  office = "function"
  token = "{{ env \"OFFICE_TOKEN\" }}"
}
task {
  name = "web"
  module = "example/web/aws"
  condition "services" { names = ["web"] }
}
`)
	h := s.process()
	h.executor.drivers = remotes.All(func(*remotes.Kind) remotes.Options { return remotes.Options{Token: tokens{}.read} })
	h.executor.runner = &runner.Runner{Store: s.store, Owner: h.engine.common.Owner, Claim: claimFor, Patience: recordFor, Ended: h.ended, Now: time.Now, Said: h.engine.common.Said}
	h.executor.connect = func(context.Context, config.Consul) (runner.Consul, *runner.Supposer, error) {
		return s, s.supposer, nil
	}
	waits := func(what state.WaitFor) {
		t.Helper()
		s.must(h, due)
		if run := s.run("web"); run.State != state.RunWaiting || run.Wait.For != what {
			t.Fatalf("%s %+v %s", run.State, run.Wait, run.Error)
		}
	}
	waits(state.WaitRemotePlan)
	office.Advance()
	waits(state.WaitRemote)
	request := fmt.Sprintf(`{"mode":"output","tasks":["web"],"run":%q}`, s.run("web").ID)
	if answer := s.must(h, request); answer.Output != "The office is applying.\n" || answer.Problem != "" {
		t.Errorf("the answer is %+v", answer)
	}
	office.Advance()
	s.must(h, due)
	if run := s.run("web"); run.State != state.RunSucceeded || len(s.started) != 0 {
		t.Errorf("%s %s, after %d containers", run.State, run.Error, len(s.started))
	}
	for _, check := range s.must(h, `{"mode":"doctor"}`).Checks {
		if check.Name == "the bureau" {
			if check.Found != "the office answers" {
				t.Errorf("the check is %+v", check)
			}
			return
		}
	}
	t.Error("no check of the bureau")
}
