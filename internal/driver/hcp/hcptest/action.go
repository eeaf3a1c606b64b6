package hcptest

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"
)

func (s *Server) routeRuns() {
	s.mux.HandleFunc("POST /api/v2/runs", s.handle((*call).createRun, false))
	s.mux.HandleFunc("GET /api/v2/workspaces/{id}/runs", s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
		return answer{data: c.listRuns(func(r *run) bool { return r.workspace == w })}, nil
	}))
	s.mux.HandleFunc("GET /api/v2/organizations/{org}/runs", s.inOrganization(func(c *call, o *organization) (answer, error) {
		return answer{endless: true, data: c.listRuns(func(r *run) bool {
			pool := c.pools[r.workspace.pool()]
			return r.workspace.organization == o.name && c.picks("filter[workspace_names]", r.workspace.name()) &&
				(c.query("filter[agent_pool_names]") == nil || pool != nil && c.picks("filter[agent_pool_names]", pool.attributes["name"].(string)))
		})}, nil
	}))
	s.mux.HandleFunc("GET /api/v2/organizations/{org}/runs/queue", s.inOrganization(func(c *call, o *organization) (answer, error) {
		return answer{data: c.listRuns(func(r *run) bool { return r.workspace.organization == o.name && !r.ended() })}, nil
	}))
	s.mux.HandleFunc("GET /api/v2/runs/{id}", s.ofRun(func(c *call, r *run) (answer, error) { return answer{data: c.showRun(r)}, nil }))
	s.mux.HandleFunc("POST /api/v2/runs/{id}/actions/{action}", s.ofRun((*call).act))
	s.mux.HandleFunc("GET /api/v2/runs/{id}/comments", s.ofRun(func(c *call, r *run) (answer, error) {
		all := []object{}
		for _, id := range r.comments {
			all = append(all, c.comments[id].show())
		}
		return answer{data: all}, nil
	}))
	s.mux.HandleFunc("POST /api/v2/runs/{id}/comments", s.ofRun(func(c *call, r *run) (answer, error) {
		in, err := c.read()
		if err != nil {
			return answer{}, err
		}
		said := c.say(r, in.text("body"))
		r.note("commented", c.by.id, said.id)
		return answer{status: http.StatusCreated, data: said.show()}, nil
	}))
	for _, of := range []string{"policy-checks", "task-stages", "run-events"} {
		s.mux.HandleFunc("GET /api/v2/runs/{id}/"+of, s.ofRun(func(c *call, r *run) (answer, error) {
			return answer{data: append([]object{}, c.related(c.showRun(r), of)...)}, nil
		}))
	}
	for _, kind := range []string{"plans", "applies", "cost-estimates", "policy-checks", "task-stages", "run-events", "comments"} {
		s.mux.HandleFunc("GET /api/v2/"+kind+"/{id}", s.handle(func(c *call) (answer, error) {
			doc := c.resolve(kind, c.id())
			if doc == nil {
				return c.missing()
			}
			return answer{data: doc}, nil
		}, false))
	}
	for _, kind := range []string{"policy-checks", "task-stages"} {
		s.mux.HandleFunc("POST /api/v2/"+kind+"/{id}/actions/override", s.handle(func(c *call) (answer, error) {
			r := c.runOf(c.id())
			switch {
			case r == nil || c.by.rights.NoRuns:
				return c.missing()
			case !r.resting || r.confirmable():
				return conflict("transition not allowed")
			}
			r.decision = "overridden"
			return answer{data: c.showPart(r, kind, c.id())}, nil
		}, false))
	}
	s.mux.HandleFunc("GET /api/v2/plans/{id}/{output}", s.handle((*call).planOutput, false))
}

func (s *Server) ofRun(do func(*call, *run) (answer, error)) http.HandlerFunc {
	return s.handle(func(c *call) (answer, error) {
		if r := c.runs[c.id()]; r != nil {
			return do(c, r)
		}
		return c.missing()
	}, false)
}

// uploaded is the configuration version of runs that name none.
func (w *workspace) uploaded() *configVersion {
	for _, v := range slices.Backward(w.versions) {
		if v.status == "uploaded" && !v.speculative && !v.provisional {
			return v
		}
	}
	return w.configuration
}

func (c *call) createRun() (answer, error) {
	in, err := c.read()
	if err != nil {
		return answer{}, err
	}
	w := c.workspaces[in.related("workspace")]
	if w == nil || c.by.rights.NoRuns {
		return refuse(http.StatusNotFound, "not found", "Organization or workspace not found, or user unauthorized to perform action")
	}
	v := w.uploaded()
	if id := in.related("configuration-version"); id != "" {
		if v = c.versions[id]; v == nil { // it may belong to another workspace
			return invalid("Configuration version is invalid")
		}
	}
	list := func(name string) []any { l, _ := in.Attributes[name].([]any); return l }
	r := &run{
		workspace: w, version: v, source: "tfe-api", by: c.by.id, message: cmp.Or(in.text("message"), "Queued manually via the Terraform Enterprise API"),
		destroy: in.flag("is-destroy", false), planOnly: in.flag("plan-only", false) || v != nil && v.speculative, refresh: in.flag("refresh", true),
		refreshOnly: in.flag("refresh-only", false), savePlan: in.flag("save-plan", false), autoApply: in.flag("auto-apply", w.flag("auto-apply")),
		allowEmpty: in.flag("allow-empty-apply", false), variables: list("variables"), targets: list("target-addrs"), replace: list("replace-addrs"),
		terraformVersion: in.text("terraform-version"),
	}
	switch {
	case v == nil:
		return invalid("Configuration version can't be blank: the workspace has none")
	case v.status != "uploaded":
		return invalid("Configuration version %s is %s, not uploaded", v.id, v.status)
	case w.text("execution-mode") == "local":
		return invalid("Workspace has the execution mode local: runs are not possible")
	case r.destroy && !w.flag("allow-destroy-plan"):
		return invalid("Is destroy is not allowed in this workspace")
	case r.terraformVersion != "" && !r.planOnly:
		return invalid("Terraform version can only be set for runs that are plan-only")
	}
	if c.has(TwiceCreated) && !r.planOnly {
		stray := *r
		c.queue(&stray)
	}
	c.queue(r)
	return answer{status: http.StatusCreated, data: c.showRun(r)}, nil
}

