package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// registerLabels registers the flags with which a command decides about all tasks with a label.
func (c *decisionCommand) registerLabels(f *flag.FlagSet) {
	f.Func("label", c.label, func(s string) error {
		one, err := parsed("label", s)
		c.given.labels = append(c.given.labels, one.Labels...)
		return err
	})
	f.BoolVar(&c.given.yes, "yes", false, "With -label, do not ask: approve everything that is listed.")
}

// labelsAlone refuses what does not go with -label. The exit code is -1 if all is well.
func (c *decisionCommand) labelsAlone(arguments []string) int {
	switch {
	case len(arguments) > 0 || c.given.all || c.given.plan != "":
		return c.fail(exitFlags, errors.New("-label selects the tasks: leave out TASK, -all and -plan"))
	case c.json && !c.given.yes:
		return c.fail(exitFlags, errors.New("-json cannot ask: give -yes, too"))
	}
	return -1
}

// approvedPlan is what was done about one of several plans, as -json prints it.
type approvedPlan struct {
	apispec.WaitingPlan
	Done  bool   `json:"done"` // the approval is recorded
	Error string `json:"error,omitempty"`
}

// approveSelected approves the plans of the tasks with the labels: those that were listed, and no others.
func approveSelected(c *decisionCommand, at door) (int, error) {
	plans, err := c.waitingPlans(at)
	if err != nil {
		return 0, err
	}
	if len(plans) == 0 {
		text := "no plan of these tasks waits for an approval"
		if unknown := unknownLabels(c.ctx, at.Client, c.given.labels); unknown != "" {
			text += "; " + unknown
		}
		return 0, errors.New(text)
	}
	asked := apispec.ApprovalsRequest{By: new(userAtHost()), Comment: apiview.Optional(c.given.comment)}
	var sum apispec.Changes
	for _, plan := range plans {
		asked.Plans = append(asked.Plans, apispec.PlanOfTask{Task: plan.Task, Plan: plan.ID})
		if n := plan.Changes; n != nil {
			sum.Add, sum.Change, sum.Destroy = sum.Add+n.Add, sum.Change+n.Change, sum.Destroy+n.Destroy
		}
		if !c.json {
			c.printWaiting(plan)
			c.printLost(plan)
		}
	}
	if !c.given.yes {
		fmt.Fprintf(c.stdout, "\nTogether: %s.\nApprove these %s? Only 'yes' is accepted: ", apiview.ChangesOf(&sum).ToDo(), plural(len(plans), "plan", "plans"))
		switch answer, err := readLine(c.ctx, c.stdin); {
		case errors.Is(err, io.EOF):
			return 0, errors.New("cannot prompt: standard input is closed; nothing is approved; use -yes to skip the question")
		case err != nil:
			return 0, fmt.Errorf("read the answer: %w", err)
		case strings.TrimSpace(answer) != "yes":
			fmt.Fprintln(c.stdout, "Nothing is approved.")
			return exitOK, nil
		}
	}
	results, err := at.ApprovePlans(c.ctx, asked)
	if err != nil {
		return 0, fmt.Errorf("%w; %d of %d were approved before", err, countApproved(results), len(plans))
	}
	return c.printApproved(plans, results), nil
}

// waitingPlans returns the plans that the tasks with the labels wait with, by the names of the tasks.
func (c *decisionCommand) waitingPlans(at door) ([]apispec.WaitingPlan, error) {
	o, err := joined(at.Overviews(c.ctx, selection.Selection{Labels: c.given.labels, Phases: []apispec.Phase{selection.Approval}, Sort: "name", Brief: true}))
	if err != nil {
		return nil, err
	}
	var plans []apispec.WaitingPlan
	for _, t := range o.Tasks {
		plan, err := at.WaitingPlan(c.ctx, t.Name)
		if apiclient.Missing(err) || apispec.Deref(plan.Drift) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read the plan of task %s: %w", t.Name, err)
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// maxLost is how many resources of a plan that are destroyed or replaced are listed.
const maxLost = 20

// printLost lists the resources that a plan destroys or replaces.
func (c *decisionCommand) printLost(plan apispec.WaitingPlan) {
	if plan.Plan == nil {
		return
	}
	lost := 0
	for _, r := range plan.Plan.Resources {
		if r.Action != "delete" && r.Action != "replace" {
			continue
		}
		if lost++; lost <= maxLost {
			fmt.Fprintf(c.stdout, "    %s %s\n", map[string]string{"delete": "destroys", "replace": "replaces"}[r.Action], r.Address)
		}
	}
	if lost > maxLost {
		fmt.Fprintf(c.stdout, "    and %d more: `terrapulse plan show %s` lists all\n", lost-maxLost, plan.Task)
	}
}

func countApproved(results []apispec.ApprovalResult) (n int) {
	for _, r := range results {
		if r.Approved {
			n++
		}
	}
	return n
}

// printApproved prints what was done about each plan. The exit code says whether all were approved.
func (c *decisionCommand) printApproved(plans []apispec.WaitingPlan, results []apispec.ApprovalResult) int {
	code, shown := exitOK, []approvedPlan{}
	for i, r := range results {
		if !r.Approved {
			code = exitError
			fmt.Fprintf(c.stderr, "Not approved: task %s: %s\n", r.Task, apispec.Deref(r.Error))
		}
		shown = append(shown, approvedPlan{plans[i], r.Approved, apispec.Deref(r.Error)})
	}
	if c.json {
		return max(code, c.printJSON(shown))
	}
	fmt.Fprintf(c.stdout, "Approved: %d of %s. Each task applies exactly what is listed here, if it needs no further approval. If something has changed meanwhile, it waits again.\n",
		countApproved(results), plural(len(plans), "plan", "plans"))
	return code
}
