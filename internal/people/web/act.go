package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

var errNoPlan = errors.New("the request names no plan: open the page of the task, and decide there")

var errNoComment = errors.New("say why the plan is rejected, as a comment")

var errNoRun = errors.New("the request names no run: open the page of the task, and cancel it there")

var errRunChanged = errors.New("the run has changed, and was not cancelled")

// notices are what a page says after the viewer has acted, by the query's done.
var notices = map[string]string{
	"approve":     "You have approved the plan. The task applies it if nothing has changed meanwhile.",
	"reject":      "You have rejected the plan. The task is planned again when its input or definition changes.",
	"hold":        "You have put the task on hold.",
	"release":     "You have released the task.",
	"run":         "You have requested a run.",
	"cancel":      "You have cancelled the run.",
	"enable":      "You have enabled the task.",
	"disable":     "You have disabled the task.",
	"pause":       "You have paused all tasks.",
	"approve-all": "You have approved what the tasks lose. They are applied with what Consul shows now.",
	"approvals":   "You have approved the plans. Each task applies its plan if nothing has changed meanwhile, and if it needs no further approval.",
	"resume":      "You have resumed all tasks.",
}

// requests are the requests of the API in which the forms of the pages end, by the last part of the path of a
// form; {name} is the task of the page.
var requests = map[string]string{
	"approve": "POST /v1/tasks/{name}/approval", "reject": "POST /v1/tasks/{name}/approval",
	"hold": "POST /v1/tasks/{name}/hold", "release": "DELETE /v1/tasks/{name}/hold", "run": "POST /v1/tasks/{name}/run",
	"cancel": "POST /v1/tasks/{name}/cancel", "plan": "POST /v1/tasks/{name}/plan", "enable": "PATCH /v1/tasks/{name}", "disable": "PATCH /v1/tasks/{name}",
	"pause": "POST /v1/pause", "resume": "POST /v1/resume", "approve-all": "POST /v1/consul/approval", "approvals": "POST /v1/approvals", "what-if": "POST /v1/what-if",
}

// AsRequest returns the request of the API in which a form of the pages ends, without its body. Other requests
// are returned as they are.
func AsRequest(r *http.Request) *http.Request {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), outbox.PagesPath), "/")
	method, pattern, ok := strings.Cut(requests[parts[len(parts)-1]], " ")
	of := strings.Contains(pattern, "{name}")
	if !ok || !strings.HasPrefix(r.URL.Path, outbox.PagesPath) || r.Method != http.MethodPost || of != (len(parts) == 3 && parts[0] == "tasks") || !of && len(parts) != 1 {
		return r
	}
	if of {
		pattern = strings.Replace(pattern, "{name}", parts[1], 1)
	}
	target, err := url.Parse(pattern)
	if err != nil {
		return r
	}
	ends := r.WithContext(asPages(r.Context(), middleware.Host(r.RemoteAddr)))
	ends.Method, ends.URL = method, target
	return ends
}

// acting does what a button says, and shows its page again: that of the task, or of all tasks.
func (p *pages) acting(do func(ctx context.Context, r *http.Request, by string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		viewer := p.Viewer(r)
		err := viewer.NeedAny(roles.View) // the API checks the role that the action needs
		if err == nil {
			err = do(access.With(asPages(r.Context(), middleware.Host(r.RemoteAddr)), viewer), r, viewer.Name)
		}
		p.all.acted(err == nil)
		name, shown := r.PathValue("name"), pageURL("tasks")
		if err != nil {
			p.refuse(w, r, name, err)
			return
		}
		if name != "" {
			shown = taskURL(name)
		}
		http.Redirect(w, r, fmt.Sprintf("%s?done=%s&at=%d", shown, path.Base(r.URL.Path), p.Now().Unix()), http.StatusSeeOther)
	}
}