// listRuns lists the runs that the query wants, the newest first.
func (c *call) listRuns(wanted func(*run) bool) []object {
	q := c.r.URL.Query()
	var runs []*run
	for _, r := range c.runs {
		basic := q.Get("search[basic]")
		switch {
		case r.operation() == "plan_only" && !q.Has("filter[operation]"): // such runs must be asked for
		case !wanted(r), !c.inGroup(r), !c.picks("filter[status]", r.statusShown()), !c.picks("filter[source]", r.source), !c.picks("filter[operation]", r.operation()):
		case basic != "" && r.id != basic && !strings.Contains(r.message, basic):
		case q.Get("search[commit]") != "", q.Get("search[user]") != "" && "user-"+q.Get("search[user]") != r.by:
		default:
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(b.id, a.id) })
	all := []object{}
	for _, r := range runs {
		all = append(all, c.showRun(r))
	}
	return all
}

// operation is what the filter of the same name means.
func (r *run) operation() string {
	switch {
	case r.savePlan:
		return "save_plan"
	case r.refreshOnly:
		return "refresh_only"
	case r.planOnly:
		return "plan_only"
	case r.destroy:
		return "destroy"
	case r.allowEmpty:
		return "empty_apply"
	}
	return "plan_and_apply"
}

// discardableGroup are the statuses of the group discardable.
var discardableGroup = []string{"planned", "planned_and_saved", "cost_estimated", "policy_checked", "policy_override", "post_plan_running", "post_plan_completed"}

func (c *call) inGroup(r *run) bool {
	switch c.r.URL.Query().Get("filter[status_group]") {
	case "non_final":
		return !r.ended()
	case "final":
		return r.ended()
	case "discardable":
		return slices.Contains(discardableGroup, r.status)
	}
	return true
}

func (c *call) act(r *run) (answer, error) {
	in, err := c.read()
	if err != nil {
		return answer{}, err
	}
	if c.by.rights.NoRuns {
		return c.missing()
	}
	action, by := c.r.PathValue("action"), c.by.id
	if !c.allowed(r, action) {
		return conflict("transition not allowed")
	}
	if c.late(action) { // the effect comes when the test lets it
		c.workers.Go(func() {
			c.locked(func() {
				for c.late(action) && !c.closed {
					c.changed.Wait()
				}
				c.do(r, action, by, in.Comment)
			})
		})
		return answer{status: http.StatusAccepted}, nil
	}
	c.do(r, action, by, in.Comment)
	return answer{status: http.StatusAccepted}, nil
}

// allowed reports whether the run's status allows a decision.
func (s *Server) allowed(r *run, action string) bool {
	switch action {
	case "apply":
		return r.confirmable()
	case "discard":
		return r.resting || r.status == "pending"
	case "cancel":
		return r.cancelable()
	case "force-cancel":
		return r.forceCancelable()
	case "force-execute":
		return r.status == "pending" && !r.aside() && (r.workspace.current == nil || r.workspace.current.resting)
	}
	return false
}

// do is what a person or a client decides about a run. It reports whether the run's status allows it.
func (s *Server) do(r *run, action, user, comment string) bool {
	if s.closed || !s.allowed(r, action) {
		return false
	}
	switch action {
	case "apply":
		r.decision, r.confirmer, r.resting = "confirmed", user, false
		r.enter("confirmed")
	case "discard":
		r.end("discarded")
		s.notifyEnd(r)
	case "cancel":
		r.canceled = time.Now()
		if r.process == nil {
			r.end("canceled")
			s.notifyEnd(r)
		} else {
			r.process()
		}
	case "force-cancel":
		r.end("force_canceled")
		s.notifyEnd(r)
	case "force-execute":
		if other := r.workspace.current; other != nil {
			other.end("discarded")
		}
		r.forced = true
	}
	r.decider = user
	said := ""
	if comment != "" {
		said = s.say(r, comment).id
	}
	r.note(happened[action], user, said)
	s.changed.Broadcast()
	return true
}

// planOutput answers with the plan in JSON.
func (c *call) planOutput() (answer, error) {
	r := c.runOf(c.id())
	if r == nil || c.by.rights.NoPlanJSON {
		return c.missing()
	}
	content := r.planned.json
	if content == nil {
		return answer{status: http.StatusNoContent}, nil
	}
	switch c.r.PathValue("output") {
	case "json-output":
	case "json-output-redacted":
		var err error
		if content, err = c.redacted(r); err != nil {
			return answer{}, err
		}
	default:
		return c.missing()
	}
	return answer{status: http.StatusTemporaryRedirect, location: c.sign("plan", func(*call) (answer, error) { return answer{raw: content}, nil })}, nil
}
