package hcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/module"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// step is one call of the driver for a task.
type step struct {
	*Driver
	api      API
	token    string
	cloud    *config.Cloud
	job      driver.Job
	destroy  bool
	values   values.Values
	scrub    *redact.Scrubber
	upload   upload
	rec      state.Remote
	ws       Workspace // as it was found; zero before
	planned  bool      // this step has copied the output of the plan
	planText string    // that output
	created  bool      // this step has created the workspace
	first    bool      // the task had no run in HCP Terraform before
	adopted  bool      // this step takes it over from Consul-Terraform-Sync
	unsure   bool      // the recorded run was not found: there may be another one
	reads    bool      // this step changes nothing of a workspace that exists
	wrote    bool      // this step has recorded its remote run
	done     driver.Outcome

	// Of plans only.
	replaced []string // variables of the workspace whose values come with the plan
	lacks    []string // variables that the workspace needs and the plan did not write
	setup    []string // what a run would set up, in words; only if workspaces stay untouched
}

// begin checks the task, evaluates its templates, packs its root module and reads what was
// recorded.
func (d *Driver) begin(ctx context.Context, job driver.Job, destroy bool) (*step, error) {
	s := &step{Driver: d, cloud: job.Config.Cloud(), job: job, destroy: destroy}
	t := job.Task
	if t.LocalModule() && destroy {
		if _, err := os.Stat(t.Module); errors.Is(err, fs.ErrNotExist) {
			s.say("There is no folder %s: everything in the state of task %s is destroyed without the module. Its prevent_destroy and its destroy-time provisioners have no effect.", t.Module, t.Name)
			without := *t
			without.Module, without.Version = "", ""
			t, s.job.Task = &without, &without
		}
	}
	if t.Module != "" {
		if err := module.Check(t, rootmodule.Inputs(t)); err != nil {
			return nil, err
		}
	}
	if err := rootmodule.CheckEnv(t.Name, rootmodule.Env(t, job.Config)); err != nil {
		return nil, err
	}
	var err error
	if s.api, err = d.api(ctx, job.Config); err != nil {
		return nil, err
	}
	if err := s.evaluate(ctx); err != nil {
		return nil, err
	}
	if s.upload, err = pack(s.job, destroy); err != nil {
		return nil, err
	}
	if job.Remote != nil {
		if s.rec, err = job.Remote.Read(ctx); err != nil {
			return nil, fmt.Errorf("read what HCP Terraform has of task %s: %w", t.Name, err)
		}
		s.first = s.rec.Workspace == "" && s.rec.Run.Version == "" // with a version, the workspace was deleted after a destroy
	}
	return s, nil
}

// evaluate evaluates the templates of the task, and finds what its output must not show.
func (s *step) evaluate(ctx context.Context) error {
	t, cfg := s.job.Task, s.job.Config
	var err error
	if s.token, err = s.Token(ctx, cfg, s.cloud.Token); err != nil {
		return err
	}
	s.values = values.Values{Config: cfg}
	if s.Values != nil {
		if s.values, err = s.Values.Evaluate(ctx, cfg, t); err != nil {
			return err
		}
	} else if templates := values.Templates(cfg, t); len(templates) > 0 {
		return templates[0].Wrap(errors.New("templates cannot be evaluated here"))
	}
	secrets, err := s.secrets()
	if err != nil {
		return err
	}
	values, err := rootmodule.SecretValues(t, s.values.Config, s.values.Variables)
	if err != nil {
		return fmt.Errorf("values of task %s: %w", t.Name, err)
	}
	hidden := slices.Concat(s.values.Secrets, []string{s.token, cfg.Vault.Token}, module.SensitiveValues(t))
	for _, v := range secrets {
		if v.Env && v.Key != awsAuth && v.Key != awsRole {
			hidden = append(hidden, redact.Argument(v.Key, v.Value)...)
		}
	}
	s.scrub = redact.New(values, hidden...)
	return nil
}

// say writes a line into the output of the run.
func (s *step) say(format string, args ...any) {
	fmt.Fprintf(s.job.Output, format+"\n", args...)
}

// failed adds to an error what was being done, and what to do about it.
func (s *step) failed(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDenied):
		return fmt.Errorf("%s: %w: the token lacks a right or has expired: use the token of a team that may manage workspaces of the organization %s", doing, err, s.cloud.Organization)
	case errors.Is(err, ErrNotFound):
		return fmt.Errorf("%s: %w: check the organization %s and the rights of the token's team", doing, err, s.cloud.Organization)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// record records the remote run before the next request.
func (s *step) record(ctx context.Context) error {
	if s.reads {
		return nil
	}
	if err := s.job.Remote.Write(ctx, s.rec); err != nil {
		return fmt.Errorf("record what HCP Terraform does for task %s: %w", s.job.Task.Name, err)
	}
	s.wrote = true
	return nil
}

// recordPhase records a phase of the remote run if it is another one than before.
func (s *step) recordPhase(ctx context.Context, run Run) error {
	applied, intent := s.rec.Applied, s.rec.Intent
	if begun(run) {
		s.rec.Applied = true
		if intent == state.RemoteStop && run.Apply.Status != statusCancelled { // too late to stop it
			s.rec.Intent = ""
		}
	}
	remote := s.remote(run)
	if s.rec.Run == remote && s.rec.By == s.job.Run.ID && s.rec.Applied == applied && s.rec.Intent == intent {
		return nil
	}
	s.rec.Run = remote
	return s.record(ctx)
}

