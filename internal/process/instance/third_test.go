package instance

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/drivertest"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

// dataOf is a Consul whose conditions all show the same.
type dataOf struct{ digest string }

func (d *dataOf) Observe(_ context.Context, queries []consul.Query) []consul.Answer {
	answers := make([]consul.Answer, len(queries))
	for i := range answers {
		answers[i].Digest = d.digest
	}
	return answers
}

func (d *dataOf) Poll(_ context.Context, gates consul.GateSet) (consul.Marks, error) {
	marks := consul.Marks{}
	for _, key := range gates.Keys() {
		marks[key] = d.digest
	}
	return marks, nil
}

func (*dataOf) Identify(context.Context, string) (state.Identity, error) {
	return state.Identity{}, nil
}

func (d *dataOf) Snapshot(context.Context, *config.Task) (*consul.Snapshot, error) {
	return &consul.Snapshot{Condition: consul.Observation{Digest: d.digest}}, nil
}

// A driver that is only registered passes through the engine, from the task file on.
func TestCarry_RegisteredDriverAppliesIsApprovedAndIsStopped(t *testing.T) {
	t.Setenv("OFFICE_TOKEN", "secret-of-the-office")
	cfg := configtest.Load(t, t.TempDir(), "tasks.hcl", `
driver "bureau" {
  office = "carry"
  token = "{{ env \"OFFICE_TOKEN\" }}"
}
task {
  name = "web"
  module = "example/web/aws"
  approval = "always"
  buffer_period { enabled = false }
  condition "services" { names = ["web"] }
}
`)
	office, log := drivertest.Serve("carry", "secret-of-the-office"), slog.New(slog.DiscardHandler)
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		wait, stop := Carry(ctx, cfg, 0, log)
		defer stop()
		carrier, err := wait()
		if err != nil {
			t.Fatal(err)
		}
		store := statetest.NewMemory()
		defer store.Close()
		data, owner := &dataOf{"A"}, lease.NewOwner()
		configuration := func() *config.Config { return cfg }
		r := &runner.Runner{Config: configuration, Store: store, Consul: data, Driver: carrier.Driver, Owner: owner, Claim: time.Minute, Now: time.Now, Log: log}
		launcher := launch.NewLocal(ctx, carrier.Parallel, log, r.Run)
		engine := &reconcile.Reconciler{Config: cfg, Store: store, Consul: data, Launcher: launcher, Remote: carrier.Remote, Owner: owner, LeaseTTL: time.Minute, Now: time.Now, Log: log}
		people := &control.Control{Store: store, Now: time.Now, Base: func(context.Context) (*config.Config, error) { return cfg, nil }}
		tick := func() state.Task {
			t.Helper()
			time.Sleep(10 * time.Second) // when remote runs are polled
			if _, err := engine.Tick(ctx, reconcile.TickOptions{Ended: true}); err != nil {
				t.Fatal(err)
			}
			launcher.Wait()
			task, err := state.Read[state.Task](ctx, store, state.TaskKey("web"))
			if err != nil {
				t.Fatal(err)
			}
			return task.Data
		}
		waits := func(what state.WaitFor) {
			t.Helper()
			if task := tick(); task.Waits() == nil || task.Waits().For != what {
				t.Fatalf("the task does not wait for %s: %+v %s", what, task.Run, task.Reason.Text)
			}
		}

		waits(state.WaitRemotePlan)
		office.Advance()
		waits(state.WaitApproval)
		if err := people.Approve(ctx, "web", "", identity.Identity{Name: "Jo"}, ""); err != nil {
			t.Fatal(err)
		}
		waits(state.WaitRemote)
		run := latest(t, store)
		if text, err := carrier.Output(ctx, cfg, run); err != nil || text != "The office is applying.\n" {
			t.Errorf("the output is %q: %v", text, err)
		}
		office.Advance()
		if task := tick(); task.Applied.Digest != "A" || task.Run != nil {
			t.Fatalf("after the apply: %+v", task)
		}

		data.digest = "B"
		waits(state.WaitRemotePlan)
		data.digest = "C" // the run of B is stopped for that of C
		office.Advance()
		tick()
		waits(state.WaitRemotePlan)
		office.Advance()
		waits(state.WaitApproval)
		id := latest(t, store).Remote.ID
		if err := office.ConfirmBy(id, "Ann"); err != nil {
			t.Fatal(err)
		}
		waits(state.WaitRemote)
		if a := latest(t, store).Approval; a == nil || a.By != "Ann" {
			t.Errorf("approved by %+v", a)
		}
		office.Advance()
		if task := tick(); task.Applied.Digest != "C" {
			t.Errorf("after the apply: %+v", task)
		}

		data.digest = "D"
		waits(state.WaitRemotePlan)
		if _, err := people.Cancel(ctx, "web", "Jo"); err != nil {
			t.Fatal(err)
		}
		tick()
		if task := tick(); task.GivenUp() != nil {
			t.Errorf("the remote run is not stopped: %+v", task.RemoteRun)
		}
		if now, err := office.Latest(ctx, "web"); err != nil || now.Result != drivertest.Discarded {
			t.Errorf("the cancelled run is %+v there: %v", now, err)
		}
	})
}

// latest returns the latest run of the task.
func latest(t *testing.T, store state.Store) state.Run {
	t.Helper()
	runs, err := state.ReadAll[state.Run](t.Context(), store, state.RunPrefix("web"))
	if err != nil || len(runs) == 0 {
		t.Fatal(len(runs), err)
	}
	return runs[len(runs)-1].Data
}

func TestBystander_RegisteredDriverPlans(t *testing.T) {
	cfg := configtest.Load(t, t.TempDir(), "tasks.yaml", `
driver: {bureau: {office: bystander}}
task: [{name: web, module: example/web/aws, condition: {services: {names: [web]}}}]
`)
	office := drivertest.Serve("bystander", "")
	synctest.Test(t, func(t *testing.T) {
		d, workers, err := Bystander(t.Context(), cfg, 0, slog.New(slog.DiscardHandler))
		if err != nil || workers != remoteSteps {
			t.Fatal(workers, err)
		}
		if found := driver.CheckAll(Checker(cfg), cfg); len(found) > 0 {
			t.Error(found)
		}
		time.AfterFunc(time.Minute, office.Advance)
		plan, err := d.Plan(t.Context(), driver.Job{Config: cfg, Task: &cfg.Tasks[0], Snapshot: &consul.Snapshot{Condition: consul.Observation{Digest: "A"}}, Output: io.Discard})
		if err != nil || plan.Changes.Change != 1 {
			t.Errorf("%+v: %v", plan, err)
		}
	})
}
