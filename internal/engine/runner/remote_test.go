package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// shows is a Consul that shows one element, which is its digest, too.
type shows struct {
	catalog
	element string
}

func (s *shows) Snapshot(context.Context, *config.Task) (*consul.Snapshot, error) {
	return &consul.Snapshot{Condition: consul.Observation{Digest: s.element, Elements: map[string]string{s.element: "x"}}}, nil
}

// upload is what a driver records before it uploads for a remote run, and begun when
// that is there.
func upload(by, version string) state.Remote {
	return state.Remote{Workspace: "ws-1", Name: "web", By: by, Content: "content of " + version,
		Run: state.RemoteRun{Driver: "terraform", Workspace: "ws-1", Version: version, Phase: state.RemotePlanning}}
}

func begun(r state.Remote, id string, phase state.RemotePhase) state.Remote {
	r.Run.ID, r.Run.Phase = id, phase
	return r
}

// steps is a driver that carries out one step of a run after the other.
type steps struct {
	driver.Driver
	t    *testing.T
	next func(context.Context, driver.Job) (*state.Changes, error)
}

func (s *steps) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	changes, err := s.next(ctx, job)
	return driver.Outcome{Changes: changes}, err
}

// record records as the driver does.
func (s *steps) record(ctx context.Context, job driver.Job, all ...state.Remote) {
	s.t.Helper()
	for _, r := range all {
		if err := job.Remote.Write(ctx, r); err != nil {
			s.t.Error(err)
		}
		if got, err := job.Remote.Read(ctx); err != nil || got.Run != r.Run || got.By != r.By {
			s.t.Errorf("recorded: %+v, %v", got, err)
		}
	}
}

func newSteps(t *testing.T) (*fixture, *steps, *shows) {
	b := newFixture(t, nil)
	s, c := &steps{t: t}, &shows{element: "B"}
	b.Driver, b.Consul = s, c
	return b, s, c
}

