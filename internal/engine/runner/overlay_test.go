package runner

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// change writes what somebody changes about a task.
func (b *fixture) change(o state.Override) {
	b.t.Helper()
	was, err := state.Read[state.Override](b.t.Context(), b.store, state.OverrideKey(o.Task))
	if err != nil {
		b.t.Fatal(err)
	}
	rec, err := state.Read[state.Reconcile](b.t.Context(), b.store, state.ReconcileKey)
	if err != nil {
		b.t.Fatal(err)
	}
	next := rec.Data
	next.Overrides = uuid.NewString()
	if _, err := b.store.Apply(b.t.Context(), was.Write(o), rec.Write(next)); err != nil {
		b.t.Fatal(err)
	}
}

// unapplied fails the test if something is applied.
func unapplied(t *testing.T) applier {
	return func(context.Context, io.Writer) (*state.Changes, error) {
		t.Error("applied")
		return nil, nil
	}
}

const otherWeb = `{"name":"web","module":"./other","condition":{"services":{"names":["web"]}}}`

func TestRun_RunOfAChangedTaskIsSuperseded(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(*fixture)
		says      string
	}{
		"decided on another definition": {func(b *fixture) { b.launch.Runs[0].Definition = "other" }, "decided on another definition of the task (other)"},
		"deleted": {func(b *fixture) {
			cfg := b.Config()
			b.change(state.Override{Task: "web", Deleted: cfg.Tasks[0].Identity(cfg)})
		}, "the task was removed"},
		"deleted and made anew": {func(b *fixture) {
			cfg := b.Config()
			b.change(state.Override{Task: "web", Deleted: cfg.Tasks[0].Identity(cfg), Definition: json.RawMessage(otherWeb)})
		}, "decided on another definition"},
		"everything was paused": {func(b *fixture) {
			b.pause(&state.Paused{By: "ann", Reason: "maintenance"})
		}, "everything is paused: paused by ann"},
		"gone from the files": {func(b *fixture) { b.Runner.Config = func() *config.Config { return &config.Config{} } }, "the task was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, unapplied(t))
			before := b.task()
			tt.meanwhile(b)
			if err := b.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if run := b.stored("r1"); run.State != state.RunSuperseded || !strings.Contains(run.Error, tt.says) || run.Ended.IsZero() {
				t.Errorf("the run reads %+v", run)
			}
			after := b.task()
			if after.Run != nil || after.Forced.By == "" || after.Failing.Count != before.Failing.Count || len(after.Ended.IDs) != len(before.Ended.IDs) || after.Ended.Last != nil {
				t.Errorf("the task reads %+v", after)
			}
			if said := b.log.String(); strings.Contains(said, "level=ERROR") || !strings.Contains(said, "run superseded") {
				t.Errorf("said:\n%s", said)
			}
		})
	}
}

// pause writes a pause into the reconcile record.
func (b *fixture) pause(p *state.Paused) {
	b.t.Helper()
	rec, err := state.ReadReconcile(b.t.Context(), b.store)
	if err != nil {
		b.t.Fatal(err)
	}
	rec.Data.Paused = p
	if _, err := b.store.Apply(b.t.Context(), rec.Write(rec.Data)); err != nil {
		b.t.Fatal(err)
	}
}

func TestRunner_ReplacingRunIsSupersededByAPause(t *testing.T) {
	b := newFixture(t, unapplied(t))
	b.pause(&state.Paused{By: "ann"})
	for _, id := range []string{"r1", "r2"} {
		if id != "r1" {
			b.intendNext(id)
		}
		run, err := state.Read[state.Run](t.Context(), b.store, state.RunKey("web", id))
		if err != nil {
			t.Fatal(err)
		}
		run.Data.Replaces = true
		if _, err := b.store.Apply(t.Context(), run.Write(run.Data)); err != nil {
			t.Fatal(err)
		}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.stored(id); got.State != state.RunSuperseded {
			t.Errorf("the run reads %+v", got)
		}
	}
	if task := b.task(); task.Failing.Count != 0 || task.Forced.By == "" {
		t.Errorf("the task reads %+v", task)
	}
}

func TestRunner_ReplacingRunIsNotSuperseded(t *testing.T) {
	b := newFixture(t, unapplied(t))
	b.launch.Runs[0].Definition = "other"
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	replaces := b.task().Forced.Replaces
	b.intendNext("r2")
	run, err := state.Read[state.Run](t.Context(), b.store, state.RunKey("web", "r2"))
	if err != nil {
		t.Fatal(err)
	}
	run.Data.Replaces = replaces
	if _, err := b.store.Apply(t.Context(), run.Write(run.Data)); err != nil {
		t.Fatal(err)
	}
	b.launch.Runs[0].Definition = "other" // the leader and this runner see different definitions
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run, task := b.stored("r2"), b.task(); run.State != state.RunFailed || task.Failing.Count != 1 {
		t.Errorf("the run reads %+v, its task %+v", run, task)
	}
}

