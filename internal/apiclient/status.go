package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// TaskStatus is the status of a task.
type TaskStatus struct {
	Enabled bool   `json:"enabled"`
	Status  string `json:"status"` // successful, errored, critical or unknown
}

// TaskStatuses returns the statuses of all tasks, by name. Every version of
// Consul-Terraform-Sync answers this.
func (c *Client) TaskStatuses(ctx context.Context) (map[string]TaskStatus, error) {
	statuses := map[string]TaskStatus{}
	_, err := c.call(ctx, http.MethodGet, "v1/status/tasks", nil, nil, &statuses)
	return statuses, err
}

// Health returns why the instance does not do its work, nil if it does. It needs
// no token; without one the answer has no reason.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodGet, "v1/health", nil, nil, nil)
	return err
}

// Overview returns what the instance and its tasks are doing.
func (c *Client) Overview(ctx context.Context) (apispec.Overview, error) {
	var answer apispec.Overview
	_, err := c.call(ctx, http.MethodGet, "v1/overview", nil, nil, &answer)
	return answer, err
}

// runLimit is how many runs one request asks for, which is the most there is.
const runLimit = "200"

// Runs returns the runs of a task, of every kind, the latest first.
func (c *Client) Runs(ctx context.Context, task string) ([]apispec.Run, error) {
	var answer apispec.RunsResponse
	_, err := c.call(ctx, http.MethodGet, taskPath(task)+"/runs", url.Values{"limit": {runLimit}}, nil, &answer)
	return answer.Runs, err
}

// LatestRuns returns the latest runs of all tasks, the latest first.
func (c *Client) LatestRuns(ctx context.Context) ([]apispec.Run, error) {
	var answer apispec.RunsResponse
	_, err := c.call(ctx, http.MethodGet, "v1/runs", url.Values{"limit": {runLimit}}, nil, &answer)
	return answer.Runs, err
}

// Output returns a chunk of what Terraform printed in a run.
func (c *Client) Output(ctx context.Context, task, run string, offset int) (apispec.RunOutputResponse, error) {
	var answer apispec.RunOutputResponse
	_, err := c.call(ctx, http.MethodGet, taskPath(task)+"/runs/"+url.PathEscape(run)+"/output", url.Values{"offset": {strconv.Itoa(offset)}}, nil, &answer)
	return answer, err
}
