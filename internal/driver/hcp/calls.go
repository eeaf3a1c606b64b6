package hcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

var _ API = (*Client)(nil)

// workspaceAttributes are the attributes of a workspace as they are read.
type workspaceAttributes struct {
	Name             string   `json:"name"`
	ExecutionMode    string   `json:"execution-mode"`
	TerraformVersion string   `json:"terraform-version"`
	AutoApply        bool     `json:"auto-apply"`
	Locked           bool     `json:"locked"`
	SourceName       string   `json:"source-name"`
	TagNames         []string `json:"tag-names"`
	Permissions      struct {
		CanDestroy   bool `json:"can-destroy"`
		CanReadState bool `json:"can-read-state-versions"`
	} `json:"permissions"`
	ResourceCount int `json:"resource-count"`
	VCS           *struct {
		Identifier string `json:"identifier"`
	} `json:"vcs-repo"`
}

func (c *Client) workspace(ctx context.Context, r request, body *outgoing) (Workspace, error) {
	answer, err := call[resource](ctx, c, r, body)
	if err != nil {
		return Workspace{}, err
	}
	a, err := decode[workspaceAttributes](answer.Data)
	if err != nil {
		return Workspace{}, err
	}
	w := Workspace{
		ID: answer.Data.ID, Name: a.Name, ExecutionMode: a.ExecutionMode, TerraformVersion: a.TerraformVersion,
		AutoApply: a.AutoApply, Locked: a.Locked, SourceName: a.SourceName, Tags: a.TagNames, Resources: a.ResourceCount,
		Organization: answer.Data.one("organization"), AgentPool: answer.Data.one("agent-pool"), Version: answer.Data.one("current-configuration-version"), Run: answer.Data.one("current-run"),
		Deletable: a.Permissions.CanDestroy, StateReadable: a.Permissions.CanReadState,
	}
	if a.VCS != nil {
		if w.VCS = a.VCS.Identifier; w.VCS == "" {
			w.VCS = "a repository"
		}
	}
	if holder, kind := answer.Data.target("locked-by"); holder != "" {
		a := attributesOf[struct{ Username, Name string }](answer.Included, kind, holder)
		w.LockedBy, w.LockedByRun = cmp.Or(a.Username, a.Name, holder), kind == "runs"
	}
	return w, nil
}

var lockedBy = url.Values{"include": {"locked_by"}}

// Workspace implements API.
func (c *Client) Workspace(ctx context.Context, organization, name string) (Workspace, error) {
	return c.workspace(ctx, request{method: http.MethodGet, path: pathOf("organizations", organization, "workspaces", name), query: lockedBy}, nil)
}

// WorkspaceByID implements API.
func (c *Client) WorkspaceByID(ctx context.Context, id string) (Workspace, error) {
	return c.workspace(ctx, request{method: http.MethodGet, path: pathOf("workspaces", id), query: lockedBy}, nil)
}

func (s Settings) resource(id string) *outgoing {
	type attributes struct {
		Name             *string `json:"name,omitempty"`
		Description      *string `json:"description,omitempty"`
		ExecutionMode    *string `json:"execution-mode,omitempty"`
		AgentPool        *string `json:"agent-pool-id,omitempty"`
		TerraformVersion *string `json:"terraform-version,omitempty"`
		SourceName       *string `json:"source-name,omitempty"`
		AutoApply        *bool   `json:"auto-apply,omitempty"`
	}
	r := &outgoing{ID: id, Type: "workspaces", Attributes: attributes{
		s.Name, s.Description, s.ExecutionMode, s.AgentPool, s.TerraformVersion, s.SourceName, s.AutoApply}}
	if len(s.Tags) > 0 {
		r.Relationships = map[string]any{"tags": map[string]any{"data": tags(s.Tags)}}
	}
	return r
}

