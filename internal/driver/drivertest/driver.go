package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Driver has an office carry out runs.
type Driver struct {
	// Open returns the system that a configuration names.
	Open func(ctx context.Context, cfg *config.Config) (System, error)
}

var _ remotes.Driver = (*Driver)(nil)

// Check implements driver.Driver.
func (*Driver) Check(*config.Config, *config.Task) config.Errors { return nil }

// Plan implements driver.Driver.
func (d *Driver) Plan(ctx context.Context, job driver.Job) (driver.Plan, error) {
	s, err := d.begin(ctx, job, false)
	if err != nil {
		return driver.Plan{}, err
	}
	begin := s.new(job.Run.ID + ".plan")
	begin.PlanOnly = true
	r, err := s.Begin(ctx, begin, "")
	for err == nil && r.Phase != state.RemoteEnded {
		if !delay.For(ctx, time.Second) {
			return driver.Plan{}, context.Cause(ctx)
		}
		r, err = s.Get(ctx, r.ID)
	}
	if err == nil && r.Result != Unchanged {
		err = fmt.Errorf("the plan is %s", r.Result)
	}
	return r.Plan, err
}

// Apply implements driver.Driver.
func (d *Driver) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return d.change(ctx, job, false)
}

// Destroy implements driver.Driver.
func (d *Driver) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return d.change(ctx, job, true)
}

// step is a call of the driver for a task.
type step struct {
	System
	job     driver.Job
	destroy bool
	rec     state.Remote
	content string
}

func (d *Driver) begin(ctx context.Context, job driver.Job, destroy bool) (*step, error) {
	system, err := d.Open(ctx, job.Config)
	if err != nil {
		return nil, err
	}
	s := &step{System: system, job: job, destroy: destroy, content: fmt.Sprint(job.Task.Digest(job.Config), job.Snapshot.Condition.Digest, destroy)}
	if job.Remote != nil {
		s.rec, err = job.Remote.Read(ctx)
	}
	s.rec.Name = cmp.Or(s.rec.Name, job.Task.Name) // a renamed task keeps its file
	return s, err
}

// new is a run that the step can begin.
func (s *step) new(version string) Run {
	return Run{File: s.rec.Name, Version: version, Content: s.content, Module: s.job.Task.Module, Input: s.job.Snapshot.Condition.Digest, Destroy: s.destroy, Phase: state.RemotePlanning}
}

func as(r Run) state.RemoteRun {
	return state.RemoteRun{ID: r.ID, Workspace: r.File, Version: r.Version, Phase: r.Phase}
}

// record records a run, or that a new one will be begun.
func (s *step) record(ctx context.Context, r state.RemoteRun, by string, intent state.RemoteIntent) error {
	s.rec.Run, s.rec.By, s.rec.Intent = r, by, intent
	return s.job.Remote.Write(ctx, s.rec)
}

// errAgain says that the latest run has changed, or has ended for a new one.
var errAgain = errors.New("the run in the office changes too often")

func (d *Driver) change(ctx context.Context, job driver.Job, destroy bool) (done driver.Outcome, err error) {
	s, err := d.begin(ctx, job, destroy)
	if err != nil {
		return done, err
	}
	for range 5 {
		r, err := s.Latest(ctx, s.rec.Name)
		if err == nil {
			done.Changes, err = s.follow(ctx, r)
		}
		if !errors.Is(err, errAgain) {
			return done, err
		}
	}
	return done, errAgain
}

// follow goes on with the latest run, or begins one.
func (s *step) follow(ctx context.Context, r Run) (*state.Changes, error) {
	known := s.rec.Run.Version == r.Version
	own := known && s.rec.By == s.job.Run.ID
	by := "an earlier run" // what it applies is not what this run has read
	if own {
		by = s.job.Run.ID
	}
	same := known && r.Content == s.content && s.rec.Intent != state.RemoteStop
	switch {
	case r.Phase == "" || r.Phase == state.RemoteEnded && !(own && s.job.Run.Remote != nil):
		return nil, s.create(ctx, r)
	case r.Phase == state.RemoteEnded:
		return s.end(ctx, r)
	case r.Phase == state.RemoteApplying:
		var given *driver.Decision
		if own {
			given = s.given(r)
		}
		if err := s.record(ctx, as(r), by, s.rec.Intent); err != nil {
			return nil, err
		}
		return nil, wait(state.WaitRemote, r, given)
	case !same:
		if err := s.record(ctx, as(r), by, state.RemoteStop); err != nil {
			return nil, err
		}
		if err := s.End(ctx, r.ID, "something else is applied now", false); err != nil && !errors.Is(err, ErrConflict) {
			return nil, err
		}
		return nil, errAgain
	}
	if err := s.record(ctx, as(r), s.job.Run.ID, ""); err != nil {
		return nil, err
	}
	if r.Phase == state.RemotePlanning || s.job.Judge == nil { // without a Judge, the record says that it was confirmed
		return nil, wait(state.WaitRemotePlan, r, nil)
	}
	return nil, s.confirm(ctx, r)
}

