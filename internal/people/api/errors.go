package api

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/suggest"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// refusal is why a request is not done. Consul-Terraform-Sync has two shapes of
// errors, by the age of an endpoint: the older one, which those below /v1/status
// have, has no request_id.
type refusal struct {
	status int
	legacy bool
	plain  bool // the content type is that of a text
	text   string
	allow  string // the methods that the endpoint has, if it refuses the method
	where  string // shows what goes on, if the request has only ended before it
}

func (e *refusal) Error() string { return e.text }

// refuse refuses a request in the newer shape.
func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// refuseOld refuses a request in the older shape.
func refuseOld(status int, format string, args ...any) *refusal {
	return &refusal{status: status, legacy: true, text: fmt.Sprintf(format, args...)}
}

// unsupported refuses requests of other methods than an endpoint has.
func unsupported(api, methods string) handler {
	return func(r *http.Request) (any, error) {
		text := fmt.Sprintf("'%s' in an unsupported method. The %s API currently supports the method(s): '%s'", r.Method, api, methods)
		return nil, &refusal{status: http.StatusMethodNotAllowed, legacy: true, text: text, allow: methods}
	}
}

// tooLarge is the refusal of a body that is too large.
func tooLarge(err *http.MaxBytesError) error {
	return refuse(http.StatusRequestEntityTooLarge, "the request body is too large: at most %d bytes are read", err.Limit)
}

// noTask is the answer for a task that is not there, which it names.
const noTask = "a task with name '%s' does not exist or has not been initialized yet"

// fail answers with what has gone wrong.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	refused := a.refusalOf(r, err)
	if refused.allow != "" {
		w.Header().Set("Allow", refused.allow)
	}
	if refused.where != "" {
		w.Header().Set("Location", refused.where)
	}
	if refused.legacy {
		write(w, refused.status, apispec.LegacyErrorResponse{Error: apispec.ErrorObject{Message: refused.text}})
		return
	}
	if refused.plain {
		w = plain{w}
	}
	middleware.Fail(w, r, refused.status, refused.text)
}

// unfinishedError is the end of a request before the run that it waited for.
type unfinishedError struct {
	error
	where string // the path that shows the run
}

func (e *unfinishedError) Unwrap() error { return e.error }

// withRunURL adds to the error of a request that has waited for a run where this run is shown.
func withRunURL(err error, where string) error {
	if unfinished(err) {
		return &unfinishedError{err, where}
	}
	return err
}

// refusals are the answers to errors that concern a task. A format takes the name
// of the task.
var refusals = []struct {
	err    error
	status int
	format string
}{
	{control.ErrNoTask, http.StatusNotFound, noTask},
	{control.ErrExists, http.StatusBadRequest, "task with name %s already exists"},
	{control.ErrActive, http.StatusInternalServerError, "task '%[1]s' is active and cannot be updated at this time: wait for its run, or end it first with `terrapulse cancel %[1]s` (POST /v1/tasks/%[1]s/cancel)"},
	{control.ErrDisabled, http.StatusConflict, "task '%s' is disabled: enable it first"},
	{control.ErrConfigured, http.StatusConflict, "task '%s' is in the configuration: delete it, or take it out of its file first"},
	{control.ErrNoRun, http.StatusConflict, "task '%s' has no run under way"},
	{state.ErrNoPlan, http.StatusNotFound, "no plan of task '%s' waits for an approval"},
	{control.ErrOtherPlan, http.StatusConflict, "another plan of task '%[1]s' waits for an approval now: read it with `terrapulse plan show %[1]s` (GET /v1/tasks/%[1]s/plan)"},
	{approval.ErrSamePerson, http.StatusForbidden, "task '%s' has require_distinct_approver: another person than the one who changed it through the API must approve, with a client certificate, a token or IAM"},
	{control.ErrNotOnHold, http.StatusConflict, "task '%s' is not on hold"},
}

// meant is the task that was probably meant, of those that the sender may view; "" if none was.
func (a *api) meant(r *http.Request, task string) string {
	effective, err := a.Control.Config(r.Context())
	if err != nil {
		return ""
	}
	var names []string
	sees := sees(r)
	for i := range effective.Config.Tasks {
		if name := effective.Config.Tasks[i].Name; sees(name) {
			names = append(names, name)
		}
	}
	return suggest.Meant(task, names)
}

// refusalOf turns an error into an answer. It logs errors that are not the
// sender's own.
func (a *api) refusalOf(r *http.Request, err error) *refusal {
	task := r.PathValue("name")
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			status := known.status
			if known.err == control.ErrActive && path.Base(r.Pattern) != "{name}" && path.Base(r.Pattern) != "tasks" {
				status = http.StatusConflict // only the requests of Consul-Terraform-Sync have its status
			}
			refused := refuse(status, known.format, task)
			if known.err == control.ErrNoTask {
				refused.text += a.meant(r, task)
			}
			return refused
		}
	}
	legacy := strings.HasPrefix(r.URL.Path, "/v1/status")
	var refused *refusal
	var wrong config.Errors
	var run *runError
	var denied *access.Refused
	var later *unfinishedError
	switch {
	case errors.As(err, &denied):
		return &refusal{status: http.StatusForbidden, legacy: legacy, text: err.Error()}
	case errors.As(err, new(*approval.RefusedError)):
		return refuse(http.StatusForbidden, "task '%s': %s", task, err)
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &wrong):
		return refuse(http.StatusBadRequest, "%s", wrong)
	case errors.Is(err, reconcile.ErrBusy):
		return refuse(http.StatusTooManyRequests, "%s", err)
	case errors.Is(err, control.ErrWaits), errors.Is(err, control.ErrNotReplaced):
		return refuse(http.StatusConflict, "%s", err)
	case errors.As(err, new(*control.UnknownError)):
		return refuse(http.StatusConflict, "%s", err)
	case errors.Is(err, control.ErrGivenUp):
		return refuse(http.StatusInternalServerError, "%s", err)
	case errors.As(err, &run): // the runner has logged why
		a.Log.Warn("the run that was asked for through the API has failed", "request_id", middleware.ID(r), "task", run.run.Task, "run", run.run.ID)
		return refuse(run.status, "%s", run)
	case errors.As(err, &later):
		refused := refuse(http.StatusGatewayTimeout, "%s; what was asked for goes on: %s shows it", err, later.where)
		refused.where = later.where
		return refused
	case unfinished(err) && legacy:
		return refuseOld(http.StatusInternalServerError, "%s", err)
	case unfinished(err) && (task == "" || r.Method == http.MethodGet || r.Method == http.MethodDelete):
		// It waited for no run, but for the store.
		return refuse(http.StatusInternalServerError, "%s: ask again", err)
	case unfinished(err):
		return refuse(http.StatusGatewayTimeout, "%s; what was asked for goes on: /v1/tasks/%s/runs shows it", err, task)
	}
	if a.Failed != nil {
		a.Failed()
	}
	a.Log.Error("a request cannot be answered", "request_id", middleware.ID(r), "method", r.Method, "path", r.URL.Path, "error", err)
	return &refusal{status: http.StatusInternalServerError, legacy: legacy, text: strings.TrimSpace(err.Error())}
}
