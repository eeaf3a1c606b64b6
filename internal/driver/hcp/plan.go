package hcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/tfplan"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// plan returns the plan of a run for a judge: first its numbers, and its details on
// demand. If a number is missing, the details are read at once, because they may have it.
func (s *step) plan(ctx context.Context, run Run) (driver.Plan, error) {
	inState, err := s.resources(ctx, s.ws)
	if err != nil {
		return driver.Plan{}, err
	}
	plan := driver.Plan{
		Changes: changesOf(run), New: empty(inState), InState: inState, Clean: s.scrub.Clean,
		Print: func(ctx context.Context) (string, error) { return s.log(ctx, run.Plan) },
	}
	plan.Causes = s.causes(plan.Changes)
	first := plan
	plan.Detail = func(ctx context.Context) (driver.Plan, error) { return s.details(ctx, run, first) }
	if plan.Changes.Unknown || plan.InState == nil {
		return plan.Detail(ctx)
	}
	return plan, nil
}

// causes are why a plan with these changes needs an approval.
func (s *step) causes(c *state.Changes) (all []state.Cause) {
	if !s.ws.AutoApply {
		all = []state.Cause{{Rule: state.RuleApproval, Text: fmt.Sprintf("the workspace %s is set to manual apply", s.ws.Name)}}
	}
	if s.rec.Moved && !s.destroy && (c.Add > 0 || c.Uncounted || c.Unknown) {
		all = append(all, state.Cause{Rule: state.RuleApproval, Text: fmt.Sprintf("another driver has applied the task before: "+
			"if the state in the workspace %s is not the latest one, the plan creates again what already exists", s.ws.Name)})
	}
	return append(all, s.strangers(c)...)
}

// details adds to a plan what its JSON says. If the token may not read that, the plan has
// numbers alone, and is identified by its run.
func (s *step) details(ctx context.Context, run Run, plan driver.Plan) (driver.Plan, error) {
	raw, err := s.api.PlanJSON(ctx, run.Plan.ID)
	if errors.Is(err, ErrNotFound) {
		sum := sha256.Sum256([]byte(run.ID))
		plan.Digest = hex.EncodeToString(sum[:])
		return plan, nil
	}
	if err != nil {
		return plan, s.failed("read the plan of "+run.ID, err)
	}
	var document tfjson.Plan
	if err := json.Unmarshal(raw, &document); err != nil {
		return plan, fmt.Errorf("read the plan of %s: %w", run.ID, err)
	}
	found, err := tfplan.Of(&document, s.scrub.Clean)
	if err != nil {
		return plan, fmt.Errorf("read the plan of %s: %w", run.ID, err)
	}
	found.Changes.Uncounted = run.HasChanges && !found.Changes.Any()
	found.New, found.Clean, found.Print, found.Causes = plan.New, plan.Clean, plan.Print, s.causes(found.Changes)
	found.InState = cmp.Or(found.InState, plan.InState) // that of the workspace may be older
	found.JSON = func(context.Context) (json.RawMessage, error) { return tfplan.Document(&document) }
	return found, nil
}

// changesOf returns the numbers of a plan.
func changesOf(run Run) *state.Changes {
	c := run.Plan.changes()
	c.Uncounted = run.HasChanges && !c.Any()
	return c
}

// applied returns the numbers of what a run has applied: those of its apply, else of its
// plan, else of the JSON of the plan.
func (s *step) applied(ctx context.Context, run Run) *state.Changes {
	for _, p := range []Phase{run.Apply, run.Plan} {
		if p.Counted {
			return p.changes()
		}
	}
	plan, err := s.details(ctx, run, driver.Plan{Changes: &state.Changes{Unknown: true}})
	if err != nil {
		s.say("How many resources were changed cannot be read: %v.", err)
		return &state.Changes{Unknown: true}
	}
	return plan.Changes.Counts()
}

