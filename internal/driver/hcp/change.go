package hcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// maxSteps limits how often a step starts over because the status of the run has changed.
const maxSteps = 5

// errBegin says that all earlier runs have ended: a run can be created.
var errBegin = errors.New("create a run")

// change carries out one step: it goes on with the latest run in HCP Terraform, or creates one.
func (d *Driver) change(ctx context.Context, job driver.Job, destroy bool) (driver.Outcome, error) {
	s, err := d.begin(ctx, job, destroy)
	if err != nil {
		return driver.Outcome{}, err
	}
	s.done.Changes, err = s.change(ctx)
	waits := job.Run.Remote != nil || s.wrote // otherwise no poll would end the wait
	if errors.Is(err, ErrUnknown) && ctx.Err() == nil && s.rec.Run.ID != "" && s.rec.By == job.Run.ID && waits {
		what := state.WaitRemotePlan // even if it was confirmed: the next step reads by whom
		if s.confirmed() {
			what = state.WaitRemote
		}
		s.say("HCP Terraform does not answer, trying again: %v", err)
		err = &driver.WaitError{Wait: state.Wait{For: what, Text: state.Cut(err.Error())}}
	}
	return s.done, err
}

func (s *step) change(ctx context.Context) (*state.Changes, error) {
	for range maxSteps {
		run, err := s.latest(ctx)
		if err != nil {
			return nil, err
		}
		if run != nil {
			changes, err := s.follow(ctx, *run)
			if !errors.Is(err, errBegin) {
				return changes, err
			}
		}
		changes, err := s.create(ctx)
		if !errors.Is(err, errBegin) {
			return changes, err
		}
	}
	return nil, fmt.Errorf("the status of the run in HCP Terraform changed %d times during one step, the next attempt goes on: %s", maxSteps, s.rec.Run.URL)
}

// latest returns the run that was recorded last; nil if there is none. If the process died
// before it recorded the id of the run, its configuration version identifies it.
func (s *step) latest(ctx context.Context) (*Run, error) {
	switch r := s.rec.Run; {
	case r.ID != "":
		run, err := s.api.Run(ctx, r.ID)
		if errors.Is(err, ErrNotFound) {
			s.unsure = true
			return nil, nil // if the token has lost its rights, the read of the workspace fails
		}
		return &run, s.failed("read the run "+r.ID, err)
	case r.Version != "" && s.rec.Workspace != "":
		run, err := withVersion(ctx, s.api, s.rec.Workspace, r.Version, false)
		if errors.Is(err, ErrNotFound) {
			return nil, nil
		}
		return run, s.failed("list the runs of the workspace "+s.rec.Name, err)
	default:
		return nil, nil
	}
}

// withVersion returns the run of a configuration version; nil if there is none. A person may have queued
// another one with the same version later. Some servers keep no messages.
func withVersion(ctx context.Context, api API, workspace, version string, planOnly bool) (*Run, error) {
	runs, err := api.Runs(ctx, workspace, planOnly)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(runs) {
		if r.Version == version && (r.Message == "" || strings.HasPrefix(r.Message, byUs)) {
			run, err := api.Run(ctx, r.ID)
			return &run, err
		}
	}
	return nil, nil
}

// follow goes on with a run that exists. The error is errBegin if a new run is needed.
func (s *step) follow(ctx context.Context, run Run) (*state.Changes, error) {
	s.logUnknown(run)
	own, same := s.rec.By == s.job.Run.ID, s.rec.Content == s.upload.digest && s.rec.Intent != state.RemoteStop
	if !own {
		if err := s.decidedBefore(ctx, run); err != nil {
			return nil, err
		}
	}
	switch phaseOf(run) {
	case state.RemoteEnded:
		if !own && s.rec.Run.Phase != state.RemoteEnded && begun(run) { // nobody has seen that it was confirmed
			s.rec.ConfirmedLate = run.ID
		}
		if !own || s.job.Run.Remote == nil { // the run waited for an approval before it creates another one
			return nil, errBegin
		}
		return s.end(ctx, run)
	case state.RemoteApplying:
		if err := s.recordPhase(ctx, run); err != nil {
			return nil, err
		}
		var given *driver.Decision
		if own && !s.confirmed() {
			s.copyPlan(ctx, run)
			var err error
			if given, err = s.confirmation(ctx, run); err != nil {
				return nil, err
			}
		}
		return nil, s.waitFor(state.WaitRemote, run, given)
	}
	if !same {
		return nil, s.replace(ctx, run)
	}
	if !own {
		s.say("The run %s of an earlier attempt has the same content: it goes on. %s", run.ID, s.url(s.rec.Name, run.ID))
		s.rec.By = s.job.Run.ID
	}
	s.rec.Run, s.rec.Intent = s.remote(run), ""
	if err := s.record(ctx); err != nil {
		return nil, err
	}
	if phaseOf(run) == state.RemotePlanning {
		if was := s.job.Run.Remote; run.Status == statusPending && was != nil && was.Phase == state.RemoteReady { // Poll has seen a stray run before it
			if err := s.stopStrays(ctx, run); err != nil {
				return nil, err
			}
		}
		return nil, s.waitFor(state.WaitRemotePlan, run, nil)
	}
	if s.job.Judge == nil && s.job.Run.AppliedElsewhere() { // the record says that it was confirmed: the next step judges it
		return nil, s.waitFor(state.WaitRemotePlan, run, nil)
	}
	return s.judge(ctx, run)
}