func tags(names []string) []outgoing {
	all := make([]outgoing, len(names))
	for i, name := range names {
		all[i] = outgoing{Type: "tags", Attributes: map[string]string{"name": name}}
	}
	return all
}

// CreateWorkspace implements API.
func (c *Client) CreateWorkspace(ctx context.Context, organization string, s Settings) (Workspace, error) {
	return c.workspace(ctx, request{method: http.MethodPost, path: pathOf("organizations", organization, "workspaces"), once: true}, s.resource(""))
}

// UpdateWorkspace implements API.
func (c *Client) UpdateWorkspace(ctx context.Context, id string, s Settings) (Workspace, error) {
	return c.workspace(ctx, request{method: http.MethodPatch, path: pathOf("workspaces", id)}, s.resource(id))
}

// AddTags implements API.
func (c *Client) AddTags(ctx context.Context, workspace string, names []string) error {
	raw, err := json.Marshal(map[string]any{"data": tags(names)})
	if err == nil {
		_, err = c.do(ctx, request{method: http.MethodPost, path: pathOf("workspaces", workspace, "relationships", "tags"), body: raw})
	}
	return err
}

// DeleteWorkspace implements API.
func (c *Client) DeleteWorkspace(ctx context.Context, id string) error {
	_, err := c.do(ctx, request{method: http.MethodPost, path: pathOf("workspaces", id, "actions", "safe-delete"), once: true})
	return err
}

// variableAttributes are the attributes of a variable.
type variableAttributes struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"` // null if it is sensitive
	Description string  `json:"description"`
	Category    string  `json:"category"`
	HCL         bool    `json:"hcl"`
	Sensitive   bool    `json:"sensitive"`
}

const (
	categoryEnv       = "env"
	categoryTerraform = "terraform"
)

// Variables implements API.
func (c *Client) Variables(ctx context.Context, workspace string) ([]Variable, error) {
	return c.variables(ctx, workspace, "vars")
}

// AllVariables implements API.
func (c *Client) AllVariables(ctx context.Context, workspace string) ([]Variable, error) {
	return c.variables(ctx, workspace, "all-vars")
}

func (c *Client) variables(ctx context.Context, workspace, which string) ([]Variable, error) {
	answer, err := list(ctx, c, pathOf("workspaces", workspace, which), nil, 1) // this list has no pages
	if err != nil {
		return nil, err
	}
	var all []Variable
	for _, r := range answer.Data {
		a, err := decode[variableAttributes](r)
		if err != nil {
			return nil, err
		}
		v := Variable{ID: r.ID, Key: a.Key, Description: a.Description, Env: a.Category == categoryEnv, HCL: a.HCL, Sensitive: a.Sensitive}
		if a.Value != nil {
			v.Value = *a.Value
		}
		all = append(all, v)
	}
	return all, nil
}

// CreateVariable implements API.
func (c *Client) CreateVariable(ctx context.Context, workspace string, v Variable) error {
	a := variableAttributes{Key: v.Key, Value: &v.Value, Description: v.Description, Category: categoryTerraform, HCL: v.HCL, Sensitive: v.Sensitive}
	if v.Env {
		a.Category = categoryEnv
	}
	_, err := call[resource](ctx, c, request{method: http.MethodPost, path: pathOf("workspaces", workspace, "vars"), once: true}, &outgoing{Type: "vars", Attributes: a})
	return err
}

// SetVariableValue implements API.
func (c *Client) SetVariableValue(ctx context.Context, workspace, id, value string) error {
	_, err := call[resource](ctx, c, request{method: http.MethodPatch, path: pathOf("workspaces", workspace, "vars", id)},
		&outgoing{ID: id, Type: "vars", Attributes: map[string]string{"value": value}})
	return err
}

// DeleteVariable implements API.
func (c *Client) DeleteVariable(ctx context.Context, workspace, id string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: pathOf("workspaces", workspace, "vars", id)})
	return err
}

