package apiclient

import (
	"context"
	"net/http"
)

// TaskStatus is how a task fares.
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
