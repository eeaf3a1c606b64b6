package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// waits stands in for a driver whose run waits for approval.
func waits(_ context.Context, out io.Writer) (*state.Changes, error) {
	fmt.Fprintln(out, "Plan: 3 to destroy")
	return &state.Changes{Destroy: 3}, fmt.Errorf("apply: %w", &driver.WaitError{Wait: state.Wait{
		For: state.WaitApproval, ID: "w1", Text: "3 to destroy", Until: noon.Add(time.Hour)}})
}

// resume launches the waiting run again, as a leader does.
func (b *fixture) resume() {
	b.t.Helper()
	id := b.launch.Runs[0].ID
	task, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey("web"))
	if err != nil {
		b.t.Fatal(err)
	}
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey("web", id))
	if err != nil {
		b.t.Fatal(err)
	}
	now := b.Now()
	b.launch.ID = "l2"
	next, live := run.Data, task.Data
	next.State, next.Launch, next.Resumed = state.RunIntended, "l2", &state.Resume{By: "Jo", At: now}
	live.Run = &state.LiveRun{ID: id, Launch: "l2", Created: now}
	if _, err := b.store.Apply(b.t.Context(), run.Write(next), task.Write(live)); err != nil {
		b.t.Fatal(err)
	}
}

func TestRun_WaitsWithoutAClaimAndIsResumedByAnotherRunner(t *testing.T) {
	b := newFixture(t, waits)
	b.Who = "host-1"
	var recorded []state.RunState
	b.Ended = func(run state.Run) { recorded = append(recorded, run.State) }
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if run.State != state.RunWaiting || run.Wait == nil || run.Wait.ID != "w1" || !run.Wait.Since.Equal(noon) || run.Digest != "B" || run.Error != "" || !run.Ended.IsZero() {
		t.Errorf("the run is %+v", run)
	}
	if run.Claim+run.Owner+run.Runner+run.Who != "" || !run.Expires.IsZero() || run.ClaimFor != 0 {
		t.Errorf("a waiting run has a claim: %+v", run)
	}
	if wait := task.Waits(); wait == nil || wait.ID != "w1" || task.Run.Input != "B" || !task.Observed.Recheck || task.Applied.Digest != "A" || len(task.Ended.IDs) != 0 {
		t.Errorf("its task says %+v", task)
	}

	// Another process claims it an hour later.
	b.resume()
	log := b.Log
	var job driver.Job
	other := &Runner{Config: b.Config, Store: b.store, Consul: catalog{}, Owner: "there", Claim: time.Minute,
		Now: func() time.Time { return noon.Add(time.Hour) }, Log: log, Patience: 5 * time.Second}
	other.Driver = takes{nil, func(_ context.Context, j driver.Job) (*state.Changes, error) {
		job = j
		fmt.Fprintln(j.Output, "Apply complete!")
		return &state.Changes{Destroy: 3}, nil
	}}
	if err := other.Run(t.Context(), b.launch, b.launch.Runs[0]); err != nil {
		t.Fatal(err)
	}
	if job.Run.Wait == nil || job.Run.Wait.ID != "w1" || job.Run.Resumed == nil || job.Run.Resumed.By != "Jo" {
		t.Errorf("the driver sees %+v", job.Run)
	}
	run, task = b.stored("r1"), b.task()
	if run.State != state.RunSucceeded || run.Owner != "there" || !run.Started.Equal(noon) || run.Waited != time.Hour || run.Worked(run.Ended) != 0 {
		t.Errorf("the run is %+v", run)
	}
	if task.Run != nil || task.Applied.Digest != "B" || len(task.Ended.IDs) != 1 || task.Ended.IDs[0] != "r1" {
		t.Errorf("its task says %+v", task)
	}
	for name, want := range map[string]string{"r1": "Plan: 3 to destroy\n", run.Output.Name: "Apply complete!\n"} {
		if text, err := state.LoadLog(t.Context(), b.store, "web", name); err != nil || string(text) != want {
			t.Errorf("the output %s is %q, %v", name, text, err)
		}
	}
	if err := state.Forget(t.Context(), b.store, "web", []string{"r1"}); err != nil {
		t.Fatal(err)
	}
	if left, err := b.store.List(t.Context(), "log/"); err != nil || len(left) != 0 {
		t.Errorf("%d records of output are left (%v)", len(left), err)
	}
	if len(recorded) != 1 || recorded[0] != state.RunWaiting {
		t.Errorf("the first runner says %v", recorded)
	}
}

// takes is a driver that applies with its job.
type takes struct {
	driver.Driver
	apply func(context.Context, driver.Job) (*state.Changes, error)
}

func (d takes) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	changes, err := d.apply(ctx, job)
	return driver.Outcome{Changes: changes}, err
}

