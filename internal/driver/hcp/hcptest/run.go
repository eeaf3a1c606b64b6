package hcptest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// run is a run of a workspace. Where it is in its life is decided by the functions of machine.go.
type run struct {
	id               string
	workspace        *workspace
	version          *configVersion
	message, source  string
	by               string // user
	destroy          bool
	planOnly         bool
	refresh          bool
	refreshOnly      bool
	savePlan         bool
	autoApply        bool
	allowEmpty       bool
	variables        []any
	targets, replace []any
	terraformVersion string
	checks           Checks
	created          time.Time

	status     string
	shown      string // instead of status
	timestamps map[string]string
	resting    bool   // a person must decide
	decision   string // "confirmed" or "overridden"; emptied when it was followed
	forced     bool   // executed before others of the queue
	process    context.CancelFunc
	canceled   time.Time
	confirmer  string // user
	decider    string // user who confirmed, discarded or cancelled it
	comments   []string
	events     []runEvent
	dir        string // of Terraform
	planned    plan
	planLog    *log
	applyLog   *log
	planState  string // created, queued, running, finished, errored, canceled
	applyState string
}

// plan is what Terraform planned.
type plan struct {
	add, change, destroy, imports int
	changes                       bool
	json                          []byte
}

// final are the statuses that a run does not leave.
var final = []string{"applied", "planned_and_finished", "discarded", "errored", "canceled", "force_canceled", "policy_soft_failed"}

func (r *run) ended() bool { return slices.Contains(final, r.status) }

// aside reports whether the run neither waits for others nor blocks them.
func (r *run) aside() bool { return r.planOnly || r.savePlan && r.decision == "" && r.confirmer == "" }

// statusShown is the status that clients see.
func (r *run) statusShown() string {
	if r.shown != "" {
		return r.shown
	}
	return r.status
}

func (r *run) confirmable() bool {
	return r.resting && !slices.Contains([]string{"policy_override", "post_plan_awaiting_decision"}, r.status)
}

// discardable is what clients see. A pending run is cancelled instead, although its status allows to
// discard it.
func (r *run) discardable() bool { return r.resting }

func (r *run) cancelable() bool { return !r.resting && !r.ended() && r.canceled.IsZero() }
func (r *run) forceCancelable() bool {
	return !r.ended() && !r.canceled.IsZero() && time.Now().After(r.canceled.Add(coolOff))
}

// coolOff is how long after a cancellation a run can be cancelled by force.
const coolOff = time.Minute

func (c *call) showRun(r *run) object {
	may := !c.by.rights.NoRuns
	a := object{
		"actions":     object{"is-cancelable": r.cancelable(), "is-confirmable": r.confirmable(), "is-discardable": r.discardable(), "is-force-cancelable": r.forceCancelable()},
		"permissions": object{"can-apply": may, "can-cancel": may, "can-comment": true, "can-discard": may, "can-force-cancel": may, "can-force-execute": may, "can-override-policy-check": may},
		"auto-apply":  r.autoApply, "allow-empty-apply": r.allowEmpty, "allow-config-generation": false, "created-at": stamp(r.created), "has-changes": r.planned.changes,
		"is-destroy": r.destroy, "message": r.message, "plan-only": r.planOnly, "refresh": r.refresh, "refresh-only": r.refreshOnly,
		"save-plan": r.savePlan, "source": r.source, "status": r.statusShown(), "status-timestamps": maps.Clone(r.timestamps),
		"target-addrs": r.targets, "replace-addrs": r.replace, "terraform-version": r.terraformVersion, "trigger-reason": "manual",
		"variables": r.variables, "position-in-queue": c.position(r), "canceled-at": nil,
	}
	if c.has(NoMessages) {
		delete(a, "message")
	}
	if !r.canceled.IsZero() {
		a["canceled-at"], a["force-cancel-available-at"] = stamp(r.canceled), stamp(r.canceled.Add(coolOff))
	}
	parts := object{
		"workspace": one("workspaces", r.workspace.id), "configuration-version": one("configuration-versions", r.version.id),
		"plan": one("plans", part("plan", r)), "apply": one("applies", ""), "created-by": one("users", r.by), "confirmed-by": one("users", r.confirmer),
		"comments": many("comments", r.comments), "cost-estimate": one("cost-estimates", ""), "policy-checks": many("policy-checks", nil),
		"task-stages": many("task-stages", nil), "run-events": many("run-events", r.eventIDs()),
	}
	if !r.planOnly {
		parts["apply"] = one("applies", part("apply", r))
	}
	if r.checks.Cost {
		parts["cost-estimate"] = one("cost-estimates", part("ce", r))
	}
	if r.checks.Policy != "" && r.since("policy_checking") {
		parts["policy-checks"] = many("policy-checks", []string{part("polchk", r)})
	}
	var stages []string
	for _, stage := range r.checks.stages() {
		stages = append(stages, part("ts-"+stage.name, r))
	}
	parts["task-stages"] = many("task-stages", stages)
	return resource("runs", r.id, a, parts)
}

// part is the ID of something that belongs to a run.
func part(kind string, r *run) string { return kind + strings.TrimPrefix(r.id, "run") }

// runOf finds the run to which a part belongs.
func (s *Server) runOf(id string) *run {
	at := strings.LastIndex(id, "-")
	return s.runs["run"+id[max(at, 0):]]
}

