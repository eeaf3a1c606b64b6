package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// cloud is HCP Terraform, with one organization.
type cloud struct {
	workspaces []*workspace
	uploads    map[string]*upload // by the id of the configuration version
	runs       []*remoteRun
	count      int  // of ids
	forbids    bool // the token has lost its rights
	forbade    bool // that has happened: perhaps, who decided could not be read
	blind      bool // the token may not read plans
	silent     bool // the server does not say how many resources a plan changes, or a workspace has
	zero       bool // it says 0 of all workspaces
}

// workspace is where what a task has made is managed.
type workspace struct {
	hcp.Workspace
	ours      bool // created by us
	others    bool // what it manages was made by another instance of Terrapulse
	gone      bool // deleted
	lockedBy  string
	current   *remoteRun // that plans, waits or applies
	variables []hcp.Variable
}

// upload is a configuration version.
type upload struct {
	id, workspace  string
	speculative    bool
	arrived        bool // but it is perhaps not unpacked
	uploaded       bool
	module, digest string // what it calls, and of the data
}

// remoteRun is a run there.
type remoteRun struct {
	id, workspace, version string
	task                   string
	run                    string   // of ours, that has created it
	by                     *process // that has created it; nil if a person has
	late                   bool     // it was created when that process was perhaps given up
	message                string
	planOnly, destroys     bool
	created                time.Time
	status                 string
	planned                bool
	plan                   planned
	events                 []hcp.Event

	tried       bool   // we were about to confirm it
	confirmedBy string // us, or a person
	began       bool   // to apply
	endedBy     string // who has discarded or cancelled it: us, or a person
}

// us is who acts with our token.
const us = "terrapulse"

// workspacePrefix begins the names of workspaces.
const workspacePrefix = "tp-"

// The statuses of runs in the simulation. The driver does not know carbonEstimating.
const (
	pending          = "pending"
	planning         = "planning"
	costEstimating   = "cost_estimating"
	carbonEstimating = "carbon_estimating"
	policyOverride   = "policy_override"
	readyToApply     = "planned"
	policyChecked    = "policy_checked" // the same
	confirmedThere   = "confirmed"
	applyingThere    = "applying"
	wasApplied       = "applied"
	wasUnchanged     = "planned_and_finished"
	wasErrored       = "errored"
	wasDiscarded     = "discarded"
	wasCanceled      = "canceled"
)

var (
	final       = []string{wasApplied, wasUnchanged, wasErrored, wasDiscarded, wasCanceled}
	confirmable = []string{readyToApply, policyChecked}
	discardable = []string{pending, policyOverride, readyToApply, policyChecked}
	cancelable  = []string{pending, planning, costEstimating, carbonEstimating, confirmedThere, applyingThere}
)

func (r *remoteRun) final() bool       { return slices.Contains(final, r.status) }
func (r *remoteRun) confirmable() bool { return slices.Contains(confirmable, r.status) }

// phase is how far the run has come.
func (r *remoteRun) phase() state.RemotePhase {
	switch {
	case r.final():
		return state.RemoteEnded
	case r.confirmedBy != "":
		return state.RemoteApplying
	case r.confirmable():
		return state.RemoteReady
	}
	return state.RemotePlanning
}

// ours reports whether a process of ours has created the run.
func (r *remoteRun) ours() bool { return r.by != nil }

// id makes an id.
func (c *cloud) id(kind string) string {
	c.count++
	return fmt.Sprintf("%s-%d", kind, c.count)
}

// of returns a workspace by its name; nil if there is none.
func (c *cloud) of(name string) *workspace {
	return c.find(func(ws *workspace) bool { return ws.Name == name })
}

// workspace returns a workspace by its id; nil if there is none.
func (c *cloud) workspace(id string) *workspace {
	return c.find(func(ws *workspace) bool { return ws.ID == id })
}

func (c *cloud) find(is func(*workspace) bool) *workspace {
	if i := slices.IndexFunc(c.workspaces, func(ws *workspace) bool { return !ws.gone && is(ws) }); i >= 0 {
		return c.workspaces[i]
	}
	return nil
}

// run returns a run by its id; nil if there is none.
func (c *cloud) run(id string) *remoteRun {
	if i := slices.IndexFunc(c.runs, func(r *remoteRun) bool { return r.id == id }); i >= 0 {
		return c.runs[i]
	}
	return nil
}

// names reports whether a text says who has decided.
func (c *cloud) names(person, text string) bool {
	return strings.Contains(text, person) || c.forbade && strings.Contains(text, "somebody")
}

// task is the task that the workspace is of.
func (ws *workspace) task() string { return ws.Name[len(workspacePrefix):] }

// add creates a workspace.
func (c *cloud) add(w *world, name string) *workspace {
	ws := &workspace{Workspace: hcp.Workspace{ID: c.id("ws"), Name: name, ExecutionMode: "remote", AutoApply: !w.ruled || w.rng.IntN(2) == 0}}
	c.workspaces = append(c.workspaces, ws)
	w.note("    %s is the workspace %s", ws.ID, name)
	return ws
}