func TestRun_TimeoutDoesNotCountWaits(t *testing.T) {
	b := newFixture(t, waits)
	b.Config().Tasks[0].RunTimeout = time.Hour
	b.launch.Runs = b.planned("r1")
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.resume()
	b.Now = func() time.Time { return noon.Add(100 * time.Hour) }
	b.Driver = takes{nil, func(ctx context.Context, job driver.Job) (*state.Changes, error) {
		deadline, ok := ctx.Deadline()
		if left := time.Until(deadline); !ok || left < 50*time.Minute {
			t.Errorf("%s are left of an hour", left)
		}
		return succeed(ctx, job.Output)
	}}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); run.State != state.RunSucceeded {
		t.Errorf("the run is %s: %s", run.State, run.Error)
	}
}

// TestRun_ApprovedRunHasItsWholeTimeAgain checks a plan of 6 minutes and an apply of one, with
// a run_timeout of 10: the run plans again after its approval.
func TestRun_ApprovedRunHasItsWholeTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := func(ctx context.Context, out io.Writer, d time.Duration, end applier) (*state.Changes, error) {
			if !delay.For(ctx, d) {
				return nil, context.Cause(ctx)
			}
			return end(ctx, out)
		}
		b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
			return turn(ctx, out, 6*time.Minute, waits)
		})
		b.Now, b.Claim = time.Now, time.Hour
		b.Config().Tasks[0].RunTimeout = 10 * time.Minute
		b.launch.Runs = b.planned("r1")
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // a person thinks
		b.resume()
		b.Driver = fake{apply: func(ctx context.Context, out io.Writer) (*state.Changes, error) {
			return turn(ctx, out, 7*time.Minute, succeed)
		}}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if run := b.stored("r1"); run.State != state.RunSucceeded {
			t.Errorf("the approved run %s: %s", run.State, run.Error)
		}
	})
}

func TestRun_CancelledWhenItBeginsToWaitEnds(t *testing.T) {
	var b *fixture
	b = newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		if err := b.cancel(ctx, "r1", "Jo"); err != nil {
			return nil, err
		}
		return waits(ctx, out)
	})
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); run.State != state.RunCancelled || run.Cancel != "Jo" || !strings.Contains(run.Error, "cancelled by Jo") {
		t.Errorf("the run is %+v", run)
	}
	if task := b.task(); task.Run != nil || task.Stop == nil {
		t.Errorf("its task says %+v", task)
	}
}

func TestRun_WaitIsRecordedThoughAnswersAreLost(t *testing.T) {
	b := newFixture(t, waits)
	lost := false
	b.store.After = func(changes []state.Change) error {
		if lost || len(changes) < 2 {
			return nil
		}
		lost = true
		return errors.New("connection reset")
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); run.State != state.RunWaiting || b.task().Waits() == nil || b.task().Applied.Doubt != "" {
		t.Errorf("the run is %+v, its task %+v", run, b.task())
	}
}

func TestRun_PlanRunCannotWait(t *testing.T) {
	b := newFixture(t, succeed)
	b.Driver = fake{plan: waits}
	b.inspect("i1")
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("i1"); run.State != state.RunFailed || !strings.Contains(run.Error, "waits for approval") {
		t.Errorf("the run is %+v", run)
	}
}

func TestRun_NewerRecordIsNotTouched(t *testing.T) {
	for _, key := range []string{state.RunKey("web", "r1"), state.TaskKey("web")} {
		b := newFixture(t, succeed)
		rec, err := b.store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		value := bytes.Replace(rec.Value, []byte(`"format":1`), []byte(`"format":2`), 1)
		written, err := b.store.Apply(t.Context(), state.Replace(rec, value))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.run(t.Context()); !errors.As(err, new(*state.NewerError)) {
			t.Errorf("%s: %v", key, err)
		}
		if now, err := b.store.Get(t.Context(), key); err != nil || now.Version != written[0].Version {
			t.Errorf("%s was changed (%v)", key, err)
		}
	}
}

// expiry tells when the latest record that is written expires.
type expiry struct {
	state.Store
	at time.Time
}

func (s *expiry) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	s.at = changes[0].Expires
	return s.Store.Apply(ctx, changes...)
}

// elsewhere is a place for the output of runs outside of the store.
type elsewhere struct{ Logs }

func TestRun_LiveOutputAfterALongWaitIsKept(t *testing.T) {
	b := newFixture(t, waits)
	store := &expiry{Store: b.store}
	r := Runner{Store: store, Logs: elsewhere{}, Log: b.Log}
	o := r.newOutput(state.Run{ID: "r1", Task: "web", Kind: state.KindApply, Created: noon, Waits: state.Waits{Resumed: &state.Resume{At: noon.Add(keptLive)}}})
	fmt.Fprintln(o, "Apply complete!")
	if err := o.flush(t.Context()); err != nil || !store.at.Equal(noon.Add(2*keptLive)) {
		t.Errorf("it expires at %s: %v", store.at, err)
	}
}