func (s *steps) waits(t *testing.T, b *fixture, wait state.Wait, all ...state.Remote) {
	t.Helper()
	s.next = func(ctx context.Context, job driver.Job) (*state.Changes, error) {
		s.record(ctx, job, all...)
		return nil, &driver.WaitError{Wait: wait}
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// resumeAs launches the waiting run again because its remote run is in a phase.
func (b *fixture) resumeAs(phase state.RemotePhase) {
	b.t.Helper()
	b.resume()
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey("web", b.launch.Runs[0].ID))
	if err != nil {
		b.t.Fatal(err)
	}
	run.Data.Remote.Phase = phase
	if _, err := b.store.Apply(b.t.Context(), run.Write(run.Data)); err != nil {
		b.t.Fatal(err)
	}
}

// A person has confirmed the plan there, and it was applied before a step noticed: the
// approval is recorded in one step, and the end in the next.
func TestRemote_ConfirmedAndAppliedBeforeTheNextStep(t *testing.T) {
	b, s, _ := newSteps(t)
	first := upload("r1", "cv-1")
	s.waits(t, b, state.Wait{For: state.WaitApproval}, first, begun(first, "run-1", state.RemoteReady))
	b.resumeAs(state.RemoteEnded)
	s.waits(t, b, state.Wait{For: state.WaitRemote})
	if run, task := b.stored("r1"), b.task(); run.Remote == nil || run.Remote.ID != "run-1" || task.LiveRemote() == nil || !run.Wait.For.EndedBy(state.RemoteEnded) {
		t.Errorf("the run is %+v, its task says %+v: nothing resumes it", run, task)
	}
}

// A driver must be able to tell a task that another driver has applied from a new one.
func TestRun_DriverKnowsWhetherTheTaskWasApplied(t *testing.T) {
	for _, applied := range []bool{false, true} {
		b, s, _ := newSteps(t)
		if applied {
			if err := state.SaveInputs(t.Context(), b.store, "web", state.Inputs{Kind: "services", Elements: map[string]string{"A": "x"}}); err != nil {
				t.Fatal(err)
			}
		}
		s.next = func(_ context.Context, job driver.Job) (*state.Changes, error) {
			if job.Applied != applied {
				t.Errorf("applied before: %v, want %v", job.Applied, applied)
			}
			return &state.Changes{}, nil
		}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRemote_WhatWasUploadedCountsAsApplied(t *testing.T) {
	b, s, consul := newSteps(t)
	first := upload("r1", "cv-1")
	s.waits(t, b, state.Wait{For: state.WaitRemotePlan}, first, begun(first, "run-1", state.RemotePlanning))
	if run, task := b.stored("r1"), b.task(); !run.Staged || run.Digest != "B" || run.Remote.ID != "run-1" || task.LiveRemote() == nil || task.Run.Input != "B" || task.Applied.Digest != "A" {
		t.Fatalf("the run is %+v, its task says %+v", run, task)
	}

	// Consul shows something else in each of the steps that follow.
	consul.element = "C"
	b.resumeAs(state.RemoteReady)
	s.waits(t, b, state.Wait{For: state.WaitRemote}, begun(first, "run-1", state.RemoteApplying))
	consul.element = "D"
	b.resumeAs(state.RemoteEnded)
	s.next = func(context.Context, driver.Job) (*state.Changes, error) { return &state.Changes{Add: 1}, nil }
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if run.State != state.RunSucceeded || run.Digest != "B" || task.Applied.Digest != "B" || task.GivenUp() != nil {
		t.Errorf("the run is %+v, its task says %+v", run, task)
	}
	if in, err := state.LoadInputs(t.Context(), b.store, "web"); err != nil || !maps.Equal(in.Elements, map[string]string{"B": "x"}) {
		t.Errorf("applied with %v, %v", in.Elements, err)
	}
}

// The driver could not read how it has ended, or a person has confirmed it.
func TestRemote_RunThatHasEndedIsReadAgain(t *testing.T) {
	b, s, consul := newSteps(t)
	first := upload("r1", "cv-1")
	s.waits(t, b, state.Wait{For: state.WaitRemotePlan}, first, begun(first, "run-1", state.RemotePlanning))
	consul.element = "C"
	b.resumeAs(state.RemoteEnded)
	s.waits(t, b, state.Wait{For: state.WaitRemote}, begun(first, "run-1", state.RemoteEnded))
	if run := b.stored("r1"); run.Remote == nil || !run.Staged || run.Digest != "B" {
		t.Fatalf("the run is %+v", run)
	}
	b.resumeAs(state.RemoteEnded)
	s.next = func(context.Context, driver.Job) (*state.Changes, error) { return nil, nil }
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); task.Applied.Digest != "B" {
		t.Errorf("applied is %s", task.Applied.Digest)
	}
}

func TestRemote_AnotherUploadReplacesTheFirst(t *testing.T) {
	b, s, consul := newSteps(t)
	first, second := upload("r1", "cv-1"), upload("r1", "cv-2")
	s.waits(t, b, state.Wait{For: state.WaitRemotePlan}, first, begun(first, "run-1", state.RemotePlanning))
	consul.element = "C"
	b.resumeAs(state.RemoteReady)
	s.waits(t, b, state.Wait{For: state.WaitRemotePlan}, second, begun(second, "run-2", state.RemotePlanning))
	consul.element = "D"
	b.resumeAs(state.RemoteEnded)
	s.next = func(context.Context, driver.Job) (*state.Changes, error) { return nil, nil }
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); task.Applied.Digest != "C" {
		t.Errorf("applied is %s", task.Applied.Digest)
	}
}

func TestRemote_RunOfAnEarlierRunIsOnlyWaitedFor(t *testing.T) {
	b, s, consul := newSteps(t)
	earlier, own := upload("r0", "cv-0"), upload("r1", "cv-1")
	s.waits(t, b, state.Wait{For: state.WaitRemote}, begun(earlier, "run-0", state.RemoteApplying))
	if run := b.stored("r1"); run.Staged || run.Remote.ID != "run-0" {
		t.Fatalf("the run is %+v", run)
	}
	consul.element = "C"
	b.resumeAs(state.RemoteEnded)
	s.waits(t, b, state.Wait{For: state.WaitRemotePlan}, own, begun(own, "run-1", state.RemotePlanning))
	if run := b.stored("r1"); !run.Staged || run.Digest != "C" || b.task().Run.Input != "C" {
		t.Errorf("the run is %+v", run)
	}
}

func TestRemote_RunThatHasEndedIsPolledOrLeft(t *testing.T) {
	content := state.Content{Definition: "d", Input: "B"}
	for wait, kept := range map[state.WaitFor]bool{
		state.WaitRemote:   true,  // who has confirmed it is recorded first
		state.WaitApproval: false, // of the input: the run begins another one then
	} {
		b, s, _ := newSteps(t)
		first := upload("r1", "cv-1")
		s.waits(t, b, state.Wait{For: wait, Content: &content}, first, begun(first, "run-1", state.RemoteEnded))
		if run, live := b.stored("r1"), b.task().LiveRemote(); (run.Remote != nil) != kept || (live != nil) != kept || run.Staged != kept {
			t.Errorf("a run that waits for %s has the remote run %+v, its task %+v", wait, run.Remote, live)
		}
	}
}

func TestRemote_NothingIsRecordedWithoutTheClaim(t *testing.T) {
	b, s, _ := newSteps(t)
	s.next = func(ctx context.Context, job driver.Job) (*state.Changes, error) {
		b.giveUp("r1")
		err := job.Remote.Write(ctx, upload("r1", "cv-1"))
		if err == nil {
			t.Error("a runner without the claim goes on")
		}
		return nil, err
	}
	if err := b.run(t.Context()); err == nil {
		t.Error("no error")
	}
	if rec, err := state.Read[state.Remote](t.Context(), b.store, state.RemoteKey("web")); err != nil || rec.Exists() {
		t.Errorf("recorded: %+v, %v", rec.Data, err)
	}
}

func TestRemote_RunThatDiesLeavesItsRemoteRun(t *testing.T) {
	b, s, _ := newSteps(t)
	s.next = func(ctx context.Context, job driver.Job) (*state.Changes, error) {
		s.record(ctx, job, upload("r1", "cv-1")) // it is not known whether the remote run was created
		b.giveUp("r1")
		return nil, errors.New("killed")
	}
	_ = b.run(t.Context())
	if a := b.task().GivenUp(); a == nil || a.Version != "cv-1" || a.Workspace != "ws-1" || a.ID != "" {
		t.Errorf("left: %+v", a)
	}
}

func TestRemote_RunThatWentOnAfterItWasGivenUpLeavesItsRemoteRun(t *testing.T) {
	b, s, _ := newSteps(t)
	s.next = func(ctx context.Context, job driver.Job) (*state.Changes, error) {
		s.record(ctx, job, upload("r1", "cv-1"))
		b.giveUp("r1")
		looked := b.task().Stopped(false) // a tick has found nothing to stop: the remote run is created only now
		b.set(looked)
		return nil, job.Remote.Write(ctx, begun(upload("r1", "cv-1"), "run-1", state.RemotePlanning))
	}
	if err := b.run(t.Context()); err == nil {
		t.Error("no error")
	}
	if a := b.task().GivenUp(); a == nil || a.Version != "cv-1" {
		t.Errorf("left: %+v", a)
	}
}

func TestRemote_DecisionsInTheOtherSystemCount(t *testing.T) {
	content := state.Content{Definition: "d", Input: "B", Plan: "p"}
	for name, test := range map[string]struct {
		err      error
		state    state.RunState
		rejected bool
		says     string
		event    string
	}{
		"discarded": {&driver.EndedError{Decision: driver.Decision{Action: audit.Reject, By: "jane in HCP Terraform", Comment: "too late"}}, state.RunCancelled, true, "rejected by jane in HCP Terraform: too late", "plan rejected"},
		"cancelled": {&driver.EndedError{Decision: driver.Decision{Action: audit.Cancel, By: "jane in HCP Terraform"}}, state.RunCancelled, false, "cancelled by jane in HCP Terraform", "run cancelled"},
		"confirmed": {&driver.WaitError{Wait: state.Wait{For: state.WaitRemote}, Confirmed: &driver.Decision{Action: audit.Approve, By: "jane in HCP Terraform", At: noon.Add(time.Minute)}},
			state.RunWaiting, false, "", "plan approved"},
	} {
		t.Run(name, func(t *testing.T) {
			b, s, _ := newSteps(t)
			first := upload("r1", "cv-1")
			s.waits(t, b, state.Wait{For: state.WaitApproval, Content: &content}, first, begun(first, "run-1", state.RemoteReady))
			b.resumeAs(state.RemoteEnded)
			s.next = func(ctx context.Context, job driver.Job) (*state.Changes, error) {
				if test.state == state.RunWaiting {
					s.record(ctx, job, begun(first, "run-1", state.RemoteApplying))
				}
				return nil, test.err
			}
			if err := b.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			run, task := b.stored("r1"), b.task()
			if run.State != test.state || run.Rejected != test.rejected || run.Error != test.says || task.GivenUp() != nil {
				t.Errorf("the run is %+v, its task says %+v", run, task)
			}
			if test.state == state.RunWaiting && (run.Approval == nil || run.Approval.Content != content || run.Approved() == nil || run.Approved().By != "jane in HCP Terraform") {
				t.Errorf("approved: %+v", run.Approval)
			}
			if !strings.Contains(b.log.String(), test.event) {
				t.Errorf("there is no event %s:\n%s", test.event, b.log)
			}
		})
	}
}

// Destroy implements driver.Driver.
func (s *steps) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return s.Apply(ctx, job)
}