// create begins a run after the latest one.
func (s *step) create(ctx context.Context, latest Run) error {
	version := s.job.Run.ID + ".1"
	if before, ok := strings.CutPrefix(s.rec.Run.Version, s.job.Run.ID+"."); ok {
		version = s.job.Run.ID + "." + before + "1"
	}
	r := s.new(version)
	s.rec.Content = r.Content
	if err := s.record(ctx, as(r), s.job.Run.ID, ""); err != nil {
		return err
	}
	r, err := s.Begin(ctx, r, latest.Version)
	switch {
	case errors.Is(err, ErrConflict):
		return errAgain
	case err != nil:
		return err
	}
	if err := s.record(ctx, as(r), s.job.Run.ID, ""); err != nil {
		return err
	}
	return wait(state.WaitRemotePlan, r, nil)
}

// confirm has the plan of a run judged, and confirms it.
func (s *step) confirm(ctx context.Context, r Run) error {
	if err := s.job.Judge(ctx, r.Plan); err != nil {
		return err
	}
	if err := s.record(ctx, as(r), s.job.Run.ID, state.RemoteConfirm); err != nil {
		return err
	}
	if err := s.Confirm(ctx, r.ID); errors.Is(err, ErrConflict) {
		return errAgain
	} else if err != nil {
		return err
	}
	r.Phase = state.RemoteApplying
	if err := s.record(ctx, as(r), s.job.Run.ID, state.RemoteConfirm); err != nil {
		return err
	}
	return wait(state.WaitRemote, r, nil)
}

// end returns the outcome of a run that has ended.
func (s *step) end(ctx context.Context, r Run) (*state.Changes, error) {
	intent := s.rec.Intent
	if err := s.record(ctx, as(r), s.job.Run.ID, intent); err != nil {
		return nil, err
	}
	if given := s.given(r); given != nil {
		return nil, wait(state.WaitRemote, r, given)
	}
	switch {
	case r.Result == Applied || r.Result == Unchanged:
		fmt.Fprintln(s.job.Output, "The office has "+r.Result+" it.")
		return r.Plan.Changes, nil
	case r.Result == Failed:
		return nil, fmt.Errorf("the run %s has failed in the office", r.ID)
	case intent == state.RemoteStop:
		return nil, s.create(ctx, r)
	case r.Result == Discarded:
		return nil, &driver.EndedError{Decision: driver.Decision{Action: audit.Reject, By: r.EndedBy, Remote: r.ID, Run: s.job.Run.ID}}
	}
	return nil, &driver.EndedError{Decision: driver.Decision{Action: audit.Cancel, By: r.EndedBy, Remote: r.ID, Run: s.job.Run.ID}}
}

// given is the decision of a person who has confirmed the run, unless the run has it already.
func (s *step) given(r Run) *driver.Decision {
	if w := s.job.Run.Wait; r.By == "" || r.By == Us || s.rec.Intent == state.RemoteConfirm || w != nil && w.For == state.WaitRemote {
		return nil
	}
	return &driver.Decision{Action: audit.Approve, By: r.By, At: r.At, Remote: r.ID, Run: s.job.Run.ID}
}

// wait is the error of a run that waits for its remote run.
func wait(what state.WaitFor, r Run, given *driver.Decision) error {
	return &driver.WaitError{Wait: state.Wait{For: what, Text: r.ID + " is " + string(r.Phase)}, Confirmed: given}
}

// Poll implements reconcile.Remote.
func (d *Driver) Poll(ctx context.Context, cfg *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	s, err := d.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	found := map[string]state.RemoteStatus{}
	for _, r := range runs {
		now, err := s.Latest(ctx, r.Workspace)
		if err != nil {
			return found, err
		}
		status := state.RemoteStatus{Phase: state.RemoteEnded}
		if now.Version == r.Version {
			status.Phase = now.Phase
		}
		found[r.ID] = status
	}
	return found, nil
}

// Await implements reconcile.Remote.
func (d *Driver) Await(ctx context.Context, cfg *config.Config, waits []state.RemoteWait) map[string]state.RemoteStatus {
	for delay.For(ctx, time.Second) {
		s, err := d.Open(ctx, cfg)
		if err != nil {
			continue
		}
		for _, w := range waits {
			if now, err := s.Get(ctx, w.Run); err == nil && now.Phase != w.Phase {
				return map[string]state.RemoteStatus{w.Run: {Phase: now.Phase}}
			}
		}
	}
	return nil
}

// Stop implements reconcile.Remote.
func (d *Driver) Stop(ctx context.Context, cfg *config.Config, left *state.RemoteRun) (applied bool, err error) {
	s, err := d.Open(ctx, cfg)
	if err != nil {
		return false, err
	}
	r, err := s.Latest(ctx, left.Workspace)
	if err != nil || r.Version != left.Version || r.Phase == state.RemoteEnded {
		return err == nil && r.Version == left.Version && r.By != "", err
	}
	why := left.GivenUp
	if r.Phase == state.RemoteApplying && !why.Cancel {
		return true, nil
	}
	return r.Phase == state.RemoteApplying, s.End(ctx, r.ID, why.Comment, why.Cancel)
}

// Output implements remotes.Driver.
func (d *Driver) Output(ctx context.Context, cfg *config.Config, run state.Run) (string, error) {
	s, err := d.Open(ctx, cfg)
	if err != nil {
		return "", err
	}
	r, err := s.Get(ctx, run.Remote.ID)
	return fmt.Sprintf("The office is %s.\n", r.Phase), err
}

// Reach implements remotes.Driver.
func (d *Driver) Reach(ctx context.Context, cfg *config.Config) (string, error) {
	_, err := d.Poll(ctx, cfg, []state.RemoteRun{{Workspace: "none"}})
	return "the office answers", err
}
