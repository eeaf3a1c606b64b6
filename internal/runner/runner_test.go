package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/sqlite"
	"github.com/terrapulse/terrapulse/internal/state/statetest"
	"github.com/terrapulse/terrapulse/internal/terraform"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// noon lies in the future: the store removes what expired by the real clock.
var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

// catalog is a Consul that shows a digest, or fails.
type catalog struct{ err error }

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
}

func (f fake) Apply(ctx context.Context, job driver.Job) (*state.Changes, error) {
	return f.apply(ctx, job.Output)
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

// bench is a runner with a store that holds one task whose run is decided.
type bench struct {
	*Runner
	t      *testing.T
	store  *statetest.Faulty
	launch state.Launch
	log    *testtools.Output
}

func newBench(t *testing.T, apply applier) *bench {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	cfg := &config.Config{Tasks: []config.Task{{Name: "web", Enabled: true,
		Condition: config.Condition{Spec: condition.Services{{Names: []string{"web"}}}}}}}
	b := &bench{t: t, store: &statetest.Faulty{Store: store}, log: &testtools.Output{}}
	b.Runner = &Runner{
		Config: func() *config.Config { return cfg }, Source: new(overlay.Source), Store: b.store, Consul: catalog{}, Driver: fake{apply: apply},
		Owner: "here", Claim: time.Minute, Now: func() time.Time { return noon },
		Log: slog.New(slog.NewTextHandler(b.log, nil)), Patience: 5 * time.Second,
	}
	b.intend("r1", state.Task{Observed: "B", ObservedAt: noon, Applied: "A", AppliedAt: noon.Add(-time.Hour)})
	return b
}

// planned is a run of the one task that there is.
func (b *bench) planned(id string) []state.PlannedRun {
	cfg := b.Config()
	return []state.PlannedRun{{ID: id, Task: "web", Definition: cfg.Tasks[0].Digest(cfg)}}
}

// intend writes a run as a leader does.
func (b *bench) intend(id string, task state.Task) {
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
func (b *bench) run(ctx context.Context) error {
	return b.Run(ctx, b.launch, b.launch.Runs[0])
}

func (b *bench) task() state.Task {
	b.t.Helper()
	task, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey("web"))
	if err != nil {
		b.t.Fatal(err)
	}
	return task.Data
}

func (b *bench) stored(id string) state.Run {
	b.t.Helper()
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey("web", id))
	if err != nil {
		b.t.Fatal(err)
	}
	return run.Data
}

// giveUp settles the run as lost, as a leader does.
func (b *bench) giveUp(id string) {
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

func TestASuccessfulRunMakesWhatItRenderedApplied(t *testing.T) {
	b := newBench(t, succeed)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if run.State != state.RunSucceeded || run.Digest != "B" || run.Owner != "here" || !run.Started.Equal(noon) || !run.Ended.Equal(noon) || run.Changes.Add != 1 {
		t.Errorf("the run reads %+v", run)
	}
	if task.Run != nil || task.Applied != "B" || !task.AppliedAt.Equal(noon) || !task.Recheck || task.Failures != 0 ||
		task.Definition != b.Config().Tasks[0].Digest(b.Config()) || task.Last.State != state.RunSucceeded {
		t.Errorf("the task reads %+v", task)
	}
	if text, err := state.LoadLog(t.Context(), b.store, "web", "r1"); err != nil || string(text) != "Apply complete!\n" || run.Logs != len(text) {
		t.Errorf("the output kept is %q (%v), %d bytes by its run", text, err, run.Logs)
	}
	inputs, err := state.LoadInputs(t.Context(), b.store, "web")
	if diff := cmp.Diff(map[string]string{"web-1": "x"}, inputs.Elements); err != nil || diff != "" {
		t.Errorf("the elements kept: %v %s", err, diff)
	}
}

func TestAFailedRunChangesNothingOfWhatIsApplied(t *testing.T) {
	for _, tt := range []struct {
		name   string
		consul catalog
		apply  applier
		text   string
	}{
		{"Terraform failed", catalog{}, fail, "module is broken"},
		{"Consul does not answer", catalog{errors.New("no cluster leader")}, succeed, "no cluster leader"},
		{"a fault in the program", catalog{}, func(context.Context, io.Writer) (*state.Changes, error) { panic("index out of range") }, "index out of range"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.apply)
			b.Consul = tt.consul
			if err := b.run(t.Context()); err != nil {
				t.Fatalf("a recorded failure is an error of Run: %v", err)
			}
			run, task := b.stored("r1"), b.task()
			if run.State != state.RunFailed || !strings.Contains(run.Error, tt.text) || run.Digest != "" {
				t.Errorf("the run reads %+v", run)
			}
			if task.Run != nil || task.Applied != "A" || task.Failures != 1 || !task.RetryAt.Equal(noon.Add(state.Backoff("web", 1))) {
				t.Errorf("the task reads %+v", task)
			}
			if inputs, _ := state.LoadInputs(t.Context(), b.store, "web"); inputs.Elements != nil {
				t.Errorf("the elements of what was not applied are kept: %v", inputs)
			}
		})
	}
}

