package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/request"
)

// Consul-Terraform-Sync has two shapes of errors, by the age of an endpoint.
// The older has no request_id.

// refuseOld answers with an error in the older shape.
func refuseOld(w http.ResponseWriter, status int, format string, args ...any) {
	write(w, status, apispec.LegacyErrorResponse{Error: apispec.ErrorObject{Message: fmt.Sprintf(format, args...)}})
}

// refuse answers with an error in the newer shape.
func refuse(w http.ResponseWriter, r *http.Request, status int, format string, args ...any) {
	request.Fail(w, r, status, fmt.Sprintf(format, args...))
}

// unsupported answers requests of other methods than an endpoint has.
func unsupported(api, methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", methods)
		refuseOld(w, http.StatusMethodNotAllowed, "'%s' in an unsupported method. The %s API currently supports the method(s): '%s'", r.Method, api, methods)
	}
}

// noTask is what is said of a task that is not there.
func noTask(name string) string {
	return fmt.Sprintf("a task with name '%s' does not exist or has not been initialized yet", name)
}

// fail answers with what has gone wrong.
func (a *api) fail(w http.ResponseWriter, r *http.Request, task string, err error) {
	var wrong config.Errors
	var run *runError
	switch {
	case errors.Is(err, reconcile.ErrNoTask):
		refuse(w, r, http.StatusNotFound, "%s", noTask(task))
	case errors.Is(err, reconcile.ErrExists):
		refuse(w, r, http.StatusBadRequest, "task with name %s already exists", task)
	case errors.As(err, &wrong):
		refuse(w, r, http.StatusBadRequest, "%s", wrong.Error())
	case errors.Is(err, reconcile.ErrActive):
		refuse(w, r, http.StatusInternalServerError, "task '%[1]s' is active and cannot be updated at this time: wait for its run, or end it first with `terrapulse cancel %[1]s` (POST /v1/tasks/%[1]s/cancel)", task)
	case errors.Is(err, reconcile.ErrDisabled):
		refuse(w, r, http.StatusConflict, "task '%s' is disabled: enable it first", task)
	case errors.Is(err, reconcile.ErrConfigured):
		refuse(w, r, http.StatusConflict, "task '%s' is in the configuration: delete it, or take it out of its file first", task)
	case errors.Is(err, reconcile.ErrNoRun):
		refuse(w, r, http.StatusConflict, "task '%s' has no run under way", task)
	case errors.Is(err, reconcile.ErrNoRetry):
		refuse(w, r, http.StatusConflict, "the latest run of task '%[1]s' did not fail: there is nothing to retry; `terrapulse run %[1]s` runs it all the same", task)
	case errors.Is(err, reconcile.ErrGivenUp):
		refuse(w, r, http.StatusInternalServerError, "%s", err)
	case errors.As(err, &run):
		a.failRun(w, r, http.StatusInternalServerError, run)
	case unfinished(err) && (task == "" || r.Method == http.MethodGet || r.Method == http.MethodDelete):
		// It waited for no run, but for the store.
		refuse(w, r, http.StatusInternalServerError, "%s: ask again", err)
	case unfinished(err):
		refuse(w, r, http.StatusGatewayTimeout, "%s; what was asked for goes on: /v1/tasks/%s/runs shows it", err, task)
	default:
		a.Log.Error("a request cannot be answered", "request_id", request.ID(r), "method", r.Method, "path", r.URL.Path, "error", err)
		refuse(w, r, http.StatusInternalServerError, "%s", strings.TrimSpace(err.Error()))
	}
}

// failRun answers with why a run has failed. The runner has logged that: here it
// is only said which run a request led to.
func (a *api) failRun(w http.ResponseWriter, r *http.Request, status int, err *runError) {
	a.Log.Warn("the run that was asked for through the API has failed", "request_id", request.ID(r), "task", err.run.Task, "run", err.run.ID)
	refuse(w, r, status, "%s", err)
}

// failOld is fail for endpoints of the older shape.
func (a *api) failOld(w http.ResponseWriter, r *http.Request, err error) {
	if !unfinished(err) {
		a.Log.Error("a request cannot be answered", "request_id", request.ID(r), "method", r.Method, "path", r.URL.Path, "error", err)
	}
	refuseOld(w, http.StatusInternalServerError, "%s", err)
}