// remote is the record of a run.
func (s *step) remote(run Run) state.RemoteRun {
	name := s.rec.Name
	if run.Name != "" {
		name = run.Name
	}
	return state.RemoteRun{Driver: s.rec.Run.Driver, ID: run.ID, URL: s.url(name, run.ID), Workspace: name, Version: run.Version, Phase: phaseOf(run), Text: s.text(run)}
}

func (s *step) url(workspace, run string) string {
	return fmt.Sprintf("%s/app/%s/workspaces/%s/runs/%s", strings.TrimSuffix(s.cloud.Hostname, "/"), s.cloud.Organization, workspace, run)
}

// text says why a run does not go on.
func (s *step) text(run Run) string {
	if run.Status == statusPending {
		return lockedText(run, s.ws)
	}
	return textOf(run)
}

// waitFor returns the error of a run that waits for its remote run.
func (s *step) waitFor(what state.WaitFor, run Run, confirmed *driver.Decision) error {
	return &driver.WaitError{Wait: state.Wait{For: what, Text: fmt.Sprintf("%s is %s", run.ID, s.text(run))}, Confirmed: confirmed}
}

// message is what HCP Terraform shows for a run.
func (s *step) message() string {
	what := "apply"
	if s.destroy {
		what = "destroy everything"
	}
	return fmt.Sprintf("%s, run %s (fence %d): %s", applies+s.job.Task.Name, s.job.Run.ID, s.job.Run.Fence, what)
}

const (
	// byUs begins the messages of all runs that Terrapulse creates, and applies those of
	// runs that apply something.
	byUs    = "Terrapulse "
	applies = byUs + "task "
)

// who returns the last event of a run with one of these actions, or by this user if user is not
// "". The event is zero if it is not known.
func (s *step) who(ctx context.Context, run Run, user string, actions ...string) (Event, error) {
	events, err := s.api.Events(ctx, run.ID)
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrDenied) {
		return Event{}, s.failed("read who decided about "+run.ID, err)
	}
	for _, e := range slices.Backward(events) {
		if slices.Contains(actions, e.Action) || user != "" && e.User == user {
			return e, nil
		}
	}
	return Event{}, nil
}

// person names the user of an event.
func person(e Event) string {
	switch {
	case e.By != "":
		return e.By + " in HCP Terraform"
	case e.User != "":
		return "somebody in HCP Terraform"
	}
	return "HCP Terraform or somebody there"
}

// confirmation is the decision of a person who has confirmed the run there; nil if
// Terrapulse has confirmed it.
func (s *step) confirmation(ctx context.Context, run Run) (*driver.Decision, error) {
	if s.rec.Intent == state.RemoteConfirm {
		return nil, nil
	}
	e, err := s.who(ctx, run, run.ConfirmedBy, "confirmed")
	if err != nil {
		return nil, err
	}
	return new(s.decision(audit.Approve, run, e)), nil
}

// endedBy returns the error of a run that somebody has discarded or cancelled.
func (s *step) endedBy(ctx context.Context, run Run) error {
	e, err := s.who(ctx, run, "", enders...)
	if err != nil {
		return err
	}
	return s.ended(run, e)
}

// ended returns the decision of a person to end a run, as an error. If nobody has decided, the
// run has failed.
func (s *step) ended(run Run, e Event) error {
	if e.Action != "" && e.By == "" && e.User == "" {
		return fmt.Errorf("HCP Terraform has ended the run %s, and no person has decided that (%s)", run.ID, s.url(s.rec.Name, run.ID))
	}
	action := audit.Cancel
	if run.Status == statusDiscarded && !run.PlanOnly {
		action = audit.Reject
	}
	return &driver.EndedError{Decision: s.decision(action, run, e)}
}

// enders are the actions that end a run.
var enders = []string{"discarded", "canceled", "force_canceled"}

// decision is what a person has decided. Run is the run in HCP Terraform that it is about.
func (s *step) decision(action audit.Action, run Run, e Event) driver.Decision {
	of := s.job.Run.ID
	if s.rec.Run.Version == run.Version { // its id may not have been recorded
		of = s.rec.By
	}
	return driver.Decision{Action: action, By: person(e), At: e.At, Comment: e.Comment, Remote: run.ID, URL: s.remote(run).URL, Run: of}
}

// decidedBefore notes what people have decided about the run of an earlier attempt, unless the audit
// record has that: the process of that attempt may have died before it recorded the decision.
func (s *step) decidedBefore(ctx context.Context, run Run) error {
	has := s.rec.Audited.Of(run.ID)
	if begun(run) && !has.Confirmed {
		given, err := s.confirmation(ctx, run)
		if err != nil {
			return err
		}
		if given != nil {
			s.done.Decided = append(s.done.Decided, *given)
		}
	}
	if !stopped(run) || has.Ended || s.rec.Intent == state.RemoteStop {
		return nil
	}
	e, err := s.who(ctx, run, "", enders...)
	if err != nil || e.By == "" || strings.Contains(e.Comment, strings.TrimSpace(byUs)) {
		return err // or a tick has stopped it, which says so in the comment
	}
	s.done.Decided = append(s.done.Decided, driver.DecidedBy(s.ended(run, e))...) // that attempt is over
	return nil
}

// stopped reports whether a run has ended because it was discarded or cancelled.
func stopped(run Run) bool {
	return run.Status == statusDiscarded || run.Status == statusCancelled || run.Status == statusForceCanceled
}