func TestRemote_DestroyLeavesNothingApplied(t *testing.T) {
	b, s, _ := newSteps(t)
	b.intendKind(state.KindDestroy)
	if err := state.SaveInputs(t.Context(), b.store, "web", state.Inputs{Elements: map[string]string{"web-1": "x"}}); err != nil {
		t.Fatal(err)
	}
	first := upload("r1", "cv-1")
	s.waits(t, b, state.Wait{For: state.WaitRemotePlan}, first, begun(first, "run-1", state.RemotePlanning))
	b.resumeAs(state.RemoteReady)
	s.waits(t, b, state.Wait{For: state.WaitRemote}, begun(first, "run-1", state.RemoteApplying))
	b.resumeAs(state.RemoteEnded)
	s.next = func(context.Context, driver.Job) (*state.Changes, error) { return &state.Changes{Destroy: 1}, nil }
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run, task := b.stored("r1"), b.task(); run.State != state.RunSucceeded || run.Digest != "" || task.Applied.Digest != "" || task.GivenUp() != nil {
		t.Errorf("the run is %+v, its task says %+v", run, task)
	}
	if inputs, err := state.LoadInputs(t.Context(), b.store, "web"); err != nil || inputs.Elements != nil {
		t.Errorf("kept as applied: %+v, %v", inputs, err)
	}
}