// planNow starts a plan of a task, and shows the page of its run.
func (p *pages) planNow(w http.ResponseWriter, r *http.Request) {
	viewer, name := p.Viewer(r), r.PathValue("name")
	err := viewer.NeedAny(roles.View) // the API checks the role that a plan needs
	var started apispec.PlanStartedResponse
	if err == nil {
		started, err = p.source.PlanTask(access.With(asPages(r.Context(), middleware.Host(r.RemoteAddr)), viewer), name, viewer.Name)
	}
	p.all.acted(err == nil)
	if err != nil {
		p.refuse(w, r, name, err)
		return
	}
	http.Redirect(w, r, runURL(name, started.RunID), http.StatusSeeOther)
}

// act does what a button of a task says.
func (p *pages) act(ctx context.Context, r *http.Request, by string) (err error) {
	name, comment := r.PathValue("name"), r.PostFormValue("comment")
	switch c, action := p.source, r.PathValue("action"); action {
	case "approve", "reject":
		if r.PostFormValue("plan") == "" {
			return errNoPlan
		}
		if action == "reject" && comment == "" {
			return errNoComment
		}
		err = c.DecidePlan(ctx, name, apispec.ApprovalRequest{Decision: apispec.ApprovalDecision(action),
			Plan: r.PostFormValue("plan"), Comment: apiview.Optional(comment), By: apiview.Optional(by)})
	case "hold":
		err = c.HoldTask(ctx, name, apispec.HoldRequest{Comment: apiview.Optional(comment), By: apiview.Optional(by)})
	case "release":
		err = c.ReleaseTask(ctx, name, by)
	case "run":
		_, err = c.RunTask(ctx, name)
	case "cancel":
		if err = p.unchanged(ctx, name, r.PostFormValue("run"), r.PostFormValue("state")); err == nil {
			_, err = c.CancelTask(ctx, name)
		}
	case "enable":
		if err = c.AllowTask(ctx, name); err == nil && r.PostFormValue("run") != "" {
			if _, err = c.RunTask(ctx, name); err != nil {
				err = fmt.Errorf("the task is enabled, but its run was refused: %w", err)
			}
		}
	case "disable":
		err = c.DisableTask(ctx, name)
	default:
		err = errNoPage
	}
	return err
}

// actOnAll pauses or resumes all tasks, or approves what a replaced Consul takes from them.
func (p *pages) actOnAll(ctx context.Context, r *http.Request, by string) (err error) {
	asked := apispec.PauseRequest{By: apiview.Optional(by), Reason: apiview.Optional(r.PostFormValue("comment"))}
	switch path.Base(r.URL.Path) {
	case "pause":
		_, err = p.source.Pause(ctx, asked)
	case "resume":
		_, err = p.source.Resume(ctx, asked)
	default:
		err = p.approveReplaced(ctx, r.PostFormValue("plan"), apispec.HoldRequest{By: asked.By, Comment: asked.Reason})
	}
	return err
}

// unchanged returns an error if a run is no longer as the page showed it. To cancel a run
// that waits applies nothing; to cancel one that works interrupts Terraform.
func (p *pages) unchanged(ctx context.Context, task, id, shown string) error {
	if id == "" {
		return errNoRun
	}
	run, err := p.source.Run(ctx, task, id)
	if err == nil && string(run.State) != shown {
		return fmt.Errorf("%w: it is %s, and was %s when the page was shown", errRunChanged, run.State, shown)
	}
	return err
}

// refuse shows why the API has not done what a button says, and where the viewer goes
// on: a plan may have changed since the page was shown.
func (p *pages) refuse(w http.ResponseWriter, r *http.Request, task string, err error) {
	why := err.Error()
	if refused := (*apiclient.Error)(nil); errors.As(err, &refused) {
		why = strings.Replace(why, refused.Error(), refused.Message, 1)
	}
	p.render(w, r, statusOf(err), view{title: "Not done", template: "refused", still: true, data: map[string]any{"error": why, "task": task}})
}
