package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// Inspection is the answer to a request that changes nothing.
type Inspection struct {
	RequestID string // empty where the API gives none
	apispec.Inspection
}

// InspectTask says what making the task would do, and makes nothing.
func (c *Client) InspectTask(ctx context.Context, task apispec.Task) (Inspection, error) {
	var answer apispec.TaskResponse
	_, err := c.call(ctx, http.MethodPost, "v1/tasks", run("inspect"), apispec.TaskRequest{Task: task}, &answer)
	if where := unfinishedRun(err); where != nil {
		inspection, err := c.awaitInspection(ctx, task.Name, where)
		return Inspection{Inspection: inspection}, err
	}
	return Inspection{answer.RequestID, apispec.Deref(answer.Run)}, err
}

// InspectReplacing says what the task would do if it were defined so, and changes nothing. There may be a
// task of its name.
func (c *Client) InspectReplacing(ctx context.Context, task apispec.Task) (apispec.Inspection, error) {
	var answer apispec.TaskResponse
	query := run("inspect")
	query.Set("replace", "true")
	_, err := c.call(ctx, http.MethodPost, "v1/tasks", query, apispec.TaskRequest{Task: task}, &answer)
	return apispec.Deref(answer.Run), err
}

// CreateTask makes a task and runs it. A task whose first run fails is not kept.
func (c *Client) CreateTask(ctx context.Context, task apispec.Task) error {
	_, err := c.call(ctx, http.MethodPost, "v1/tasks", run("now"), apispec.TaskRequest{Task: task}, nil)
	if where := unfinishedRun(err); where != nil {
		return c.awaitChange(ctx, task.Name, where, "the task is not kept")
	}
	return err
}

// Tasks returns the definitions of all tasks.
func (c *Client) Tasks(ctx context.Context) ([]apispec.Task, error) {
	answer, err := get[apispec.TasksResponse](ctx, c, "v1/tasks", nil)
	return answer.Tasks, err
}

// Task returns the definition of a task.
func (c *Client) Task(ctx context.Context, name string) (apispec.Task, error) {
	answer, err := get[apispec.TaskResponse](ctx, c, taskPath(name), nil)
	return answer.Task, err
}

// AllowTask enables a task, which runs when its condition changes next.
func (c *Client) AllowTask(ctx context.Context, name string) error {
	return c.setEnabled(ctx, name, true, nil, nil)
}

// InspectEnable says what enabling the task would do, and changes nothing.
func (c *Client) InspectEnable(ctx context.Context, name string) (Inspection, error) {
	var answer apispec.UpdateTaskResponse
	err := c.setEnabled(ctx, name, true, run("inspect"), &answer)
	if where := unfinishedRun(err); where != nil {
		inspection, err := c.awaitInspection(ctx, name, where)
		return Inspection{Inspection: inspection}, err
	}
	return Inspection{Inspection: apispec.Deref(answer.Inspect)}, err
}

// EnableTask enables a task and runs it.
func (c *Client) EnableTask(ctx context.Context, name string) error {
	err := c.setEnabled(ctx, name, true, run("now"), nil)
	if where := unfinishedRun(err); where != nil {
		return c.awaitChange(ctx, name, where, "the task stays as it was")
	}
	return err
}

// DisableTask disables a task. What it has made stays.
func (c *Client) DisableTask(ctx context.Context, name string) error {
	return c.setEnabled(ctx, name, false, nil, nil)
}

func (c *Client) setEnabled(ctx context.Context, name string, enabled bool, query url.Values, out any) error {
	body := apispec.UpdateTaskRequest{Enabled: enabled}
	_, err := c.call(ctx, http.MethodPatch, taskPath(name), query, body, out)
	return err
}

// DeleteTask marks a task for deletion. What it has made stays. The note, if
// any, is what the person should know: that the task will come back.
func (c *Client) DeleteTask(ctx context.Context, name string) (note string, err error) {
	header, err := c.call(ctx, http.MethodDelete, taskPath(name), nil, nil, nil)
	return header.Get("Terrapulse-Note"), err
}

// TaskNames returns the names of all tasks, sorted.
func (c *Client) TaskNames(ctx context.Context) ([]string, error) {
	return c.names(ctx, nil)
}

// TaskNamesFrom returns the names of the first tasks whose names begin with a text.
func (c *Client) TaskNamesFrom(ctx context.Context, begin string) ([]string, error) {
	return c.names(ctx, selection.Selection{Name: begin + "*"}.First(selection.MaxLimit).Query())
}

func (c *Client) names(ctx context.Context, query url.Values) ([]string, error) {
	answer, err := get[apispec.TasksResponse](ctx, c, "v1/tasks", query)
	names := list.Map(answer.Tasks, func(t apispec.Task) string { return t.Name })
	slices.Sort(names)
	return names, err
}

// taskPath is the path of a task. Dots are escaped: JoinPath would shorten a name
// such as "..".
func taskPath(name string) string {
	return "v1/tasks/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
}

func runPath(task, id string) string { return taskPath(task) + "/runs/" + url.PathEscape(id) }

// run is the query of a request that also runs or plans the task.
func run(how string) url.Values { return url.Values{"run": {how}} }
