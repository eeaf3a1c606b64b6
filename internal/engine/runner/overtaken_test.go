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

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// overtake gives the fixture's run up and carries out the next one elsewhere.
func (b *fixture) overtake(apply applier) {
	b.t.Helper()
	b.giveUp("r1")
	task := b.task()
	task.Observed.Recheck, task.Observed.Digest = false, "B"
	b.intend("r2", task)
	other := *b.Runner
	other.Owner, other.Driver = "there", fake{apply: apply}
	if err := other.Run(b.t.Context(), b.launch, b.launch.Runs[0]); err != nil {
		b.t.Fatal(err)
	}
}

func TestRun_OvertakenApplyIsRunAgain(t *testing.T) {
	for name, ends := range map[string]func(context.Context) error{
		"after it succeeded":       func(context.Context) error { return nil },
		"after it was interrupted": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			infrastructure := ""
			paused, resume := make(chan struct{}), make(chan struct{})
			b := newFixture(t, func(ctx context.Context, _ io.Writer) (*state.Changes, error) {
				close(paused)
				<-resume
				infrastructure = "old"
				return &state.Changes{Change: 1}, ends(ctx)
			})
			b.Claim = 30 * time.Millisecond
			rec := state.Create(state.ReconcileKey, state.Encode(state.Reconcile{Due: noon.Add(time.Hour)}))
			if _, err := b.store.Apply(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error)
			first, launch := b.Runner, b.launch
			go func() { ended <- first.Run(context.Background(), launch, launch.Runs[0]) }()
			<-paused
			b.overtake(func(context.Context, io.Writer) (*state.Changes, error) {
				infrastructure = "new"
				return &state.Changes{Change: 1}, nil
			})
			close(resume)
			err := <-ended
			if infrastructure != "old" || err == nil || !strings.Contains(err.Error(), "the task runs again") {
				t.Fatalf("the infrastructure is %q, and the first run returns: %v", infrastructure, err)
			}
			if got := b.task(); got.Applied.Doubt == "" || got.Applied.Digest != "B" {
				t.Errorf("the task reads %+v", got)
			}
			woken, err := state.Read[state.Reconcile](t.Context(), b.store, state.ReconcileKey)
			if err != nil || woken.Data.Due.After(noon) {
				t.Errorf("the next tick is due at %s (%v)", woken.Data.Due, err)
			}
		})
	}
}

// slowly is a Consul whose answer comes after something else has happened.
type slowly struct {
	catalog
	meanwhile func()
}

func (s slowly) Snapshot(ctx context.Context, t *config.Task) (*consul.Snapshot, error) {
	s.meanwhile()
	return s.catalog.Snapshot(ctx, t)
}

func TestRun_GivenUpBeforeTheApplyAppliesNothing(t *testing.T) {
	applied := false
	b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		applied = true
		return succeed(ctx, out)
	})
	b.Consul = slowly{meanwhile: func() { b.giveUp("r1") }} // the process was frozen while it read
	if err := b.run(t.Context()); err == nil || !strings.Contains(err.Error(), "given it up") {
		t.Errorf("the run returns %v", err)
	}
	if applied {
		t.Error("Terraform was started for a run that was given up")
	}
	if got := b.task(); got.Applied.Doubt != "" {
		t.Errorf("the task reads %+v, though nothing was applied", got)
	}
}

// left is work that a run has left for later.
type left func(context.Context) error

// unmarked has an apply end while the store takes nothing about the task. It
// returns the run's error, and what the run has left for later.
func (b *fixture) unmarked(ctx context.Context) (later left, err error) {
	b.t.Helper()
	b.Patience = 300 * time.Millisecond
	b.Background = func(_ state.Run, work func(context.Context) error) { later = work }
	b.store.Before = func(changes []state.Change) error {
		if writes(changes, "task/", "") {
			return errors.New("no leader")
		}
		return nil
	}
	err = b.run(ctx)
	b.store.Before = nil
	return later, err
}

func TestRun_OvertakenApplyIsMarkedWhenTheStoreAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *fixture
		b = newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
			before := b.store.Before
			b.store.Before = nil
			b.giveUp("r1")
			b.store.Before = before
			return succeed(ctx, out)
		})
		later, err := b.unmarked(t.Context())
		if err == nil || later == nil || !strings.Contains(err.Error(), "as soon as the store answers") || strings.Contains(err.Error(), "by hand") {
			t.Fatalf("the run returns: %v", err)
		}
		if err := later(t.Context()); err != nil || b.task().Applied.Doubt == "" {
			t.Errorf("the task reads %+v (%v)", b.task(), err)
		}
	})
}

func TestRun_OvertakenApplyOfAStoppedProcessIsRunByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var b *fixture
		b = newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
			before := b.store.Before
			b.store.Before = nil
			b.giveUp("r1")
			b.store.Before = before
			stop()
			return succeed(ctx, out)
		})
		if later, err := b.unmarked(ctx); err == nil || later != nil || !strings.Contains(err.Error(), "run the task once by hand") {
			t.Errorf("the run returns: %v", err)
		}
	})
}

// The process cannot see whether the run was given up: it must find out later.
func TestRun_ApplyThatOutlastsItsClaimIsMarkedIfItWasGivenUp(t *testing.T) {
	for name, givenUp := range map[string]bool{"given up": true, "not given up": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := noon
				b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
					now = now.Add(time.Hour) // it was frozen
					return succeed(ctx, out)
				})
				b.Now = func() time.Time { return now }
				later, err := b.unmarked(t.Context())
				if err == nil || later == nil {
					t.Fatalf("the run returns: %v", err)
				}
				if givenUp {
					b.giveUp("r1")
				}
				if err := later(t.Context()); err != nil || (b.task().Applied.Doubt != "") != givenUp {
					t.Errorf("the task reads %+v (%v)", b.task(), err)
				}
			})
		})
	}
}