// Plan implements driver.Driver. The run cannot be applied. If the task has no workspace,
// one is created, and deleted again.
func (d *Driver) Plan(ctx context.Context, job driver.Job) (driver.Plan, error) {
	s, err := d.begin(ctx, job, false)
	if err != nil {
		return driver.Plan{}, err
	}
	s.reads = true
	if err := s.workspace(ctx); err != nil {
		return driver.Plan{}, err
	}
	if s.created {
		defer s.removeAgain(ctx)
		s.wouldSetUp("creates the workspace %s", s.ws.Name)
	}
	if err := s.setVariables(ctx); err != nil {
		return driver.Plan{}, err
	}
	variables, err := s.literals(s.replaced)
	if err != nil {
		return driver.Plan{}, err
	}
	version, err := s.api.CreateVersion(ctx, s.ws.ID, true)
	if err != nil {
		return driver.Plan{}, s.failed("create a configuration version in the workspace "+s.ws.Name, err)
	}
	if err := s.send(ctx, version); err != nil {
		return driver.Plan{}, err
	}
	run, err := s.createRun(ctx, NewRun{Workspace: s.ws.ID, Version: version.ID, PlanOnly: true, Variables: variables,
		Message: fmt.Sprintf(byUs+"plans task %s, run %s", job.Task.Name, job.Run.ID)})
	if err != nil {
		s.cancelLost(ctx, version, err)
		return driver.Plan{}, s.failed("create a run in the workspace "+s.ws.Name, err)
	}
	url := s.url(s.ws.Name, run.ID)
	s.say("The run %s was created in the workspace %s. %s", run.ID, s.ws.Name, url)
	if run, err = s.watchPlan(ctx, run); err != nil {
		return driver.Plan{URL: url}, err
	}
	switch run.Status {
	case statusErrored:
		return driver.Plan{URL: url}, s.withoutSecrets(s.errored(ctx, run))
	case statusDiscarded, statusCancelled, statusForceCanceled:
		return driver.Plan{URL: url}, s.endedBy(ctx, run)
	}
	text := s.copyLog(ctx, run.Plan)
	plan, err := s.plan(ctx, run)
	if err == nil && plan.Detail != nil {
		plan, err = plan.Detail(ctx)
	}
	if err != nil {
		return driver.Plan{URL: url}, err
	}
	plan.Text, plan.Print, plan.URL, plan.Setup = text, nil, url, s.setup
	return plan, nil
}

// cancelTime is how long it may take to stop a plan that nobody waits for any more.
const cancelTime = 10 * time.Second

// cancelLost cancels the run of a plan if the answer to its creation was lost.
func (s *step) cancelLost(ctx context.Context, version Version, err error) {
	if !errors.Is(err, ErrUnknown) {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer done()
	if run, err := withVersion(ctx, s.api, s.ws.ID, version.ID, true); err == nil && run != nil {
		_, _, _ = s.stop(ctx, s.api, *run, cancelled) // it applies nothing in any case
	}
}

// cancelled is the comment of a plan that nobody waits for any more.
const cancelled = "Cancelled by Terrapulse."

// removeAgain deletes a workspace that was only created for a plan, unless a run of the task
// has begun there meanwhile.
func (s *step) removeAgain(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer stop()
	var now state.Remote
	var err error
	if s.job.Remote != nil {
		now, err = s.job.Remote.Read(ctx)
	}
	if err == nil && now.Workspace == s.ws.ID {
		return
	}
	if err == nil {
		err = s.deleteWorkspace(ctx)
	}
	if err != nil {
		s.Log.Warn("a workspace that was created for a plan was not deleted: delete it in HCP Terraform if its task is not created", "task", s.job.Task.Name, "workspace", s.ws.Name, "error", err)
	}
}

// watchPlan waits until a run has ended. If ctx ends, it cancels the run.
func (s *step) watchPlan(ctx context.Context, run Run) (Run, error) {
	since, remote := s.Now(), s.remote(run)
	s.watch.add(remote)
	defer s.watch.forget(remote)
	for {
		err := s.Wait(ctx, pollAfter(s.Now().Sub(since)))
		if err == nil {
			var now state.RemoteStatus
			now, err = s.watch.read(ctx, s.Driver, s.api, s.cloud.Organization, remote)
			if err == nil && now.Phase == state.RemoteEnded {
				if run, err = s.api.Run(ctx, run.ID); err == nil && phaseOf(run) == state.RemoteEnded {
					return run, nil
				}
			}
			if errors.Is(err, ErrUnknown) && ctx.Err() == nil {
				err = nil // the next poll may succeed
			}
		}
		if err != nil {
			alive, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
			defer done()
			_, _, _ = s.stop(alive, s.api, run, cancelled) // it applies nothing in any case
			return run, s.failed("wait for the plan of "+remote.ID, err)
		}
	}
}

// pollAfter is the time between two polls of a plan. HCP Terraform permits only 30 lists
// of runs in a minute, also for those of ticks.
func pollAfter(waited time.Duration) time.Duration {
	return min(max(5*time.Second, waited/10), 30*time.Second)
}