// heed has a person create the workspace that the error of a run asks for.
func (w *world) heed(run state.Run) {
	name := workspacePrefix + run.Task
	if strings.Contains(run.Error, "create an empty one called "+name+" ") && w.cloud.of(name) == nil {
		w.note("a person creates the workspace that is gone")
		w.cloud.add(w, name)
	}
}

// queue creates a run.
func (c *cloud) queue(w *world, ws *workspace, up *upload) *remoteRun {
	r := &remoteRun{id: c.id("run"), workspace: ws.ID, version: up.id, task: ws.task(), created: time.Now(), status: pending}
	c.runs = append(c.runs, r)
	w.note("    %s is a run of %s with %s", r.id, r.task, up.digest)
	return r
}

// next returns a run that goes on by itself; nil if there is none.
func (c *cloud) next(w *world) *remoteRun {
	var able []*remoteRun
	for _, r := range c.runs {
		if ws := c.workspace(r.workspace); ws != nil && c.able(ws, r) {
			able = append(able, r)
		}
	}
	if len(able) == 0 {
		return nil
	}
	return able[w.rng.IntN(len(able))]
}

func (c *cloud) able(ws *workspace, r *remoteRun) bool {
	switch r.status {
	case pending:
		if r.planOnly {
			return true
		}
		first := slices.IndexFunc(c.runs, func(other *remoteRun) bool {
			return other.workspace == r.workspace && other.status == pending && !other.planOnly
		})
		return ws.lockedBy == "" && ws.current == nil && c.runs[first] == r
	case planning, costEstimating, carbonEstimating, confirmedThere, applyingThere:
		return true
	}
	return false
}

// progress has a run go on, and reports whether one could.
func (c *cloud) progress(w *world) bool {
	r := c.next(w)
	if r == nil {
		return false
	}
	switch r.status {
	case pending:
		if r.status = planning; !r.planOnly {
			c.workspace(r.workspace).current = r
		}
	case planning:
		r.status = c.plans(w, r)
	case costEstimating:
		r.status = policyChecked
	case carbonEstimating:
		r.status = readyToApply
	case confirmedThere:
		r.status, r.began = applyingThere, true
		w.judge.worksThere(w, r)
	case applyingThere:
		r.status = wasApplied
		if w.chance(150) {
			r.status = wasErrored
		} else {
			w.judge.appliedThere(w, r)
		}
	}
	w.note("%s of %s is %s", r.id, r.task, r.status)
	c.free(r)
	return true
}

// plans ends the plan of a run, and returns its status.
func (c *cloud) plans(w *world, r *remoteRun) string {
	if w.chance(60) {
		return wasErrored
	}
	r.plan, r.planned = w.planThere(r), true
	if r.planOnly {
		w.judge.plannedThere(w, r)
		return wasUnchanged
	}
	if !r.plan.changes {
		w.judge.appliedThere(w, r)
		return wasUnchanged
	}
	some := []string{readyToApply, readyToApply, readyToApply, readyToApply, costEstimating, carbonEstimating}
	if w.faults {
		some = append(some, policyOverride)
	}
	return some[w.rng.IntN(len(some))]
}

// free gives the workspace of a run that has ended to the next one.
func (c *cloud) free(r *remoteRun) {
	if ws := c.workspace(r.workspace); ws != nil && r.final() && ws.current == r {
		ws.current = nil
	}
}

// may reports whether a run permits an action.
func (c *cloud) may(r *remoteRun, a hcp.Action) bool {
	switch a {
	case hcp.Confirm:
		return r.confirmable()
	case hcp.Discard:
		return slices.Contains(discardable, r.status)
	default:
		return slices.Contains(cancelable, r.status)
	}
}

// act has somebody confirm, discard or cancel a run that permits it.
func (c *cloud) act(w *world, r *remoteRun, a hcp.Action, by, comment string) {
	event := hcp.Event{By: by, User: "user-" + by, Comment: comment, At: time.Now()}
	switch a {
	case hcp.Confirm:
		r.status, r.confirmedBy, event.Action = confirmedThere, by, "confirmed"
	case hcp.Discard:
		r.status, r.endedBy, event.Action = wasDiscarded, by, "discarded"
	default:
		r.status, r.endedBy, event.Action = wasCanceled, by, "canceled"
	}
	r.events = append(r.events, event)
	w.note("    %s is %s by %s", r.id, event.Action, by)
	c.free(r)
}

// planThere is what a run would change of what is there now.
func (w *world) planThere(r *remoteRun) planned {
	up, s := w.cloud.uploads[r.version], w.tfstate(r.task)
	it := planned{at: time.Now(), holds: holding{up.module, up.digest, elements(r.task, up.digest), s.outside}}
	if s.saves > 0 {
		it.state = fmt.Sprintf("%s/%d", r.task, s.mark.Serial)
	}
	it.input, it.unknown = up.digest, w.cloud.silent && w.cloud.blind
	return w.compared(r.task, it, r.destroys)
}

// managed is how many resources the workspace of a task manages.
func (w *world) managed(task string) int {
	if w.judge.infra[task] == "" {
		return 0
	}
	return max(1, len(w.tfstate(task).holds.entries))
}