// Until a run succeeds with the driver that the configuration has now, the record of what
// another system has stays: a driver refuses a task without its state by it.
func TestRemote_TaskThatComesBackIsJudgedUntilItHasSucceeded(t *testing.T) {
	b, s, _ := newSteps(t)
	s.waits(t, b, state.Wait{For: state.WaitRemotePlan}, upload("r1", "cv-1"))
	for i, failed := range []error{errors.New("it has no state"), nil} {
		task := b.task()
		task.RunsRemotely("terraform-cloud")
		b.intend(fmt.Sprint("back-", i), task)
		run := state.Stored[state.Run]{Data: b.stored(fmt.Sprint("back-", i))}
		rec, err := b.store.Get(t.Context(), state.RunKey("web", run.Data.ID))
		if err != nil {
			t.Fatal(err)
		}
		run.Record, run.Data.FromRemote = rec, true
		if _, err := b.store.Apply(t.Context(), run.Write(run.Data)); err != nil {
			t.Fatal(err)
		}
		s.next = func(ctx context.Context, job driver.Job) (*state.Changes, error) {
			if before, err := job.Remote.Read(ctx); err != nil || before.Workspace != "ws-1" || job.Judge == nil {
				t.Errorf("the driver finds %+v, %v, and a judge: %v", before, err, job.Judge != nil)
			}
			return &state.Changes{}, failed
		}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = b.store.Get(t.Context(), state.RemoteKey("web"))
		if left := !errors.Is(err, state.ErrNotFound); left != (failed != nil) || (b.task().RemoteRun != nil) != left {
			t.Errorf("after a run with the error %v, the record is left: %v, %v; the task says %v", failed, left, err, b.task().RemoteRun)
		}
	}
}

// The ids that another driver has recorded mean nothing in the system of this one.
func TestRemote_DriverDoesNotGetWhatAnotherOneRecorded(t *testing.T) {
	b, _, _ := newSteps(t)
	c, err := b.claim(t.Context(), b.launch, b.launch.Runs[0])
	if err != nil {
		t.Fatal(err)
	}
	first, second := &config.DriverKind{Name: "first", Remote: true}, &config.DriverKind{Name: "second", Remote: true}
	if err := (remote{c, first, &result{snap: &consul.Snapshot{}}}).Write(t.Context(), upload("r0", "cv-1")); err != nil {
		t.Fatal(err)
	}
	for kind, version := range map[*config.DriverKind]string{first: "cv-1", second: "", (&config.Config{}).Driver().Kind(): "cv-1"} {
		if got, err := (remote{c, kind, nil}).Read(t.Context()); err != nil || got.Run.Version != version {
			t.Errorf("driver %s gets %+v, %v", kind.Name, got, err)
		}
	}
	if run := b.stored("r1"); run.Remote == nil || run.Remote.Driver != "first" {
		t.Errorf("the run says %+v", run.Remote)
	}
}

func TestRun_TaskWhoseBackendHasChangedCanBeJudged(t *testing.T) {
	b, s, _ := newSteps(t)
	for i, step := range []struct {
		backend string
		changed bool
	}{{"", false}, {"", false}, {"of before", true}, {"", false}} {
		if step.backend != "" {
			in, err := state.LoadInputs(t.Context(), b.store, "web")
			if in.Backend = step.backend; err == nil {
				err = state.SaveInputs(t.Context(), b.store, "web", in)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if i > 0 {
			b.intend(fmt.Sprint("next-", i), b.task())
		}
		s.next = func(_ context.Context, job driver.Job) (*state.Changes, error) {
			if job.BackendChanged != step.changed || job.Judge == nil || !job.OnlyIfOlder {
				t.Errorf("run %d: changed: %v, with a judge: %v, only for an older state: %v", i, job.BackendChanged, job.Judge != nil, job.OnlyIfOlder)
			}
			return &state.Changes{}, nil
		}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
