package apiclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// The interval between two reads of a run doubles from firstPoll to longestPoll.
const (
	firstPoll   = 100 * time.Millisecond
	longestPoll = 2 * time.Second
)

// Leader returns the owner of the lease of the instance that leads; "" if none does.
func (c *Client) Leader(ctx context.Context) (string, error) {
	answer, err := c.Overview(ctx, selection.None())
	return apispec.Deref(answer.Leader).Owner, err
}

// RunTask requests a run of a task. AwaitRun returns the run, given what is
// returned.
func (c *Client) RunTask(ctx context.Context, name string) (after string, err error) {
	var answer apispec.RunAskedResponse
	if _, err := c.call(ctx, http.MethodPost, taskPath(name)+"/run", nil, nil, &answer); err != nil {
		return "", err
	}
	where, err := url.Parse(answer.RunsURL)
	if err != nil {
		return "", fmt.Errorf("read where the run of task %s shows up: %w", name, err)
	}
	return where.Query().Get("after"), nil
}

// PlanTask starts a plan of a task as it is configured. by names who asks, if nothing proves that.
func (c *Client) PlanTask(ctx context.Context, name, by string) (started apispec.PlanStartedResponse, err error) {
	_, err = c.call(ctx, http.MethodPost, "v1/tasks/"+url.PathEscape(name)+"/plan", url.Values{"by": {by}}, nil, &started)
	return started, err
}

// PlanData reads the plan of a plan run as data.
func (c *Client) PlanData(ctx context.Context, task, run string) (apispec.Plan, error) {
	answer, err := get[apispec.PlanResponse](ctx, c, runPath(task, run)+"/plan-data", nil)
	return answer.Plan, err
}

// ForgetTask removes the records of a task that is in no configuration.
func (c *Client) ForgetTask(ctx context.Context, name string) error {
	_, err := c.call(ctx, http.MethodPost, taskPath(name)+"/forget", nil, nil, nil)
	return err
}

// CancelTask ends the run of a task that is under way, and returns its id.
func (c *Client) CancelTask(ctx context.Context, name string) (id string, err error) {
	var answer apispec.RunCancelledResponse
	_, err = c.call(ctx, http.MethodPost, taskPath(name)+"/cancel", nil, nil, &answer)
	return answer.RunID, err
}

// WaitsError says that a requested run does not begin before a person or a window
// lets it.
type WaitsError struct{ Task apispec.TaskOverview }

func (e *WaitsError) Error() string { return "the run is requested and waits: " + e.Task.Reason.Text }

// AwaitRun waits for the end of the first run of a task after the one with this
// id. It calls waits with the reason for which the run has not begun, once for
// each reason. A run that waits for an approval or its window is returned as well.
// The error is *WaitsError if the run does not begin before a person or a window lets it.
func (c *Client) AwaitRun(ctx context.Context, name, after string, waits func(reason string)) (apispec.Run, error) {
	said := ""
	query := url.Values{"limit": {allRuns}}
	if after != "" {
		query.Set("after", after)
	}
	return await(ctx, func(wait time.Duration) (*apispec.Run, error) {
		runs, err := get[apispec.RunsResponse](ctx, c, taskPath(name)+"/runs", query)
		run := first(runs.Runs)
		switch {
		case err != nil:
			return nil, err
		case run != nil && run.Ended != nil:
			return run, nil
		case run != nil && run.State != apispec.RunStateWaiting:
			return nil, nil
		}
		task, err := c.waiting(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case stopped(task) && task.Run != nil && task.Reason.Code == state.ReasonWaiting:
			return task.Run, nil
		case stopped(task):
			return nil, &WaitsError{task}
		}
		if reason := task.Reason.Text; reason != said && wait > 4*firstPoll {
			waits(reason)
			said = reason
		}
		return nil, nil
	})
}

// stopped reports whether a task runs only if a person or a window lets it.
func stopped(task apispec.TaskOverview) bool {
	window := task.Reason.Code == state.ReasonOutside || task.Run != nil && task.Run.Wait != nil && task.Run.Wait.For == apispec.WaitForWindow
	person := task.NeedsPerson && lifecycle.RowOf(task.Reason.Code).Phase != lifecycle.Failing
	return task.Phase == apispec.PhaseStopped || task.Phase == apispec.PhaseWaiting || person || window
}

// AwaitEnd waits for the end of a run.
func (c *Client) AwaitEnd(ctx context.Context, name, id string) (apispec.Run, error) {
	return await(ctx, func(time.Duration) (*apispec.Run, error) {
		answer, err := get[apispec.RunResponse](ctx, c, runPath(name, id), nil)
		if err != nil || answer.Run.Ended == nil {
			return nil, err
		}
		return &answer.Run, nil
	})
}

// await reads until there is a run to return; wait is the pause before the next read.
func await(ctx context.Context, read func(wait time.Duration) (*apispec.Run, error)) (apispec.Run, error) {
	for wait := firstPoll; ; wait = min(2*wait, longestPoll) {
		run, err := read(wait)
		if err != nil {
			return apispec.Run{}, err
		}
		if run != nil {
			return *run, nil
		}
		if !delay.For(ctx, wait) {
			return apispec.Run{}, ctx.Err()
		}
	}
}

// first is the oldest run that applies the task and was not superseded.
func first(runs []apispec.Run) *apispec.Run {
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].Kind == apispec.RunKindApply && runs[i].State != apispec.RunStateSuperseded {
			return &runs[i]
		}
	}
	return nil
}

// waiting returns a task that is to be run and has no run yet. The error says why
// there will be none.
func (c *Client) waiting(ctx context.Context, name string) (apispec.TaskOverview, error) {
	task, err := c.TaskOverview(ctx, name)
	if err == nil && !task.Enabled {
		err = errors.New("the task was disabled before its run began")
	}
	return task, err
}
