package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// decisionCommand is a command with which a person decides about a task, or about all
// tasks if it has no do.
type decisionCommand struct {
	*app
	name, synopsis, usage string
	examples              []string
	plan, comment, reason string // usage of -plan, -comment and -reason; "" if the command has no such flag
	reads                 bool   // the command only reads
	all                   string // usage of -all, with which doAll decides about all tasks; "" if the command has no such flag
	doAll                 func(c *decisionCommand, at door) (code int, err error)
	do                    func(c *decisionCommand, at door, task string) (code int, err error)
	label                 string // usage of -label, with which doSelected decides about the tasks that have them; "" if the command has no such flag
	doSelected            func(c *decisionCommand, at door) (code int, err error)

	place doorFlags
	given struct {
		plan, comment, reason string
		all, yes              bool
		labels                []string
	}
}

// decides returns the command with its flags.
func (a *app) decides(c decisionCommand) command {
	c.app = a
	f := a.flagSet(c.name)
	c.place.registerActing(f)
	if c.plan != "" {
		f.StringVar(&c.given.plan, "plan", "", c.plan)
	}
	if c.comment != "" {
		f.StringVar(&c.given.comment, "comment", "", c.comment)
	}
	if c.reason != "" {
		f.StringVar(&c.given.reason, "reason", "", c.reason)
	}
	if c.do == nil {
		return command{flags: f, synopsis: c.synopsis, examples: c.examples, codes: codesOfStore, help: c.usage, run: c.run}
	}
	if c.all != "" {
		f.BoolVar(&c.given.all, "all", false, c.all)
	}
	if c.label != "" {
		c.registerLabels(f)
	}
	return command{flags: f, synopsis: c.synopsis, examples: c.examples, codes: codesOfStore, args: a.tasks(f, c.place.taskNames), help: c.usage, run: c.run,
		values: map[string]complete.Predictor{"label": a.labels(f, &c.place)}}
}

func (c *decisionCommand) run(arguments []string) int {
	c.given.all = c.given.all || c.do == nil
	if c.given.all && (len(arguments) > 0 || c.given.plan != "") {
		return c.fail(exitFlags, errors.New("-all is for all tasks: leave out TASK and -plan"))
	}
	selects := len(c.given.labels) > 0
	if selects {
		if code := c.labelsAlone(arguments); code >= 0 {
			return code
		}
	}
	if !c.given.all && !selects {
		if code := c.oneTask(c.name, arguments); code >= 0 {
			return code
		}
	}
	at, code := c.open()
	if code >= 0 {
		return code
	}
	defer at.Close()
	if selects {
		code, err := c.doSelected(c, at)
		if err != nil {
			return c.problem("unable to "+c.name+" the tasks with "+strings.Join(c.given.labels, " and "), err)
		}
		c.warnAlone(at)
		return code
	}
	if c.given.all {
		code, err := c.doAll(c, at)
		if err != nil {
			return c.problem("unable to "+c.name+" all tasks", err)
		}
		c.warnAlone(at)
		return code
	}
	code, err := c.do(c, at, arguments[0])
	if err != nil {
		what := "unable to " + c.name
		if c.reads {
			what = "unable to show the plan of"
		}
		return c.problem(fmt.Sprintf("%s '%s'", what, arguments[0]), err)
	}
	c.warnAlone(at)
	return code
}

// warnAlone says if no instance leads in the store that a decision was written to. A deployment in AWS leads
// only while it has something to do.
func (c *decisionCommand) warnAlone(at door) {
	if at.store == nil || c.reads || at.store.Kind == "dynamodb" {
		return
	}
	held, err := lease.Read(c.ctx, at.store, state.LeaderLease)
	if err != nil || held.Owner != "" && time.Now().Before(held.Expires) {
		return
	}
	fmt.Fprintf(c.stderr, "No instance leads in the store %s: the next one that does acts on this. If yours was started with another -store, name that store.\n", at.store.Where)
}

// open returns where to decide. The exit code is -1 if all is well.
func (c *decisionCommand) open() (door, int) {
	if c.reads {
		return c.place.open(c.app, stores.Place.Read)
	}
	return c.place.open(c.app, stores.Place.Change)
}

// userAtHost is who calls the program, as far as this machine says.
func userAtHost() string {
	name := cmp.Or(os.Getenv("USER"), os.Getenv("USERNAME"))
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return cmp.Or(name, "somebody") + "@" + hostname()
}

// shortestPlan is how many characters of a plan's id name it, as in the HTTP API.
const shortestPlan = 8

// decision is what a command that decides about a task prints with -json.
type decision struct {
	Task    string               `json:"task,omitempty"` // none with -all
	By      string               `json:"by"`             // as this machine says; an authenticated sender is recorded by that name
	Comment string               `json:"comment,omitempty"`
	Plan    *apispec.WaitingPlan `json:"plan,omitempty"`
}

