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

func TestRecord_OutcomeIsRetried(t *testing.T) {
	for _, outcome := range []struct {
		apply applier
		state state.RunState
	}{{succeed, state.RunSucceeded}, {fail, state.RunFailed}} {
		t.Run(string(outcome.state), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFixture(t, outcome.apply)
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
		})
	}
}

func TestRecord_OutcomeThatIsNeverWrittenIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, fail)
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
	})
}

func TestRecord_LostAnswerRecordsTheOutcomeOnce(t *testing.T) {
	b := newFixture(t, fail)
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
	if task := b.task(); lost != 1 || task.Failing.Count != 1 || len(task.Ended.IDs) != 1 {
		t.Errorf("%d answers lost, the task reads %+v", lost, task)
	}
}

func TestRecord_ConflictWithTheLeaderIsRetried(t *testing.T) {
	b := newFixture(t, succeed)
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
		task.Data.Observed.Digest = "C"
		_, err = b.store.Store.Apply(context.Background(), task.Write(task.Data))
		return err
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); task.Observed.Digest != "C" || task.Applied.Digest != "B" || task.Run != nil {
		t.Errorf("the task reads %+v", task)
	}
}

func TestRun_StopIsRecordedAsInterruptedNotAsFailure(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b := newFixture(t, func(ctx context.Context, _ io.Writer) (*state.Changes, error) {
		stop()
		<-ctx.Done()
		return nil, errors.New("terraform was interrupted")
	})
	if err := b.run(ctx); err != nil {
		t.Fatal(err)
	}
	if run, task := b.stored("r1"), b.task(); run.State != state.RunInterrupted || !strings.Contains(run.Error, "interrupted") ||
		task.Run != nil || task.Failing.Count != 0 || !task.Failing.RetryAt.IsZero() || !task.Unfinished() {
		t.Errorf("run %+v, task %+v", run, task)
	}
	if log := b.log.String(); strings.Contains(log, "level=ERROR") || !strings.Contains(log, "run interrupted") {
		t.Errorf("the log reads %s", log)
	}
}

// Terraform may take minutes to end once it is interrupted. Nobody else is to
// have the task before.
func TestClaim_IsRenewedUntilAnInterruptedTerraformEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		renewed := make(chan struct{}, 100)
		b := newFixture(t, func(ctx context.Context, _ io.Writer) (*state.Changes, error) {
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
	})
}

func TestRun_ApplyThatSucceedsDespiteTheInterruptIsSuccess(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		stop()
		return succeed(ctx, out)
	})
	if err := b.run(ctx); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); task.Applied.Digest != "B" {
		t.Errorf("the task reads %+v", task)
	}
}

func TestRecord_Newest50RunsAreKeptWithTheirOutput(t *testing.T) {
	b := newFixture(t, succeed)
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
	if len(task.Ended.IDs) != state.History || task.Ended.IDs[0] != "r4" || task.Ended.IDs[state.History-1] != fmt.Sprintf("r%d", n) {
		t.Errorf("the history of %d runs goes from %s on: %d", n, task.Ended.IDs[0], len(task.Ended.IDs))
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

func TestRecord_SuccessIsNotRecordedWithoutWhatWasApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, succeed)
		refused := 0
		b.store.Before = func(changes []state.Change) error {
			if writes(changes, "inputs/", "") && refused < 3 {
				refused++
				return errors.New("throttled")
			}
			return nil
		}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		inputs, err := state.LoadInputs(t.Context(), b.store, "web")
		if err != nil {
			t.Fatal(err)
		}
		if run := b.stored("r1"); run.State != state.RunSucceeded || inputs.Elements["web-1"] != "x" || refused != 3 {
			t.Errorf("after %d refusals: the run has %s, and %v counts as applied", refused, run.State, inputs.Elements)
		}
	})
}