// since reports whether the run has had this status.
func (r *run) since(status string) bool { return r.timestamps[stampName(status)] != "" }

func stampName(status string) string { return strings.ReplaceAll(status, "_", "-") + "-at" }

// between are the times of a plan or an apply.
func (r *run) between(queued, started, state string) object {
	times := object{}
	for name, at := range map[string]string{"queued-at": r.timestamps[stampName(queued)], "started-at": r.timestamps[stampName(started)]} {
		if at != "" {
			times[name] = at
		}
	}
	if state == "finished" || state == "errored" || state == "canceled" {
		times[state+"-at"] = cmp.Or(r.timestamps[stampName(started)], r.timestamps[stampName(r.status)])
	}
	return times
}

// position is how many runs of the workspace are before a pending run.
func (s *Server) position(r *run) int {
	if r.status != "pending" {
		return 0
	}
	n := 0
	for _, other := range r.workspace.runs {
		if other == r {
			return n
		}
		if !other.ended() && !other.aside() {
			n++
		}
	}
	return n
}

// showPart returns the plan, the apply, the cost estimate, the policy check or a task stage.
func (c *call) showPart(r *run, kind, id string) object {
	switch kind {
	case "plans":
		doc := resource(kind, id, c.counted(object{
			"has-changes": r.planned.changes, "resource-additions": r.planned.add, "resource-changes": r.planned.change,
			"resource-destructions": r.planned.destroy, "resource-imports": r.planned.imports, "status": r.planState,
			"generated-configuration": false, "status-timestamps": r.between("plan_queued", "planning", r.planState), "log-read-url": c.base(c.r) + r.planLog.path,
		}), object{"exports": many("plan-exports", nil)})
		doc["links"] = object{"self": "/api/v2/plans/" + id, "json-output": "/api/v2/plans/" + id + "/json-output"}
		return doc
	case "applies":
		done := object{"resource-additions": 0, "resource-changes": 0, "resource-destructions": 0, "resource-imports": 0}
		if r.applyState == "finished" {
			done = object{"resource-additions": r.planned.add, "resource-changes": r.planned.change, "resource-destructions": r.planned.destroy, "resource-imports": r.planned.imports}
		}
		maps.Copy(done, object{"status": r.applyState, "status-timestamps": r.between("apply_queued", "applying", r.applyState), "log-read-url": c.base(c.r) + r.applyLog.path})
		return resource(kind, id, c.counted(done), object{"state-versions": many("state-versions", nil)})
	case "cost-estimates":
		status := "pending"
		if r.since("cost_estimated") {
			status = "finished"
		}
		return resource(kind, id, object{"status": status, "prior-monthly-cost": "0.0", "proposed-monthly-cost": "7.3", "delta-monthly-cost": "7.3",
			"resources-count": 1, "matched-resources-count": 1, "unmatched-resources-count": 0, "error-message": "", "status-timestamps": object{}}, nil)
	case "policy-checks":
		status := map[string]string{"passed": "passed", "soft_failed": "soft_failed", "hard_failed": "hard_failed"}[r.checks.Policy]
		switch {
		case !r.since("policy_checked") && !r.since("policy_override") && !r.ended():
			status = "pending"
		case r.since("policy_override") && r.since("policy_checked"):
			status = "overridden"
		}
		failed := r.checks.Policy != "passed"
		return resource(kind, id, object{"status": status, "scope": "organization", "status-timestamps": object{},
			"actions":     object{"is-overridable": r.status == "policy_override"},
			"permissions": object{"can-override": !c.by.rights.NoRuns},
			"result":      object{"result": !failed, "passed": count(!failed), "total-failed": count(failed), "soft-failed": count(r.checks.Policy == "soft_failed"), "hard-failed": count(r.checks.Policy == "hard_failed"), "advisory-failed": 0, "duration-ms": 1},
		}, object{"run": one("runs", r.id)})
	case "task-stages":
		for _, stage := range r.checks.stages() {
			if part("ts-"+stage.name, r) != id {
				continue
			}
			status := "pending"
			switch {
			case r.status == stage.name+"_awaiting_decision":
				status = "awaiting_override"
			case r.since(stage.name + "_completed"):
				status = "passed"
			case r.since(stage.name+"_running") && r.ended():
				status = "failed"
			case r.since(stage.name + "_running"):
				status = "running"
			}
			return resource(kind, id, object{"stage": stage.name, "status": status, "created-at": stamp(r.created), "updated-at": stamp(r.created),
				"actions":     object{"is-overridable": status == "awaiting_override"},
				"permissions": object{"can-override-policy": true, "can-override": true},
			}, object{"run": one("runs", r.id), "task-results": many("task-results", nil), "policy-evaluations": many("policy-evaluations", nil)})
		}
	}
	return nil
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

type comment struct{ id, body string }

func (v *comment) show() object {
	return resource("comments", v.id, object{"body": v.body}, object{"run-event": one("run-events", "")})
}

// say adds a comment to a run.
func (s *Server) say(r *run, body string) *comment {
	v := &comment{id: s.newID("wsc"), body: body}
	s.comments[v.id] = v
	r.comments = append(r.comments, v.id)
	return v
}
