package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestClaim_IsRenewedWhileTerraformRuns(t *testing.T) {
	var now atomic.Int64 // seconds after noon
	renewed := make(chan struct{}, 100)
	b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		for len(renewed) > 0 { // by what was written before Terraform ran
			<-renewed
		}
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

func TestClaim_ProcessThatIsToldToStopLeavesTheRunToTheNextOne(t *testing.T) {
	b := newFixture(t, succeed)
	ctx, stop := context.WithCancel(t.Context())
	b.store.Before = func([]state.Change) error {
		stop()
		return ctx.Err()
	}
	if err := b.run(ctx); err != nil {
		t.Errorf("an instance reports the outcome of a run as not recorded: %v", err)
	}
	if run := b.stored("r1"); run.State != state.RunIntended {
		t.Errorf("the run is %s", run.State)
	}
	b.store.Before = nil
	if err := b.run(t.Context()); err != nil {
		t.Error(err)
	}
	if run := b.stored("r1"); run.State != state.RunSucceeded {
		t.Errorf("the next process leaves the run %s", run.State)
	}
}

// noting is a driver that plans, and applies when it is let.
type noting struct {
	driver.Driver
	let chan struct{}
}

func (n noting) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	job.Notes.Planned()
	select {
	case <-n.let:
		return driver.Outcome{Changes: &state.Changes{}}, nil
	case <-ctx.Done():
		return driver.Outcome{}, ctx.Err()
	}
}

func TestClaim_RenewalShowsWhenTheRunHasPlanned(t *testing.T) {
	b := newFixture(t, nil)
	n := noting{let: make(chan struct{})}
	b.Driver, b.Claim = n, 30*time.Millisecond
	shown := false
	b.store.After = func(changes []state.Change) error {
		if !shown && writes(changes, "run/", `"running"`) && writes(changes, "run/", `"planned":"2086-03-14T12:00:00Z"`) {
			shown = true
			close(n.let)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.run(ctx); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); run.State != state.RunSucceeded || !run.Planned.Equal(noon) {
		t.Errorf("the run %s %s, planned at %s", run.State, run.Error, run.Planned)
	}
}

func TestClaim_ExpiredClaimInterruptsARunThatYields(t *testing.T) {
	for _, yields := range []bool{true, false} {
		t.Run(fmt.Sprint(yields), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tried := make(chan struct{}, 100)
				b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
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
		})
	}
}

func TestClaim_LostAnswerToARenewalDoesNotEndTheRun(t *testing.T) {
	renewed := make(chan struct{}, 100)
	b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
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
	b.Now = func() time.Time { return noon.Add(time.Duration(tick.Add(1)) * time.Microsecond) }
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

func TestClaim_RunGivenUpByTheLeaderStopsWithoutOutcome(t *testing.T) {
	var b *fixture
	b = newFixture(t, func(ctx context.Context, _ io.Writer) (*state.Changes, error) {
		b.giveUp("r1")
		<-ctx.Done() // Terraform is interrupted
		return nil, ctx.Err()
	})
	b.Claim = 30 * time.Millisecond
	err := b.run(t.Context())
	if !errors.Is(err, errTaken) || !strings.Contains(err.Error(), "r1") {
		t.Fatalf("got %v, want that the run was given up", err)
	}
	if run, task := b.stored("r1"), b.task(); run.State != state.RunLost || task.Applied.Digest != "A" || task.Failing.Count != 1 {
		t.Errorf("run %+v, task %+v", run, task)
	}
}

func TestClaim_RunGivenUpBeforeItsOutcomeWritesNone(t *testing.T) {
	var b *fixture
	b = newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		b.giveUp("r1")
		b.intendNext("r2")
		return succeed(ctx, out)
	})
	if err := b.run(t.Context()); !errors.Is(err, errTaken) {
		t.Fatalf("got %v, want that the run was given up", err)
	}
	if task := b.task(); b.stored("r1").State != state.RunLost || task.Applied.Digest != "A" || task.Run == nil || task.Run.ID != "r2" {
		t.Errorf("run %+v, task %+v", b.stored("r1"), task)
	}
}

func TestClaim_NothingIsAppliedWithoutAWritableStore(t *testing.T) {
	b := newFixture(t, func(context.Context, io.Writer) (*state.Changes, error) {
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

func TestClaim_LostAnswerToAClaimIsRecognised(t *testing.T) {
	b := newFixture(t, succeed)
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