func (c *Client) version(ctx context.Context, r request, body *outgoing) (Version, error) {
	answer, err := call[resource](ctx, c, r, body)
	if err != nil {
		return Version{}, err
	}
	a, err := decode[struct {
		Status    string `json:"status"`
		Error     string `json:"error-message"`
		UploadURL string `json:"upload-url"`
	}](answer.Data)
	return Version{ID: answer.Data.ID, Status: a.Status, Error: a.Error, UploadURL: a.UploadURL}, err
}

// CreateVersion implements API. An upload to the version queues no run. The version
// becomes the current one of the workspace when it is applied.
func (c *Client) CreateVersion(ctx context.Context, workspace string, speculative bool) (Version, error) {
	return c.version(ctx, request{method: http.MethodPost, path: pathOf("workspaces", workspace, "configuration-versions")}, &outgoing{
		Type: "configuration-versions", Attributes: map[string]bool{"auto-queue-runs": false, "speculative": speculative, "provisional": !speculative}})
}

// Version implements API.
func (c *Client) Version(ctx context.Context, id string) (Version, error) {
	return c.version(ctx, request{method: http.MethodGet, path: pathOf("configuration-versions", id)}, nil)
}

// Upload implements API.
func (c *Client) Upload(ctx context.Context, v Version, archive []byte) error {
	_, err := c.do(ctx, request{method: http.MethodPut, path: v.UploadURL, body: archive, bare: true})
	return err
}

// Organization implements API.
func (c *Client) Organization(ctx context.Context, name string) error {
	_, err := c.do(ctx, request{method: http.MethodGet, path: pathOf("organizations", name)})
	return err
}

// AgentPools implements API.
func (c *Client) AgentPools(ctx context.Context, organization string) ([]AgentPool, error) {
	answer, err := list(ctx, c, pathOf("organizations", organization, "agent-pools"), nil, maxPages)
	if err != nil {
		return nil, err
	}
	var all []AgentPool
	for _, r := range answer.Data {
		a, err := decode[struct{ Name string }](r)
		if err != nil {
			return nil, err
		}
		all = append(all, AgentPool{ID: r.ID, Name: a.Name})
	}
	return all, nil
}

// Notifications implements API.
func (c *Client) Notifications(ctx context.Context, workspace string) ([]Notification, error) {
	answer, err := list(ctx, c, pathOf("workspaces", workspace, "notification-configurations"), nil, maxPages)
	if err != nil {
		return nil, err
	}
	var all []Notification
	for _, r := range answer.Data {
		a, err := decode[struct{ Name, URL string }](r)
		if err != nil {
			return nil, err
		}
		all = append(all, Notification{ID: r.ID, Name: a.Name, URL: a.URL})
	}
	return all, nil
}

// SetNotification implements API.
func (c *Client) SetNotification(ctx context.Context, workspace string, n Notification) error {
	r := request{method: http.MethodPost, path: pathOf("workspaces", workspace, "notification-configurations"), once: true}
	if n.ID != "" {
		r = request{method: http.MethodPatch, path: pathOf("notification-configurations", n.ID)}
	}
	answer, err := call[resource](ctx, c, r, &outgoing{ID: n.ID, Type: "notification-configurations", Attributes: map[string]any{
		"destination-type": "generic", "name": n.Name, "url": n.URL, "token": n.Token, "enabled": true, "triggers": n.Triggers}})
	if err != nil {
		return fmt.Errorf("set the notification to %s: %w", n.URL, err)
	}
	if a, err := decode[struct{ Enabled *bool }](answer.Data); err == nil && a.Enabled != nil && !*a.Enabled {
		return fmt.Errorf("set the notification to %s: it is not enabled, because the address has not answered with success", n.URL)
	}
	return nil
}

// pathOf joins the parts of a path, with their special characters escaped.
func pathOf(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// DeleteNotification implements API.
func (c *Client) DeleteNotification(ctx context.Context, id string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: pathOf("notification-configurations", id)})
	return err
}