// copyPlan copies the output of the plan into the output of the run, unless that has it.
func (s *step) copyPlan(ctx context.Context, run Run) {
	w := s.job.Run.Wait
	earlier := s.job.Continued && w != nil && w.For != state.WaitRemotePlan
	if !s.planned && !earlier {
		s.planText = s.copyLog(ctx, run.Plan)
	}
	s.planned = true
}

// confirmed reports whether Terrapulse knows already that the run was confirmed.
func (s *step) confirmed() bool {
	w := s.job.Run.Wait
	return w != nil && w.For == state.WaitRemote
}

// replace stops a run whose content is not what would be uploaded now, and says there what
// has changed. The error is errBegin as soon as the run has ended.
func (s *step) replace(ctx context.Context, run Run) error {
	why := "the data in Consul or the task has changed"
	if text := s.job.Run.Reason.Text; text != "" && s.rec.By != s.job.Run.ID {
		why = text
	}
	if s.rec.Intent != state.RemoteStop {
		s.rec.Intent = state.RemoteStop
		if err := s.record(ctx); err != nil {
			return err
		}
	}
	run, _, err := s.stop(ctx, s.api, run, fmt.Sprintf("Replaced by Terrapulse: %s. Run %s of task %s follows.", strings.TrimSuffix(why, "."), s.job.Run.ID, s.job.Task.Name))
	if err != nil {
		return s.failed("stop the run "+run.ID+", whose content has changed", err)
	}
	if phaseOf(run) == state.RemoteEnded && !succeeded(run) {
		return errBegin
	}
	if err := s.recordPhase(ctx, run); err != nil {
		return err
	}
	if p := phaseOf(run); p.PastApproval() { // somebody has confirmed it before
		var given *driver.Decision
		if s.rec.By == s.job.Run.ID {
			if given, err = s.confirmation(ctx, run); err != nil {
				return err
			}
		}
		return s.waitFor(state.WaitRemote, run, given)
	}
	return s.waitFor(state.WaitRemotePlan, run, nil)
}

// stop discards or cancels a run that applies nothing yet, and returns how it is then. Done
// is not set if it could be neither discarded nor cancelled at the moment.
func (d *Driver) stop(ctx context.Context, api API, run Run, comment string) (now Run, done bool, err error) {
	for range maxSteps {
		var a Action
		switch phase := phaseOf(run); {
		case phase == state.RemoteEnded || phase == state.RemoteApplying:
			return run, true, nil
		case run.Discardable:
			a = Discard
		case run.Cancelable:
			a = Cancel
		default:
			return run, false, nil
		}
		acted := api.Act(ctx, run.ID, a, comment)
		if acted != nil && !errors.Is(acted, ErrConflict) && !errors.Is(acted, ErrUnknown) {
			return run, false, acted
		}
		again, err := api.Run(ctx, run.ID)
		if err != nil {
			return run, false, err
		}
		if run = again; acted == nil {
			return run, true, nil
		}
	}
	return run, false, nil
}