// decide approves or rejects the plan that a task waits with.
func (c *decisionCommand) decide(at door, task string, how apispec.ApprovalDecision) (int, error) {
	plan, err := at.WaitingPlan(c.ctx, task)
	if err != nil {
		return 0, err
	}
	if apispec.Deref(plan.Drift) {
		return 0, state.ErrNoPlan // nothing waits
	}
	if given := len(c.given.plan); given > 0 && given < shortestPlan {
		return 0, fmt.Errorf("-plan=%s is too short to name one plan: give at least %d characters of its id, %s", c.given.plan, shortestPlan, plan.ID)
	}
	if !strings.HasPrefix(plan.ID, c.given.plan) {
		return 0, fmt.Errorf("another plan waits now, %s: `terrapulse plan show %s` shows it", plan.ID, task)
	}
	by := userAtHost()
	// The plan that is printed is the one that is decided on.
	request := apispec.ApprovalRequest{Decision: how, Plan: plan.ID, By: &by, Comment: apiview.Optional(c.given.comment)}
	if err := at.DecidePlan(c.ctx, task, request); err != nil {
		return 0, err
	}
	if how == apispec.ApprovalDecisionApprove {
		if text := c.oneOf(at, task, plan.ID); text != "" {
			return c.printDecision(task, by, &plan, text), nil
		}
	}
	text := "Approved. Task %s applies exactly this. If something has changed meanwhile, it waits again.\n"
	switch {
	case plan.Content.Plan == nil && how == apispec.ApprovalDecisionApprove:
		text = "Approved: the data in Consul, as no plan can be shown. Task %s plans again. If that fails, it is retried. A plan that needs an approval itself waits for it.\n"
	case how == apispec.ApprovalDecisionReject:
		text = "Rejected. Task %s is planned again when its input or definition changes, or when a run is requested.\n"
	}
	return c.printDecision(task, by, &plan, fmt.Sprintf(text, task)), nil
}

// oneOf says that more people must approve a plan that was approved; "" if that is not so.
func (c *decisionCommand) oneOf(at door, task, plan string) string {
	now, err := at.WaitingPlan(c.ctx, task)
	if err != nil || now.ID != plan || now.Approved != nil || now.Needs == nil {
		return ""
	}
	return fmt.Sprintf("Approved: %d of %d approvals are there. Task %s applies exactly this when the others have approved, if none has expired by then.\n",
		len(apispec.Deref(now.Approvals)), *now.Needs, task)
}

// printApprovers prints who must approve a plan, and who has.
func (a *app) printApprovers(plan apispec.WaitingPlan) {
	needs := max(1, apispec.Deref(plan.Needs))
	if who := approval.Approvers(needs, apispec.Deref(plan.From)); who != "" {
		fmt.Fprintf(a.stdout, "  %s\n", who)
	}
	for _, g := range apispec.Deref(plan.Approvals) {
		fmt.Fprintf(a.stdout, "  approved by %s at %s%s\n", g.By, at(&g.At), validUntil(g.Expires))
	}
}

func validUntil(expires *time.Time) string {
	if expires == nil {
		return ""
	}
	return ", valid until " + at(expires)
}

// printDecision prints a decision: in JSON, or its plan, if it is about one, and the text.
func (c *decisionCommand) printDecision(task, by string, plan *apispec.WaitingPlan, text string) int {
	if c.json {
		return c.printJSON(decision{task, by, c.given.comment, plan})
	}
	if plan != nil {
		c.printWaiting(*plan)
	}
	fmt.Fprint(c.stdout, text)
	return exitOK
}

// printWaiting prints why a plan waits, and its numbers.
func (a *app) printWaiting(plan apispec.WaitingPlan) {
	title := "Plan %s of task %s, which waits since %s:\n"
	if apispec.Deref(plan.Drift) {
		title = "Check %s of task %s, which is drifted since %s:\n"
	}
	fmt.Fprintf(a.stdout, title, plan.ID, plan.Task, at(&plan.Since))
	for _, c := range plan.Causes {
		fmt.Fprintf(a.stdout, "  - %s\n", c.Text)
	}
	if plan.Again != nil {
		fmt.Fprintf(a.stdout, "  judged again at %s, and applied if it is within the limits then\n", at(plan.Again))
	}
	a.printApprovers(plan)
	if e := plan.Entries; e != nil && e.Text != "" {
		fmt.Fprintf(a.stdout, "  changed in Consul: %s\n", e.Text)
	}
	if c := plan.Changes; c != nil {
		fmt.Fprintf(a.stdout, "  %s\n", apiview.ChangesOf(c).ToDo())
	}
}