func TestRun_MarkIsGivenUpSomeTimeAfterTheProcessWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := noon
		b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
			now = now.Add(time.Hour)
			return succeed(ctx, out)
		})
		b.Now = func() time.Time { return now }
		later, _ := b.unmarked(t.Context())
		b.giveUp("r1")
		b.store.Before = func([]state.Change) error { return errors.New("no leader") }
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := later(stopped); err == nil || !strings.Contains(err.Error(), "run the task once by hand") {
			t.Errorf("the work returns: %v", err)
		}
	})
}

func TestRun_AppliesOnlyWithHalfOfItsClaimLeft(t *testing.T) {
	now := noon
	var b *fixture
	b = newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		if left := b.stored("r1").Expires.Sub(now); left < b.Claim/2 {
			t.Errorf("Terraform is started when the claim lasts %s", left)
		}
		return succeed(ctx, out)
	})
	b.Now = func() time.Time { return now }
	renewals := 0
	b.store.After = func(changes []state.Change) error {
		if writes(changes, "run/", `"running"`) {
			if renewals++; renewals == 2 { // the first one is the claim itself
				now = now.Add(b.Claim * 9 / 10) // the store answers slowly
			}
		}
		return nil
	}
	if err := b.run(t.Context()); err != nil || renewals != 3 {
		t.Errorf("%d renewals (%v)", renewals, err)
	}
}

// growing is a Consul that shows so many entries.
type growing struct {
	catalog
	entries *int
}

func (g growing) Snapshot(context.Context, *config.Task) (*consul.Snapshot, error) {
	o := consul.Observation{Digest: "B", Elements: map[string]string{}}
	for i := range *g.entries {
		o.Elements[fmt.Sprint("web-", i)] = "x"
	}
	return &consul.Snapshot{Condition: o, Inputs: []consul.Input{{Kind: condition.ServicesKind, Triggers: true, Observation: o}}}, nil
}

func TestRun_GivenUpRunDoesNotChangeWhatTheGuardComparesWith(t *testing.T) {
	change := func(context.Context, io.Writer) (*state.Changes, error) { return &state.Changes{Change: 1}, nil }
	paused, resume := make(chan struct{}), make(chan struct{})
	b := newFixture(t, func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		close(paused)
		<-resume
		return change(ctx, out)
	})
	b.Config().Tasks[0].Guard = guard.Default
	entries := 12
	b.Consul = growing{entries: &entries}
	first, launch, ended := *b.Runner, b.launch, make(chan error)
	go func() { ended <- first.Run(context.Background(), launch, launch.Runs[0]) }()
	<-paused
	entries = 100
	b.overtake(change)
	close(resume)
	if err := <-ended; !errors.Is(err, errTaken) {
		t.Fatalf("the run that was given up returns %v", err)
	}
	if in, err := state.LoadInputs(t.Context(), b.store, "web"); err != nil || len(in.Elements) != 100 {
		t.Errorf("%d of 100 applied entries are recorded, %v", len(in.Elements), err)
	}

	entries = 12 // Consul loses 88 of 100
	planner := &planner{plan: driver.Plan{Digest: "plan", State: "lineage/1", InState: new(100), Resources: []driver.ResourceChange{}, Changes: &state.Changes{Destroy: 1}}}
	b.Driver = planner
	b.intendNext("r3")
	if err := b.run(t.Context()); err != nil || planner.applied > 0 || b.stored("r3").State != state.RunWaiting {
		t.Errorf("88 of 100 entries are gone, and the run is %s, %v", b.stored("r3").State, err)
	}
}

func TestRun_GivenUpRunDoesNotChangeWhatARemoteRunApplies(t *testing.T) {
	read := func(names ...string) *result {
		o := consul.Observation{Digest: "B", Elements: map[string]string{}}
		for _, n := range names {
			o.Elements[n] = "x"
		}
		return &result{snap: &consul.Snapshot{Condition: o, Inputs: []consul.Input{{Kind: condition.ServicesKind, Triggers: true, Observation: o}}}}
	}
	b := newFixture(t, succeed)
	claimed := func() *claim {
		c, err := b.claim(t.Context(), b.launch, b.launch.Runs[0])
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := claimed()
	b.giveUp("r1")
	b.intendNext("r2")
	second := claimed()
	of := func(run, version string) state.Remote {
		return state.Remote{By: run, Content: version, Run: state.RemoteRun{Version: version, Phase: state.RemotePlanning}}
	}
	if err := second.writeRemote(t.Context(), of("r2", "v2"), read("a", "b", "c")); err != nil {
		t.Fatal(err)
	}
	if err := first.writeRemote(t.Context(), of("r1", "v1"), read("a")); !errors.Is(err, errTaken) {
		t.Fatal(err)
	}
	if err := state.ApplyStaged(t.Context(), b.store, "web"); err != nil {
		t.Fatal(err)
	}
	if in, err := state.LoadInputs(t.Context(), b.store, "web"); err != nil || len(in.Elements) != 3 {
		t.Errorf("%d of 3 entries count as applied, %v", len(in.Elements), err)
	}
}

func TestRun_CancelThatComesWhileInputsAreKeptIsRecorded(t *testing.T) {
	b := newFixture(t, succeed)
	b.store.Before = func(changes []state.Change) error {
		if writes(changes, "inputs/", "") {
			b.store.Before = nil
			return b.cancel(t.Context(), "r1", "ann")
		}
		return nil
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.stored("r1"); got.State != state.RunSucceeded || got.Cancel != "ann" {
		t.Errorf("the run reads %+v", got)
	}
}
