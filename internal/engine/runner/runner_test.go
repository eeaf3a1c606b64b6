package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestRun_SuccessRecordsTheRenderedInputAsApplied(t *testing.T) {
	b := newFixture(t, succeed)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if run.State != state.RunSucceeded || run.Digest != "B" || run.Owner != "here" || !run.Started.Equal(noon) || !run.Ended.Equal(noon) || run.Changes.Add != 1 {
		t.Errorf("the run reads %+v", run)
	}
	if task.Run != nil || task.Applied.Digest != "B" || !task.Applied.At.Equal(noon) || !task.Observed.Recheck || task.Failing.Count != 0 ||
		task.Applied.Definition != b.Config().Tasks[0].Digest(b.Config()) || task.Ended.Last.State != state.RunSucceeded {
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

func TestRun_FailureLeavesAppliedUnchanged(t *testing.T) {
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
			b := newFixture(t, tt.apply)
			b.Consul = tt.consul
			if err := b.run(t.Context()); err != nil {
				t.Fatalf("a recorded failure is an error of Run: %v", err)
			}
			run, task := b.stored("r1"), b.task()
			if run.State != state.RunFailed || !strings.Contains(run.Error, tt.text) || run.Digest != "" {
				t.Errorf("the run reads %+v", run)
			}
			if task.Run != nil || task.Applied.Digest != "A" || task.Failing.Count != 1 || !task.Failing.RetryAt.Equal(noon.Add(state.Backoff("web", 1))) {
				t.Errorf("the task reads %+v", task)
			}
			if inputs, _ := state.LoadInputs(t.Context(), b.store, "web"); inputs.Elements != nil {
				t.Errorf("the elements of what was not applied are kept: %v", inputs)
			}
		})
	}
}

func TestRun_StackOfAPanicIsKeptWithTheOutput(t *testing.T) {
	b := newFixture(t, func(context.Context, io.Writer) (*state.Changes, error) { panic("index out of range") })
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, _ := state.LoadLog(t.Context(), b.store, "web", "r1"); !strings.Contains(string(text), "runner_test.go") {
		t.Errorf("the output kept is %q", text)
	}
}

func TestRun_OneOfSeveralRunnersApplies(t *testing.T) {
	var applies atomic.Int32
	b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
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

func TestRun_UnclaimableRunIsSkipped(t *testing.T) {
	b := newFixture(t, func(context.Context, io.Writer) (*state.Changes, error) {
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

func TestRun_VerboseLogsTerraformOutput(t *testing.T) {
	const line = `msg=terraform task=web run=r1 fence=1 says="Apply complete!"`
	for _, wanted := range []bool{false, true} {
		b := newFixture(t, succeed)
		b.Config().Terraform.Log = wanted
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.log.String(), line); got != wanted {
			t.Errorf("Log is %v, and the log has:\n%s", wanted, b.log)
		}
	}
}

func TestRun_ExceedingRunTimeoutFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, hang)
		b.Config().Tasks[0].RunTimeout = 50 * time.Millisecond
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		run, task := b.stored("r1"), b.task()
		if want := "terraform apply of task web was interrupted: exceeded run_timeout of 50ms"; run.State != state.RunFailed || run.Error != want {
			t.Errorf("the run %s with %q, want %q", run.State, run.Error, want)
		}
		if task.Failing.Count != 1 || !task.Failing.RetryAt.After(noon) {
			t.Errorf("the task is not retried with backoff: %+v", task)
		}
	})
}

func TestRun_CancelEndsItAndTheTaskIsHeld(t *testing.T) {
	var b *fixture
	b = newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		if err := b.cancel(ctx, "r1", "an operator"); err != nil {
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
	if task.Run != nil || task.Failing.Count != 0 || !task.Cancelled() || task.Stop == nil || task.Stop.For != task.Attempted {
		t.Errorf("the task reads %+v", task)
	}
}
