package apiclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
)

// unfinishedRun returns where a run is shown for which the server could not wait: behind API Gateway, a request
// ends before a container has started. It is nil for other errors.
func unfinishedRun(err error) *url.URL {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.where
	}
	return nil
}

// awaitInspection waits for a plan, as the server does if it has the time.
func (c *Client) awaitInspection(ctx context.Context, task string, where *url.URL) (apispec.Inspection, error) {
	run, err := c.AwaitEnd(ctx, task, path.Base(where.Path))
	if err == nil && run.State != apispec.RunStateSucceeded {
		err = &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("inspect task '%s': %s", task, apispec.Deref(run.Error))}
	}
	if err != nil {
		return apispec.Inspection{}, err
	}
	plan, err := c.PlanText(ctx, task, run.ID)
	return apispec.Inspection{ChangesPresent: apiview.ChangesOf(run.Changes).Any(), Plan: plan}, err
}

// awaitChange waits for the run that decides whether a change is kept, as the server does if it has the time.
func (c *Client) awaitChange(ctx context.Context, task string, where *url.URL, otherwise string) error {
	run, err := c.AwaitRun(ctx, task, where.Query().Get("after"), func(string) {})
	waits := (*WaitsError)(nil)
	switch {
	case errors.As(err, &waits):
		return &Error{Status: http.StatusConflict, Message: waits.Error() + ": when it has succeeded, the change is kept, and otherwise " + otherwise}
	case err != nil:
		return err
	case run.State == apispec.RunStateWaiting:
		return &Error{Status: http.StatusConflict, Message: fmt.Sprintf("the run of task '%s' waits: when it has succeeded, the change is kept, and otherwise %s", task, otherwise)}
	case run.State != apispec.RunStateSucceeded:
		return &Error{Status: http.StatusInternalServerError, Message: fmt.Sprintf("run task '%s': %s; %s", task, apispec.Deref(run.Error), otherwise)}
	}
	return nil
}
