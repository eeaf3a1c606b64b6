package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// inspect writes a plan run and its launch as the Planner does.
func (b *fixture) inspect(id string) {
	b.t.Helper()
	b.launch = state.Launch{ID: "l-" + id, Kind: state.KindPlan, Runs: b.planned(id)}
	run := state.Run{ID: id, Task: "web", Kind: state.KindPlan, Launch: b.launch.ID, State: state.RunIntended, Created: noon}
	if _, err := b.store.Apply(b.t.Context(), state.Create(state.RunKey("web", id), state.Encode(run)).Until(run.KeptUntil())); err != nil {
		b.t.Fatal(err)
	}
}

func TestRun_PlanLeavesItsTaskAlone(t *testing.T) {
	for _, outcome := range []struct {
		plan  applier
		state state.RunState
	}{{func(_ context.Context, out io.Writer) (*state.Changes, error) {
		fmt.Fprintln(out, "Plan: 2 to add")
		return &state.Changes{Add: 2}, nil
	}, state.RunSucceeded}, {func(context.Context, io.Writer) (*state.Changes, error) {
		return nil, errors.New("module is broken")
	}, state.RunFailed}} {
		t.Run(string(outcome.state), func(t *testing.T) {
			b := newFixture(t, nil)
			b.Driver = fake{apply: unapplied(t), plan: outcome.plan}
			var kept []time.Time // when the run's record becomes garbage, by write
			b.store.After = func(changes []state.Change) error {
				for _, c := range changes {
					if strings.HasPrefix(c.Key, "run/") {
						kept = append(kept, c.Expires)
					}
				}
				return nil
			}
			before, _ := b.store.Get(t.Context(), state.TaskKey("web"))
			b.inspect("i1")
			if err := b.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			run := b.stored("i1")
			if run.State != outcome.state || run.Digest != "" || (run.State == state.RunSucceeded) != (run.Changes != nil && run.Changes.Add == 2) {
				t.Errorf("the run reads %+v", run)
			}
			if after, _ := b.store.Get(t.Context(), state.TaskKey("web")); after.Version != before.Version {
				t.Errorf("the task was written: %s", after.Value)
			}
			if inputs, _ := state.LoadInputs(t.Context(), b.store, "web"); inputs.Elements != nil {
				t.Errorf("the elements of what was not applied are kept: %v", inputs)
			}
			for i, until := range kept {
				if !until.Equal(noon.Add(24 * time.Hour)) {
					t.Errorf("write %d of the run keeps it until %s", i+1, until)
				}
			}
			if len(kept) < 3 { // intent, claim, outcome
				t.Errorf("the run was written %d times", len(kept))
			}
		})
	}
}

func TestRun_RunOfAnotherLaunchIsRefused(t *testing.T) {
	b := newFixture(t, func(context.Context, io.Writer) (*state.Changes, error) {
		t.Error("applied")
		return nil, nil
	})
	b.launch.ID = "another"
	err := b.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "run r1 of task web") || !strings.Contains(err.Error(), "launch l-r1") {
		t.Fatalf("got %v", err)
	}
	if run := b.stored("r1"); run.State != state.RunIntended {
		t.Errorf("the run reads %+v", run)
	}
}

// shelf keeps output elsewhere than in the store.
type shelf struct {
	text string
	err  error
}

func (s *shelf) Save(_ context.Context, task, run string, output []byte, _ time.Time) (string, error) {
	s.text = string(output)
	return "s3://logs/" + task + "/" + run, s.err
}

func TestOutput_KeptOutsideOfTheStoreIsFoundByItsURL(t *testing.T) {
	b := newFixture(t, succeed)
	logs := &shelf{}
	b.Logs = logs
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := b.stored("r1")
	if logs.text != "Apply complete!\n" || run.Output.URL != "s3://logs/web/r1" || run.Logs != len(logs.text) {
		t.Errorf("kept is %q, the run reads %+v", logs.text, run)
	}
	if _, err := state.LoadLog(t.Context(), b.store, "web", "r1"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("the store keeps it, too: %v", err)
	}
}

func TestOutput_FailureToKeepItLosesNoOutcome(t *testing.T) {
	b := newFixture(t, succeed)
	b.Logs = &shelf{err: errors.New("access denied")}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); run.State != state.RunSucceeded || run.Output != (state.Kept{}) || run.Logs != 0 {
		t.Errorf("the run reads %+v", run)
	}
	if !strings.Contains(b.log.String(), "access denied") {
		t.Errorf("nobody is told: %s", b.log)
	}
}

func TestRefuse_ReasonIsRecordedOnTheRun(t *testing.T) {
	b := newFixture(t, nil)
	b.Config, b.Consul, b.Driver = nil, nil, nil // none was got
	if err := b.Refuse(t.Context(), b.launch, b.launch.Runs[0], errors.New("no Terraform in the image")); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if run.State != state.RunFailed || run.Error != "no Terraform in the image" || task.Run != nil || task.Failing.Count != 1 || task.Ended.Last.Error != run.Error {
		t.Errorf("run %+v, task %+v", run, task)
	}
}

func TestRun_EndedIsCalledOnceTheOutcomeIsRecorded(t *testing.T) {
	for _, outcome := range []struct {
		apply applier
		state state.RunState
	}{{succeed, state.RunSucceeded}, {fail, state.RunFailed}} {
		b := newFixture(t, outcome.apply)
		b.Who = "terrapulse-l1@host"
		var told []state.Run
		b.Ended = func(run state.Run) { told = append(told, run) }
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(told) != 1 || told[0].State != outcome.state || told[0].Logs == 0 && outcome.state == state.RunSucceeded {
			t.Errorf("told %+v", told)
		}
		if run := b.stored("r1"); run.Who != b.Who {
			t.Errorf("locks are held as %q by the record", run.Who)
		}
	}
}

func TestRun_EndedIsNotCalledWithoutARecordedOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) { return succeed(ctx, out) })
		b.Patience = 200 * time.Millisecond
		b.Ended = func(run state.Run) { t.Errorf("told %+v", run) }
		b.store.Before = func(changes []state.Change) error {
			if writes(changes, "task/", "") {
				return errors.New("throttled")
			}
			return nil
		}
		if err := b.run(t.Context()); err == nil {
			t.Error("no error")
		}
	})
}
