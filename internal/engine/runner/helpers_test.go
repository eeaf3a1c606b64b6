package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/environ"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// noon lies in the future: the store removes what expired by the real clock.
var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

// catalog is a Consul that shows a digest, or fails.
type catalog struct{ err error }

func (catalog) Identify(context.Context, string) (state.Identity, error) {
	return state.Identity{}, nil
}

func (c catalog) Snapshot(context.Context, *config.Task) (*consul.Snapshot, error) {
	if c.err != nil {
		return nil, c.err
	}
	return &consul.Snapshot{Condition: consul.Observation{Digest: "B", Elements: map[string]string{"web-1": "x"}}}, nil
}

// applier stands in for Terraform.
type applier func(ctx context.Context, out io.Writer) (*state.Changes, error)

// fake is a driver that calls functions.
type fake struct {
	driver.Driver
	apply, plan applier
	unsaved     *state.Unsaved
}

func (f fake) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	changes, err := f.apply(ctx, job.Output)
	return driver.Outcome{Changes: changes, Unsaved: f.unsaved}, err
}

func (f fake) Plan(ctx context.Context, job driver.Job) (driver.Plan, error) {
	changes, err := f.plan(ctx, job.Output)
	return driver.Plan{Changes: changes, Text: "the plan"}, err
}

func succeed(_ context.Context, out io.Writer) (*state.Changes, error) {
	fmt.Fprintln(out, "Apply complete!")
	return &state.Changes{Add: 1, Resources: []state.Resource{{Address: "local_file.a", Action: "create"}}}, nil
}

func fail(context.Context, io.Writer) (*state.Changes, error) {
	return nil, errors.New("module is broken")
}

// fixture is a runner with a store that holds one task whose run is decided.
type fixture struct {
	*Runner
	t      *testing.T
	store  *statetest.Faulty
	launch state.Launch
	log    *testtools.Output
}

func newFixture(t *testing.T, apply applier) *fixture {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	cfg := &config.Config{Tasks: []config.Task{{Name: "web", Enabled: true,
		Condition: config.Condition{Spec: condition.Services{{Names: []string{"web"}}}}}}}
	b := &fixture{t: t, store: &statetest.Faulty{Store: store}, log: &testtools.Output{}}
	b.Runner = &Runner{
		Config: func() *config.Config { return cfg }, Source: new(overlay.Source), Store: b.store, Consul: catalog{}, Driver: fake{apply: apply},
		Owner: "here", Claim: time.Minute, Now: func() time.Time { return noon },
		Log: slog.New(slog.NewTextHandler(b.log, nil)), Patience: 5 * time.Second, Environ: environ.Shared, Verify: verify.Run,
	}
	b.intend("r1", state.Task{Observed: state.Observed{Digest: "B", At: noon}, Applied: state.Applied{Digest: "A", At: noon.Add(-time.Hour)}})
	return b
}

// planned is a run of the one task that there is.
func (b *fixture) planned(id string) []state.PlannedRun {
	cfg := b.Config()
	return []state.PlannedRun{{ID: id, Task: "web", Definition: cfg.Tasks[0].Digest(cfg)}}
}

// intend writes a run as a leader does.
func (b *fixture) intend(id string, task state.Task) {
	b.t.Helper()
	b.launch = state.Launch{ID: "l-" + id, Kind: state.KindApply, Fence: 1, Runs: b.planned(id)}
	task.Run = &state.LiveRun{ID: id, Launch: b.launch.ID, Created: noon}
	was, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey("web"))
	if err != nil {
		b.t.Fatal(err)
	}
	run := state.Run{ID: id, Task: "web", Kind: state.KindApply, Launch: b.launch.ID, Fence: 1, State: state.RunIntended, Created: noon}
	if _, err := b.store.Apply(b.t.Context(), was.Write(task), state.Create(state.RunKey("web", id), state.Encode(run))); err != nil {
		b.t.Fatal(err)
	}
}

// run carries out the intended run.
func (b *fixture) run(ctx context.Context) error {
	return b.Run(ctx, b.launch, b.launch.Runs[0])
}

func (b *fixture) task() state.Task {
	b.t.Helper()
	task, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey("web"))
	if err != nil {
		b.t.Fatal(err)
	}
	return task.Data
}

// set replaces the record of the task.
func (b *fixture) set(task state.Task) {
	b.t.Helper()
	was, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey("web"))
	if err == nil {
		_, err = b.store.Apply(b.t.Context(), was.Write(task))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) stored(id string) state.Run {
	b.t.Helper()
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey("web", id))
	if err != nil {
		b.t.Fatal(err)
	}
	return run.Data
}

// giveUp settles the run as lost, as a leader does.
func (b *fixture) giveUp(id string) {
	b.t.Helper()
	ctx := context.Background()
	task, err := state.Read[state.Task](ctx, b.store, state.TaskKey("web"))
	if err != nil {
		b.t.Error(err)
		return
	}
	run, err := state.Read[state.Run](ctx, b.store, state.RunKey("web", id))
	if err != nil {
		b.t.Error(err)
		return
	}
	lost := run.Data
	lost.State, lost.Ended, lost.Error = state.RunLost, noon, "no sign of life"
	next, _ := task.Data.Conclude(lost, "")
	_, err = b.store.Apply(ctx, run.Write(lost), task.Write(next))
	if errors.As(err, new(*state.ConflictError)) { // the claim was renewed meanwhile
		b.giveUp(id)
	} else if err != nil {
		b.t.Error(err)
	}
}

// cancel cancels the run, as Control does: a renewal of the claim may come between.
func (b *fixture) cancel(ctx context.Context, id, by string) error {
	for {
		run, err := state.Read[state.Run](ctx, b.store, state.RunKey("web", id))
		if err != nil {
			return err
		}
		next := run.Data
		next.Cancel = by
		if _, err = b.store.Apply(ctx, run.Write(next)); !errors.As(err, new(*state.ConflictError)) {
			return err
		}
	}
}

// writes reports whether the changes write a record whose key begins so, with
// a value that holds text.
func writes(changes []state.Change, key, text string) bool {
	for _, c := range changes {
		if strings.HasPrefix(c.Key, key) && strings.Contains(string(c.Value), text) {
			return true
		}
	}
	return false
}

// intendNext intends one more run of the task as it is.
func (b *fixture) intendNext(id string) { b.intend(id, b.task()) }

// hang is an apply that goes on until it is interrupted.
func hang(ctx context.Context, _ io.Writer) (*state.Changes, error) {
	<-ctx.Done()
	return nil, &terraformcli.InterruptedError{Command: terraformcli.Command{Task: "web", Name: "apply"}, Cause: context.Cause(ctx)}
}
