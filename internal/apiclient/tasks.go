package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"sort"
	"strings"
)

// Task is the definition of a task in the form of the API.
type Task struct {
	Name         string            `json:"name"`
	Description  string            `json:"description,omitempty"`
	Enabled      bool              `json:"enabled"`
	Module       string            `json:"module"`
	Version      string            `json:"version,omitempty"`
	Providers    []string          `json:"providers,omitempty"`
	Variables    map[string]string `json:"variables,omitempty"` // values are Terraform source text
	BufferPeriod *BufferPeriod     `json:"buffer_period,omitempty"`
	Condition    Condition         `json:"condition"`
	ModuleInput  *ModuleInput      `json:"module_input,omitempty"`
}

// BufferPeriod is what a task says of its buffer period. Durations are in the
// form of time.ParseDuration.
type BufferPeriod struct {
	Enabled *bool   `json:"enabled,omitempty"`
	Min     *string `json:"min,omitempty"`
	Max     *string `json:"max,omitempty"`
}

// Condition is what makes a task run: one of its fields, or none.
type Condition struct {
	Services        *Services        `json:"services,omitempty"`
	CatalogServices *CatalogServices `json:"catalog_services,omitempty"`
	ConsulKV        *ConsulKV        `json:"consul_kv,omitempty"`
	Schedule        *Schedule        `json:"schedule,omitempty"`
}

// ModuleInput is what is rendered for the module beside the condition.
type ModuleInput struct {
	Services *Services `json:"services,omitempty"`
	ConsulKV *ConsulKV `json:"consul_kv,omitempty"`
}

// Services selects instances of services.
type Services struct {
	Names              []string          `json:"names,omitempty"`
	Regexp             *string           `json:"regexp,omitempty"`
	Datacenter         string            `json:"datacenter,omitempty"`
	Namespace          string            `json:"namespace,omitempty"`
	Filter             string            `json:"filter,omitempty"`
	CTSUserDefinedMeta map[string]string `json:"cts_user_defined_meta,omitempty"`
	UseAsModuleInput   *bool             `json:"use_as_module_input,omitempty"` // of a condition only
}

// CatalogServices selects names of services.
type CatalogServices struct {
	Regexp           string            `json:"regexp"`
	Datacenter       string            `json:"datacenter,omitempty"`
	Namespace        string            `json:"namespace,omitempty"`
	NodeMeta         map[string]string `json:"node_meta,omitempty"`
	UseAsModuleInput *bool             `json:"use_as_module_input,omitempty"`
}

// ConsulKV selects keys.
type ConsulKV struct {
	Path             string `json:"path"`
	Recurse          bool   `json:"recurse,omitempty"`
	Datacenter       string `json:"datacenter,omitempty"`
	Namespace        string `json:"namespace,omitempty"`
	UseAsModuleInput *bool  `json:"use_as_module_input,omitempty"` // of a condition only
}

// Schedule is a cron expression.
type Schedule struct {
	Cron string `json:"cron"`
}

// TaskRequest is the body of a request that makes a task.
type TaskRequest struct {
	Task Task `json:"task"`
}

// Plan is what Terraform would do.
type Plan struct {
	ChangesPresent bool   `json:"changes_present"`
	Plan           string `json:"plan"`
}

// Inspection is the answer to a request that changes nothing.
type Inspection struct {
	RequestID string // empty where the API gives none
	Plan
}

// InspectTask says what making the task would do, and makes nothing.
func (c *Client) InspectTask(ctx context.Context, task Task) (Inspection, error) {
	var answer struct {
		RequestID string `json:"request_id"`
		Run       Plan   `json:"run"`
	}
	_, err := c.call(ctx, http.MethodPost, "v1/tasks", run("inspect"), TaskRequest{task}, &answer)
	return Inspection{answer.RequestID, answer.Run}, err
}

// CreateTask makes a task and runs it. A task whose first run fails is not kept.
func (c *Client) CreateTask(ctx context.Context, task Task) error {
	_, err := c.call(ctx, http.MethodPost, "v1/tasks", run("now"), TaskRequest{task}, nil)
	return err
}

// InspectEnable says what enabling the task would do, and changes nothing.
func (c *Client) InspectEnable(ctx context.Context, name string) (Inspection, error) {
	var answer struct {
		Inspect Plan `json:"inspect"`
	}
	err := c.setEnabled(ctx, name, true, run("inspect"), &answer)
	return Inspection{Plan: answer.Inspect}, err
}

// EnableTask enables a task and runs it.
func (c *Client) EnableTask(ctx context.Context, name string) error {
	return c.setEnabled(ctx, name, true, run("now"), nil)
}

// DisableTask disables a task. What it has made stays.
func (c *Client) DisableTask(ctx context.Context, name string) error {
	return c.setEnabled(ctx, name, false, nil, nil)
}

func (c *Client) setEnabled(ctx context.Context, name string, enabled bool, query url.Values, out any) error {
	body := struct {
		Enabled bool `json:"enabled"`
	}{enabled}
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
	var answer struct {
		Tasks []struct{ Name string }
	}
	_, err := c.call(ctx, http.MethodGet, "v1/tasks", nil, nil, &answer)
	names := make([]string, len(answer.Tasks))
	for i, t := range answer.Tasks {
		names[i] = t.Name
	}
	sort.Strings(names)
	return names, err
}

// taskPath is the path of a task, a name that the file system's ways would
// shorten included.
func taskPath(name string) string {
	return "v1/tasks/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
}

// run is the query of a request that also runs or plans the task.
func run(how string) url.Values { return url.Values{"run": {how}} }