// judge has the plan of a run judged, and confirms it.
func (s *step) judge(ctx context.Context, run Run) (*state.Changes, error) {
	if s.ws.ID == "" {
		var err error
		if s.ws, err = s.findWorkspace(ctx); err != nil {
			return nil, err
		}
		s.noteForeign(false)
	}
	s.copyPlan(ctx, run)
	if s.job.Judge != nil {
		plan, err := s.plan(ctx, run)
		if err != nil {
			return nil, err
		}
		if err := s.job.Judge(ctx, plan); err != nil {
			return nil, err
		}
	}
	s.rec.Intent, s.rec.Applied = state.RemoteConfirm, true
	if err := s.record(ctx); err != nil { // renews the claim: nothing is confirmed for a run that was given up
		return nil, err
	}
	err := s.api.Act(ctx, run.ID, Confirm, "Confirmed by Terrapulse, run "+s.job.Run.ID+".")
	if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrUnknown) {
		return nil, s.failed("confirm the run "+run.ID, err)
	}
	again, readErr := s.api.Run(ctx, run.ID)
	if readErr != nil {
		return nil, s.failed("read the run "+run.ID+" after it was confirmed", readErr)
	}
	switch phaseOf(again) {
	case state.RemoteReady:
		if err != nil {
			return nil, s.failed("confirm the run "+run.ID, err)
		}
	case state.RemoteEnded:
		return s.end(ctx, again)
	case state.RemotePlanning, state.RemoteApplying:
	}
	s.rec.Run = s.remote(again)
	s.rec.Run.Phase = state.RemoteApplying
	if err := s.record(ctx); err != nil {
		return nil, err
	}
	s.say("The plan is confirmed. %s", s.rec.Run.URL)
	return nil, s.waitFor(state.WaitRemote, again, nil)
}

// end returns the outcome of a run that has ended. The error is errBegin if Terrapulse
// itself has stopped it, so that a new run follows.
func (s *step) end(ctx context.Context, run Run) (*state.Changes, error) {
	if err := s.recordPhase(ctx, run); err != nil {
		return nil, err
	}
	if !s.rec.Unsure.IsZero() {
		if err := s.stopStrays(ctx, run); err != nil {
			s.say("The next run of the task tries again: %v", err)
		}
	}
	if stopped(run) && s.rec.Intent == state.RemoteStop {
		return nil, errBegin
	}
	if begun(run) && !s.confirmed() { // a person confirmed it, or the answer to Terrapulse was lost
		s.copyPlan(ctx, run)
		given, err := s.confirmation(ctx, run)
		if err != nil {
			return nil, err
		}
		if given != nil {
			return nil, s.waitFor(state.WaitRemote, run, given)
		}
	}
	switch {
	case stopped(run):
		return nil, s.endedBy(ctx, run)
	case run.Status == statusErrored:
		return nil, s.errored(ctx, run)
	}
	soon, done := context.WithTimeout(ctx, adornTime)
	defer done()
	s.copyPlan(soon, run)
	if run.Status == statusNoChanges {
		s.done.Checks = s.checked(ctx, run, run.Plan, s.planText, s.checksOfPlan)
		return s.finish(ctx, &state.Changes{}, false)
	}
	text, changes := s.copyLog(soon, run.Apply), s.applied(soon, run)
	s.done.Made = s.made(soon, run, changes)
	s.done.Checks = s.checked(ctx, run, run.Apply, text, s.checksOfState)
	return s.finish(ctx, changes, true)
}

// adornTime is how long the outcome of a run that succeeded waits for what only adorns it: its output,
// its numbers and the addresses of its resources.
const adornTime = 5 * time.Second

// finish ends a run that succeeded; applied says that there was something to apply.
func (s *step) finish(ctx context.Context, changes *state.Changes, applied bool) (*state.Changes, error) {
	if s.settled(applied) || s.rec.Moved || s.destroy && s.rec.Applied {
		s.rec.Moved, s.rec.Applied = false, s.rec.Applied && !s.destroy
		if err := s.record(ctx); err != nil {
			return changes, err
		}
	}
	if !s.destroy {
		return changes, nil
	}
	ws, err := s.findWorkspace(ctx)
	if err != nil {
		return changes, err
	}
	s.ws = ws
	return changes, s.deleteWorkspace(ctx)
}

// errored returns the error of a run that failed, with what Terraform says.
func (s *step) errored(ctx context.Context, run Run) error {
	url := s.url(s.rec.Name, run.ID)
	failed, what := run.Plan, "plan"
	if run.Apply.Status == statusErrored {
		failed, what = run.Apply, "apply"
	}
	message := errorIn(s.copyLog(ctx, failed))
	switch {
	case message != "":
	case failed.Status == statusErrored:
		message = "its output has no error"
	case run.Checked:
		return fmt.Errorf("HCP Terraform refused the run: a mandatory policy or a run task failed (%s)", url)
	default:
		return fmt.Errorf("the run in HCP Terraform failed, and neither its plan (%s) nor its apply (%s) says why: see its page (%s)",
			cmp.Or(run.Plan.Status, "no status"), cmp.Or(run.Apply.Status, "no status"), url)
	}
	return fmt.Errorf("the %s in HCP Terraform failed: %s (%s)", what, message, url)
}