func TestTheStackOfAPanicIsKeptWithTheRun(t *testing.T) {
	b := newBench(t, func(context.Context, io.Writer) (*state.Changes, error) { panic("index out of range") })
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, _ := state.LoadLog(t.Context(), b.store, "web", "r1"); !strings.Contains(string(text), "runner_test.go") {
		t.Errorf("the output kept is %q", text)
	}
}

func TestOfSeveralRunnersOneAppliesARun(t *testing.T) {
	var applies atomic.Int32
	b := newBench(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		applies.Add(1)
		return succeed(ctx, out)
	})
	var all sync.WaitGroup
	for i := range 8 {
		r := *b.Runner
		r.Owner = fmt.Sprintf("process %d", i/2) // also twice in one process
		all.Go(func() {
			if err := r.Run(t.Context(), b.launch, b.launch.Runs[0]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := applies.Load(); n != 1 {
		t.Errorf("applied %d times", n)
	}
}

func TestARunThatIsNotThereToBeClaimedIsLeftAlone(t *testing.T) {
	b := newBench(t, func(context.Context, io.Writer) (*state.Changes, error) {
		t.Error("applied")
		return nil, nil
	})
	b.giveUp("r1")
	before := b.stored("r1")
	if err := b.run(t.Context()); err != nil {
		t.Errorf("a run that has ended: %v", err)
	}
	if diff := cmp.Diff(before, b.stored("r1")); diff != "" {
		t.Errorf("it was changed: %s", diff)
	}
	if err := b.Run(t.Context(), b.launch, state.PlannedRun{ID: "r9", Task: "web"}); err != nil {
		t.Errorf("a run without a record: %v", err)
	}
}

func TestAClaimIsRenewedWhileTerraformWorks(t *testing.T) {
	var now atomic.Int64 // seconds after noon
	renewed := make(chan struct{}, 100)
	b := newBench(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		now.Store(50)
		for range 3 { // the last of these was begun after the clock was set
			select {
			case <-renewed:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return succeed(ctx, out)
	})
	b.Claim = 30 * time.Millisecond
	b.Now = func() time.Time { return noon.Add(time.Duration(now.Load()) * time.Second) }
	var latest atomic.Value
	b.store.After = func(changes []state.Change) error {
		if writes(changes, "run/", `"running"`) {
			if run, err := state.Decode[state.Run](state.Record{Value: changes[0].Value}); err == nil {
				latest.Store(run.Data.Expires)
			}
			renewed <- struct{}{}
		}
		return nil
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := latest.Load().(time.Time), noon.Add(50*time.Second+b.Claim); !got.Equal(want) {
		t.Errorf("the claim lasted until %s, want %s", got, want)
	}
}

func TestARunIsGivenUpWhenItsClaimHasExpiredWhereAnotherMayHaveTheTask(t *testing.T) {
	for _, yields := range []bool{true, false} {
		t.Run(fmt.Sprint(yields), func(t *testing.T) {
			tried := make(chan struct{}, 100)
			b := newBench(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
				for range 8 { // more renewals than a claim has time for
					select {
					case <-tried:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				return succeed(ctx, out)
			})
			b.Claim, b.Yields, b.Now = 60*time.Millisecond, yields, time.Now
			var written atomic.Int32
			b.store.Before = func(changes []state.Change) error {
				if !writes(changes, "run/", `"running"`) || written.Add(1) <= 2 {
					return nil // the claim, and its renewal before the apply
				}
				tried <- struct{}{}
				return errors.New("no route to host")
			}
			if err := b.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			run := b.stored("r1")
			if yields != (run.State == state.RunFailed) || yields != strings.Contains(run.Error, "another instance may be given the task") {
				t.Errorf("the run reads %+v", run)
			}
		})
	}
}

func TestARenewalWhoseAnswerWasLostDoesNotEndTheRun(t *testing.T) {
	renewed := make(chan struct{}, 100)
	b := newBench(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		for range 4 {
			select {
			case <-renewed:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return succeed(ctx, out)
	})
	b.Claim = 15 * time.Millisecond
	var tick atomic.Int64
	b.Now = func() time.Time { return noon.Add(time.Duration(tick.Add(1)) * time.Second) }
	claims := 0
	b.store.After = func(changes []state.Change) error {
		if !writes(changes, "run/", `"running"`) {
			return nil
		}
		if claims++; claims > 2 { // the claim, and its renewal before the apply
			renewed <- struct{}{}
		}
		if claims > 2 && claims%2 == 0 {
			return errors.New("connection reset")
		}
		return nil
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); run.State != state.RunSucceeded {
		t.Errorf("the run reads %+v", run)
	}
}

func TestARunThatTheLeaderGaveUpIsStoppedAndWritesNoOutcome(t *testing.T) {
	var b *bench
	b = newBench(t, func(ctx context.Context, _ io.Writer) (*state.Changes, error) {
		b.giveUp("r1")
		<-ctx.Done() // Terraform is interrupted
		return nil, ctx.Err()
	})
	b.Claim = 30 * time.Millisecond
	err := b.run(t.Context())
	if !errors.Is(err, errTaken) || !strings.Contains(err.Error(), "r1") {
		t.Fatalf("got %v, want that the run was given up", err)
	}
	if run, task := b.stored("r1"), b.task(); run.State != state.RunLost || task.Applied != "A" || task.Failures != 1 {
		t.Errorf("run %+v, task %+v", run, task)
	}
}

func TestARunThatWasGivenUpJustBeforeItsOutcomeWritesNone(t *testing.T) {
	var b *bench
	b = newBench(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		b.giveUp("r1")
		b.intendNext("r2")
		return succeed(ctx, out)
	})
	if err := b.run(t.Context()); !errors.Is(err, errTaken) {
		t.Fatalf("got %v, want that the run was given up", err)
	}
	if task := b.task(); b.stored("r1").State != state.RunLost || task.Applied != "A" || task.Run == nil || task.Run.ID != "r2" {
		t.Errorf("run %+v, task %+v", b.stored("r1"), task)
	}
}

// intendNext intends one more run of the task as it is.
func (b *bench) intendNext(id string) { b.intend(id, b.task()) }

func TestNothingIsAppliedWhileTheStoreCannotBeWritten(t *testing.T) {
	b := newBench(t, func(context.Context, io.Writer) (*state.Changes, error) {
		t.Error("applied")
		return nil, nil
	})
	b.store.Before = func([]state.Change) error { return errors.New("no space left") }
	err := b.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "claim run r1 of task web") || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("got %v", err)
	}
	b.store.Before = nil
	if run := b.stored("r1"); run.State != state.RunIntended {
		t.Errorf("the run reads %+v, want it still to be claimed", run)
	}
}

func TestAClaimWhoseAnswerWasLostIsItsOwn(t *testing.T) {
	b := newBench(t, succeed)
	lost := false
	b.store.After = func(changes []state.Change) error {
		if writes(changes, "run/", `"running"`) && !lost {
			lost = true
			return errors.New("connection reset")
		}
		return nil
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); !lost || run.State != state.RunSucceeded {
		t.Errorf("the run reads %+v", run)
	}
}

func TestAnOutcomeThatIsNotTakenAtOnceIsOfferedAgain(t *testing.T) {
	for _, outcome := range []struct {
		apply applier
		state state.RunState
	}{{succeed, state.RunSucceeded}, {fail, state.RunFailed}} {
		t.Run(string(outcome.state), func(t *testing.T) {
			b := newBench(t, outcome.apply)
			refused := 0
			b.store.Before = func(changes []state.Change) error {
				if writes(changes, "task/", "") && refused < 3 {
					refused++
					return errors.New("no space left")
				}
				return nil
			}
			if err := b.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if run, task := b.stored("r1"), b.task(); run.State != outcome.state || task.Run != nil || refused != 3 {
				t.Errorf("after %d refusals: run %+v, task %+v", refused, run, task)
			}
			if !strings.Contains(b.log.String(), "an outcome was not recorded, trying again") {
				t.Errorf("nobody is told: %s", b.log)
			}
		})
	}
}

func TestAnOutcomeThatIsNeverTakenIsReportedOnce(t *testing.T) {
	b := newBench(t, fail)
	b.Patience = 300 * time.Millisecond
	b.store.Before = func(changes []state.Change) error {
		if writes(changes, "task/", "") {
			return errors.New("no space left")
		}
		return nil
	}
	err := b.run(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"run r1 of task web", `failed with "module is broken"`, "no space left", "run again"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if strings.Contains(b.log.String(), "level=ERROR") {
		t.Errorf("it is logged and returned: %s", b.log)
	}
	b.store.Before = nil
	if run, task := b.stored("r1"), b.task(); run.State != state.RunRunning || task.Run == nil {
		t.Errorf("run %+v, task %+v: want both as they were, for the run to be found lost", run, task)
	}
}

func TestAnOutcomeWhoseAnswerWasLostIsRecordedOnce(t *testing.T) {
	b := newBench(t, fail)
	lost := 0
	b.store.After = func(changes []state.Change) error {
		if writes(changes, "task/", "") {
			lost++
			return errors.New("connection reset")
		}
		return nil
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); lost != 1 || task.Failures != 1 || len(task.History) != 1 {
		t.Errorf("%d answers lost, the task reads %+v", lost, task)
	}
}

func TestAnOutcomeIsRecordedAfterTheLeaderWroteToTheTask(t *testing.T) {
	b := newBench(t, succeed)
	done := false
	b.store.Before = func(changes []state.Change) error {
		if !writes(changes, "task/", "") || done {
			return nil
		}
		done = true // just before the outcome
		task, err := state.Read[state.Task](context.Background(), b.store, state.TaskKey("web"))
		if err != nil {
			return err
		}
		task.Data.Observed = "C"
		_, err = b.store.Store.Apply(context.Background(), task.Write(task.Data))
		return err
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); task.Observed != "C" || task.Applied != "B" || task.Run != nil {
		t.Errorf("the task reads %+v", task)
	}
}

func TestRun_AStopIsRecordedAsInterruptedAndIsNoFailure(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b := newBench(t, func(ctx context.Context, _ io.Writer) (*state.Changes, error) {
		stop()
		<-ctx.Done()
		return nil, errors.New("terraform was interrupted")
	})
	if err := b.run(ctx); err != nil {
		t.Fatal(err)
	}
	if run, task := b.stored("r1"), b.task(); run.State != state.RunInterrupted || !strings.Contains(run.Error, "interrupted") ||
		task.Run != nil || task.Failures != 0 || !task.RetryAt.IsZero() || !task.Unfinished() {
		t.Errorf("run %+v, task %+v", run, task)
	}
	if log := b.log.String(); strings.Contains(log, "level=ERROR") || !strings.Contains(log, "run interrupted") {
		t.Errorf("the log reads %s", log)
	}
}

// Terraform may take minutes to end once it is interrupted. Nobody else is to
// have the task before.
func TestAClaimIsRenewedUntilTerraformHasEndedThoughItIsInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	renewed := make(chan struct{}, 100)
	b := newBench(t, func(ctx context.Context, _ io.Writer) (*state.Changes, error) {
		stop()
		<-ctx.Done()
		for len(renewed) > 0 { // that were made before
			<-renewed
		}
		for range 3 {
			select {
			case <-renewed:
			case <-time.After(10 * time.Second):
				return nil, errors.New("the claim is not renewed any more")
			}
		}
		return nil, errors.New("terraform was interrupted")
	})
	b.Claim = 30 * time.Millisecond
	b.store.After = func(changes []state.Change) error {
		if writes(changes, "run/", `"running"`) {
			renewed <- struct{}{}
		}
		return nil
	}
	if err := b.run(ctx); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); run.State != state.RunInterrupted || !strings.Contains(run.Error, "interrupted") {
		t.Errorf("the run reads %+v", run)
	}
}

func TestAnApplyThatSucceededInSpiteOfTheInterruptCounts(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b := newBench(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		stop()
		return succeed(ctx, out)
	})
	if err := b.run(ctx); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); task.Applied != "B" {
		t.Errorf("the task reads %+v", task)
	}
}

func TestOnlyTheNewest50RunsAreKeptWithTheirOutput(t *testing.T) {
	b := newBench(t, succeed)
	const n = state.History + 3
	refused := false
	b.store.Before = func(changes []state.Change) error {
		// One removal is refused: it is made good with the next run.
		if len(changes) == 1 && changes[0].Op == state.OpDelete && !refused {
			refused = true
			return errors.New("database is locked")
		}
		return nil
	}
	for i := 1; i <= n; i++ {
		if i > 1 {
			b.intendNext(fmt.Sprintf("r%d", i))
		}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	task := b.task()
	if len(task.History) != state.History || task.History[0] != "r4" || task.History[state.History-1] != fmt.Sprintf("r%d", n) {
		t.Errorf("the history of %d runs goes from %s on: %d", n, task.History[0], len(task.History))
	}
	for prefix, most := range map[string]int{state.RunPrefix("web"): state.History, "log/web/": state.History} {
		recs, err := b.store.List(t.Context(), prefix)
		if err != nil || len(recs) != most {
			t.Errorf("%d records below %s (%v), want %d", len(recs), prefix, err, most)
		}
	}
	if !refused {
		t.Error("no removal was refused")
	}
}

func TestWhatTerraformPrintsIsLoggedWithItsRunWhereThatIsWanted(t *testing.T) {
	const line = `msg=terraform task=web run=r1 launch=l-r1 fence=1 says="Apply complete!"`
	for _, wanted := range []bool{false, true} {
		b := newBench(t, succeed)
		b.Verbose = wanted
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.log.String(), line); got != wanted {
			t.Errorf("Verbose is %v, and the log has:\n%s", wanted, b.log)
		}
	}
}

// hang is an apply that goes on until it is interrupted.
func hang(ctx context.Context, _ io.Writer) (*state.Changes, error) {
	<-ctx.Done()
	return nil, &terraform.InterruptedError{Command: terraform.Command{Task: "web", Name: "apply"}, Cause: context.Cause(ctx)}
}

func TestRun_ExceedingRunTimeoutFails(t *testing.T) {
	b := newBench(t, hang)
	b.Config().Tasks[0].RunTimeout = 50 * time.Millisecond
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if want := "terraform apply of task web was interrupted: exceeded run_timeout of 50ms"; run.State != state.RunFailed || run.Error != want {
		t.Errorf("the run %s with %q, want %q", run.State, run.Error, want)
	}
	if task.Failures != 1 || !task.RetryAt.After(noon) {
		t.Errorf("the task is not retried with backoff: %+v", task)
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", 10 * time.Second: "10s", time.Hour + time.Second: "1h0m1s"} {
		if got := brief(d); got != want {
			t.Errorf("%s is written as %q", want, got)
		}
	}
}

func TestRun_CancelEndsItAndTheTaskIsHeld(t *testing.T) {
	var b *bench
	b = newBench(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		run, err := state.Read[state.Run](ctx, b.store, state.RunKey("web", "r1"))
		if err != nil {
			return nil, err
		}
		next := run.Data
		next.Cancel = "an operator"
		if _, err := b.store.Apply(ctx, run.Write(next)); err != nil {
			return nil, err
		}
		return hang(ctx, out)
	})
	b.Claim = 60 * time.Millisecond
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if run.State != state.RunCancelled || !strings.Contains(run.Error, "cancelled by an operator") {
		t.Errorf("the run reads %+v", run)
	}
	if task.Run != nil || task.Failures != 0 || !task.Cancelled() || task.Held == nil || *task.Held != task.Attempted {
		t.Errorf("the task reads %+v", task)
	}
}