func TestRun_TaskThatWasDisabledBeforeItBeganIsNotApplied(t *testing.T) {
	b := newFixture(t, func(context.Context, io.Writer) (*state.Changes, error) {
		t.Error("it was applied")
		return &state.Changes{}, nil
	})
	b.Config().Tasks[0].Enabled = false // in its file, while the run waited for its slot
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); run.State != state.RunSuperseded || !strings.Contains(run.Error, "disabled") {
		t.Errorf("the run is %s: %s", run.State, run.Error)
	}
}

func TestRun_TaskCreatedThroughTheAPIIsRun(t *testing.T) {
	var applied *config.Task
	b := newFixture(t, succeed)
	b.change(state.Override{Task: "made", Definition: json.RawMessage(strings.ReplaceAll(otherWeb, `"web"`, `"made"`))})
	b.Driver = seeing{apply: func(t *config.Task) { applied = t }}
	effective, err := b.Source.Read(t.Context(), b.store, b.Config())
	if err != nil {
		t.Fatal(err)
	}
	made, _ := effective.Config.Task("made")
	planned := state.PlannedRun{ID: "r7", Task: "made", Definition: made.Digest(effective.Config)}
	launch := state.Launch{ID: "l7", Kind: state.KindApply, Runs: []state.PlannedRun{planned}}
	run := state.Run{ID: "r7", Task: "made", Kind: state.KindApply, Launch: "l7", State: state.RunIntended}
	if _, err := b.store.Apply(t.Context(), state.Create(state.RunKey("made", "r7"), state.Encode(run)),
		state.Create(state.TaskKey("made"), state.Encode(state.Task{Run: &state.LiveRun{ID: "r7", Launch: "l7"}}))); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(t.Context(), launch, planned); err != nil {
		t.Fatal(err)
	}
	if applied == nil || applied.Name != "made" || !applied.FromAPI || !strings.HasSuffix(applied.Module, "other") {
		t.Errorf("applied: %+v", applied)
	}
	// What is changed about another task is nothing to a run.
	b.intendNext("r8")
	no := false
	b.change(state.Override{Task: "made", Enabled: &no})
	if err := b.run(t.Context()); err != nil || b.stored("r8").State != state.RunSucceeded {
		t.Errorf("%+v, %v", b.stored("r8"), err)
	}
}

// seeing is a driver that succeeds, and passes the task to a function.
type seeing struct {
	driver.Driver
	apply func(*config.Task)
}

func (s seeing) Apply(_ context.Context, job driver.Job) (driver.Outcome, error) {
	s.apply(job.Task)
	return driver.Outcome{Changes: &state.Changes{}}, nil
}

func TestRun_DraftIsPlanned(t *testing.T) {
	draft := json.RawMessage(strings.ReplaceAll(otherWeb, `"web"`, `"draft"`))
	for name, tt := range map[string]struct {
		meanwhile func(*fixture)
		state     state.RunState
		says      string
	}{
		"as it was":             {func(*fixture) {}, state.RunSucceeded, ""},
		"by then it was made":   {func(b *fixture) { b.change(state.Override{Task: "draft", Definition: draft}) }, state.RunFailed, `duplicate task name: "draft"`},
		"decided on another":    {func(b *fixture) { b.launch.Runs[0].Definition = "other" }, state.RunFailed, "another definition"},
		"a draft that is wrong": {func(b *fixture) { b.launch.Draft = json.RawMessage(`{"name":"draft"}`) }, state.RunFailed, "module for the task is required"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, unapplied(t))
			b.Driver = fake{plan: succeed}
			effective, err := b.Source.Read(t.Context(), b.store, b.Config())
			if err != nil {
				t.Fatal(err)
			}
			cfg, task, err := effective.Draft(draft)
			if err != nil {
				t.Fatal(err)
			}
			b.launch = state.Launch{ID: "l7", Kind: state.KindPlan, Draft: draft, Runs: []state.PlannedRun{{ID: "r7", Task: "draft", Definition: task.Digest(cfg)}}}
			run := state.Run{ID: "r7", Task: "draft", Kind: state.KindPlan, Launch: "l7", State: state.RunIntended, Created: noon}
			if _, err := b.store.Apply(t.Context(), state.Create(state.RunKey("draft", "r7"), state.Encode(run))); err != nil {
				t.Fatal(err)
			}
			tt.meanwhile(b)
			if err := b.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := state.Read[state.Run](t.Context(), b.store, state.RunKey("draft", "r7"))
			if err != nil || got.Data.State != tt.state || !strings.Contains(got.Data.Error, tt.says) {
				t.Errorf("%+v, %v", got.Data, err)
			}
		})
	}
}