const (
	// uploadTime is how long HCP Terraform may take to unpack an upload.
	uploadTime = 2 * time.Minute
	// uploadSoon is the time between its first two polls: most uploads are small. It doubles up to
	// uploadPoll.
	uploadSoon = 100 * time.Millisecond
	uploadPoll = 500 * time.Millisecond
)

// create creates a run for what is to be applied now.
func (s *step) create(ctx context.Context) (*state.Changes, error) {
	if err := s.mayBegin(ctx); err != nil {
		return nil, err
	}
	s.rec.Moved = s.rec.Moved || s.first && s.job.Applied
	if s.destroy {
		switch ws, err := s.findWorkspace(ctx); {
		case errors.Is(err, errNoWorkspace):
			s.say("The task has no workspace: there is nothing to destroy.")
			return &state.Changes{}, nil
		case err != nil:
			return nil, err
		default:
			s.ws = ws
		}
	}
	if err := s.workspace(ctx); err != nil {
		return nil, err
	}
	s.noteForeign(true)
	if stray, err := s.stray(ctx); err != nil {
		return nil, err
	} else if stray != nil {
		s.rec.Run, s.rec.By, s.rec.Content, s.rec.Intent = s.remote(*stray), "", "", ""
		if err := s.record(ctx); err != nil {
			return nil, err
		}
		return s.follow(ctx, *stray)
	}
	if err := s.setVariables(ctx); err != nil {
		return nil, err
	}
	s.notification(ctx)
	version, err := s.api.CreateVersion(ctx, s.ws.ID, false)
	if err != nil {
		return nil, s.failed("create a configuration version in the workspace "+s.ws.Name, err)
	}
	s.rec.Run = state.RemoteRun{Workspace: s.ws.Name, Version: version.ID, Phase: state.RemotePlanning}
	s.uploaded(version.ID)
	s.rec.By, s.rec.Content, s.rec.Intent = s.job.Run.ID, s.upload.digest, ""
	if err := s.record(ctx); err != nil {
		return nil, err
	}
	if err := s.send(ctx, version); err != nil {
		return nil, err
	}
	run, err := s.createRun(ctx, NewRun{Workspace: s.ws.ID, Version: version.ID, Message: s.message(), Destroy: s.destroy})
	if err != nil {
		return nil, s.failed("create a run in the workspace "+s.ws.Name, err)
	}
	s.logUnknown(run)
	s.rec.Run = s.remote(run)
	if s.rec.Run.Phase != state.RemoteEnded { // the next step reads how it went on
		s.rec.Run.Phase = state.RemotePlanning
	}
	s.rec.Run.Version, run.Version = version.ID, version.ID
	if err := s.record(ctx); err != nil {
		s.stopUnrecorded(ctx, run)
		return nil, err
	}
	s.say("The run %s was created in the workspace %s. %s", run.ID, s.ws.Name, s.rec.Run.URL)
	return nil, s.waitFor(state.WaitRemotePlan, run, nil)
}

// send uploads the content of a configuration version, and waits until it can be used.
func (s *step) send(ctx context.Context, version Version) error {
	if err := s.api.Upload(ctx, version, s.upload.archive); err != nil {
		return s.failed("upload to the workspace "+s.ws.Name, err)
	}
	for until, polls := s.Now().Add(uploadTime), 1; ; polls++ {
		now, err := s.api.Version(ctx, version.ID)
		switch {
		case err != nil:
			return s.failed("read the configuration version "+version.ID, err)
		case now.Status == "uploaded":
			return nil
		case now.Status == statusErrored:
			return fmt.Errorf("HCP Terraform cannot use the upload to the workspace %s: %s", s.ws.Name, now.Error)
		case s.Now().After(until):
			return fmt.Errorf("HCP Terraform has not unpacked the upload to the workspace %s within %s: its status is %s", s.ws.Name, uploadTime, now.Status)
		}
		if err := s.Wait(ctx, delay.Doubled(uploadSoon, uploadPoll, polls)); err != nil {
			return err
		}
	}
}

// createRun creates a run. If the answer is lost, it looks for the run with the same
// configuration version: one version never gets two runs.
func (s *step) createRun(ctx context.Context, n NewRun) (Run, error) {
	run, err := s.api.CreateRun(ctx, n)
	if err == nil {
		return run, nil
	}
	if errors.Is(err, ErrUnknown) {
		if found, again := withVersion(ctx, s.api, n.Workspace, n.Version, n.PlanOnly); again == nil && found != nil {
			return *found, nil
		}
	}
	return Run{}, err
}
