package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/overview"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// decisions is where people decide about a task: the API of a running instance, or a
// store.
type decisions interface {
	WaitingPlan(ctx context.Context, task string) (apispec.WaitingPlan, error)
	DecidePlan(ctx context.Context, task string, decision apispec.ApprovalRequest) error
	HoldTask(ctx context.Context, task string, hold apispec.HoldRequest) error
	ReleaseTask(ctx context.Context, task, by string) error
	Close() error
}

// decisionFlags are the flags of a command with which a person decides about a task.
type decisionFlags struct {
	store storeFlags
	api   apiFlags
}

func (d *decisionFlags) register(f *flag.FlagSet) {
	d.store.register(f)
	d.api.register(f)
	f.Lookup("http-addr").Usage += " Not used with -config-file, -config-dir or -store, which name a store."
}

// predict completes the names of tasks.
func (d *decisionFlags) predict(a *app, f *flag.FlagSet) complete.Predictor {
	return a.tasks(f, func(ctx context.Context) ([]string, error) {
		if len(d.store.config.paths) > 0 {
			return d.store.config.taskNames(ctx)
		}
		return d.api.taskNames(ctx)
	})
}

// open returns the task that the arguments name, and where to decide about it. The
// exit code is -1 if all is well.
func (d *decisionFlags) open(a *app, command string, arguments []string, writes bool) (string, decisions, int) {
	if code := a.oneTask(command, arguments); code >= 0 {
		return "", nil, code
	}
	given := d.api.given()
	files := given["config-file"] || given["config-dir"]
	switch {
	case given["http-addr"] && (given["store"] || files):
		return "", nil, a.fail(exitFlags, errors.New("-http-addr names an instance: leave out -store, -config-file and -config-dir"))
	case given["http-addr"] || d.store.url == "" && !files:
		client, code := a.apiClient(&d.api)
		return arguments[0], client, code
	}
	var cfg *config.Config
	if writes && files {
		var err error
		if cfg, err = d.store.config.read(); err != nil {
			return "", nil, a.invalid(err)
		}
	}
	place, err := d.store.place(a.ctx)
	if err != nil {
		return "", nil, a.invalid(err)
	}
	open := place.Read
	if writes {
		open = place.Write
	}
	store, err := open(a.ctx)
	if err != nil {
		return "", nil, a.fail(exitError, err)
	}
	return arguments[0], storeDecisions{store, &reconcile.Control{Store: store, Now: time.Now, Source: new(overlay.Source),
		Base: func(context.Context) (*config.Config, error) {
			if cfg == nil {
				return nil, errors.New("the task files say what is allowed: name them with -config-file or -config-dir, or use the API with -http-addr")
			}
			return cfg, nil
		}}}, -1
}

// storeDecisions are written to a store. The leader, or the next start, acts on them.
type storeDecisions struct {
	*stores.Store
	control *reconcile.Control
}

func (s storeDecisions) WaitingPlan(ctx context.Context, task string) (apispec.WaitingPlan, error) {
	return overview.Reader{Store: s.Store, Now: time.Now}.WaitingPlan(ctx, task, s.Elsewhere())
}

func (s storeDecisions) DecidePlan(ctx context.Context, task string, d apispec.ApprovalRequest) error {
	plan, by, comment := apispec.Deref(d.Plan), apispec.Deref(d.By), state.Cut(apispec.Deref(d.Comment))
	if d.Decision == apispec.ApprovalDecisionReject {
		return s.control.Reject(ctx, task, plan, by, comment)
	}
	return s.control.Approve(ctx, task, plan, state.Approval{By: by, Comment: comment})
}

func (s storeDecisions) HoldTask(ctx context.Context, task string, hold apispec.HoldRequest) error {
	return s.control.Hold(ctx, task, apispec.Deref(hold.By), apispec.Deref(hold.Comment))
}

func (s storeDecisions) ReleaseTask(ctx context.Context, task, by string) error {
	return s.control.Release(ctx, task, by)
}

// userAtHost is who calls the program, as far as this machine says.
func userAtHost() string {
	name := cmp.Or(os.Getenv("USER"), os.Getenv("USERNAME"))
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return cmp.Or(name, "somebody") + "@" + host
}

// decision is what a command that decides about a task prints with -json.
type decision struct {
	Task    string               `json:"task"`
	By      string               `json:"by"` // as this machine says; an authenticated sender is recorded by that name
	Comment string               `json:"comment,omitempty"`
	Plan    *apispec.WaitingPlan `json:"plan,omitempty"`
}

// decidePlan approves or rejects the plan that a task waits with.
func (a *app) decidePlan(flags *decisionFlags, arguments []string, how apispec.ApprovalDecision, id, comment string) int {
	task, at, code := flags.open(a, string(how), arguments, true)
	if code >= 0 {
		return code
	}
	defer at.Close()
	unable := fmt.Sprintf("unable to %s the plan of '%s'", how, task)
	plan, err := at.WaitingPlan(a.ctx, task)
	if err == nil && !strings.HasPrefix(plan.ID, id) {
		err = fmt.Errorf("another plan waits now, %s: `terrapulse plan show %s` shows it", plan.ID, task)
	}
	by := userAtHost()
	if err == nil {
		// The plan that is printed is the one that is decided on.
		request := apispec.ApprovalRequest{Decision: how, Plan: &plan.ID, By: &by}
		if comment != "" {
			request.Comment = &comment
		}
		err = at.DecidePlan(a.ctx, task, request)
	}
	if err != nil {
		return a.problem(unable, err)
	}
	if a.json {
		return a.printJSON(decision{task, by, comment, &plan})
	}
	a.printDecided(plan)
	switch how {
	case apispec.ApprovalDecisionReject:
		fmt.Fprintf(a.stdout, "Rejected. Task %s is planned again when its input or definition changes, or when a run is requested.\n", task)
	default:
		fmt.Fprintf(a.stdout, "Approved. Task %s plans again and applies exactly this.\n", task)
	}
	return exitOK
}

// printDecided prints why a plan waits, and its numbers.
func (a *app) printDecided(plan apispec.WaitingPlan) {
	fmt.Fprintf(a.stdout, "Plan %s of task %s, which waits since %s:\n", plan.ID, plan.Task, plan.Since.Local().Format(time.RFC1123))
	for _, c := range plan.Causes {
		fmt.Fprintf(a.stdout, "  - %s\n", c.Text)
	}
	if c := plan.Changes; c != nil {
		fmt.Fprintf(a.stdout, "  %s\n", toDo(state.Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy}))
	}
}
