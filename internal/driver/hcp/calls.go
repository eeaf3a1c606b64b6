package hcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
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
	ResourceCount    int      `json:"resource-count"`
	VCS              *struct {
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
		Organization: answer.Data.one("organization"), AgentPool: answer.Data.one("agent-pool"), Version: answer.Data.one("current-configuration-version"),
	}
	if a.VCS != nil {
		if w.VCS = a.VCS.Identifier; w.VCS == "" {
			w.VCS = "a repository"
		}
	}
	if holder := answer.Data.one("locked-by"); holder != "" {
		for _, kind := range []string{"users", "teams", "runs"} {
			a := attributesOf[struct{ Username, Name string }](answer.Included, kind, holder)
			if w.LockedBy == "" {
				w.LockedBy = a.Username + a.Name
			}
		}
		if w.LockedBy == "" {
			w.LockedBy = holder
		}
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
	_, err := c.do(ctx, request{method: http.MethodPost, path: pathOf("workspaces", id, "actions", "safe-delete")})
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
	answer, err := list(ctx, c, pathOf("workspaces", workspace, which), nil, 1, false) // this list has no pages
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

// SetVariable implements API.
func (c *Client) SetVariable(ctx context.Context, workspace string, v Variable) error {
	a := variableAttributes{Key: v.Key, Value: &v.Value, Description: v.Description, Category: categoryTerraform, HCL: v.HCL, Sensitive: v.Sensitive}
	if v.Env {
		a.Category = categoryEnv
	}
	r := request{method: http.MethodPost, path: pathOf("workspaces", workspace, "vars"), once: true}
	if v.ID != "" {
		r = request{method: http.MethodPatch, path: pathOf("workspaces", workspace, "vars", v.ID)}
	}
	_, err := call[resource](ctx, c, r, &outgoing{ID: v.ID, Type: "vars", Attributes: a})
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

// runAttributes are the attributes of a run as they are read.
type runAttributes struct {
	Status     string `json:"status"`
	Message    string `json:"message"`
	PlanOnly   bool   `json:"plan-only"`
	Destroy    bool   `json:"is-destroy"`
	HasChanges bool   `json:"has-changes"`
	Position   int    `json:"position-in-queue"`
	Actions    struct {
		Confirmable bool `json:"is-confirmable"`
		Discardable bool `json:"is-discardable"`
		Cancelable  bool `json:"is-cancelable"`
	} `json:"actions"`
}

// phaseAttributes are the attributes of a plan or an apply as they are read.
type phaseAttributes struct {
	Status  string `json:"status"`
	Add     int    `json:"resource-additions"`
	Change  int    `json:"resource-changes"`
	Destroy int    `json:"resource-destructions"`
	LogURL  string `json:"log-read-url"`
}

func partOf(included []resource, kind, id string) Phase {
	a := attributesOf[phaseAttributes](included, kind, id)
	return Phase{ID: id, Status: a.Status, Add: a.Add, Change: a.Change, Destroy: a.Destroy, LogURL: a.LogURL}
}

func runOf(r resource, included []resource) (Run, error) {
	a, err := decode[runAttributes](r)
	ws := attributesOf[workspaceAttributes](included, "workspaces", r.one("workspace"))
	return Run{
		ID: r.ID, Status: a.Status, Message: a.Message, PlanOnly: a.PlanOnly, Destroy: a.Destroy, HasChanges: a.HasChanges,
		Confirmable: a.Actions.Confirmable, Discardable: a.Actions.Discardable, Cancelable: a.Actions.Cancelable, Position: a.Position,
		Workspace: r.one("workspace"), Version: r.one("configuration-version"), ConfirmedBy: r.one("confirmed-by"),
		Name: ws.Name, Locked: ws.Locked,
		Plan: partOf(included, "plans", r.one("plan")), Apply: partOf(included, "applies", r.one("apply")),
	}, err
}

func runsOf(answer document[[]resource]) ([]Run, error) {
	var all []Run
	for _, r := range answer.Data {
		run, err := runOf(r, answer.Included)
		if err != nil {
			return nil, err
		}
		all = append(all, run)
	}
	return all, nil
}

// CreateRun implements API.
func (c *Client) CreateRun(ctx context.Context, n NewRun) (Run, error) {
	attributes := map[string]any{"message": n.Message, "auto-apply": false, "is-destroy": n.Destroy, "plan-only": n.PlanOnly}
	if len(n.Variables) > 0 {
		type variable struct {
			Key   string `json:"key"`
			Value string `json:"value"`
		}
		var all []variable
		for _, name := range slices.Sorted(maps.Keys(n.Variables)) {
			all = append(all, variable{name, n.Variables[name]})
		}
		attributes["variables"] = all
	}
	answer, err := call[resource](ctx, c, request{method: http.MethodPost, path: "runs", once: true}, &outgoing{
		Type:       "runs",
		Attributes: attributes,
		Relationships: map[string]any{
			"workspace": to("workspaces", n.Workspace), "configuration-version": to("configuration-versions", n.Version)},
	})
	if err != nil {
		return Run{}, err
	}
	return runOf(answer.Data, answer.Included)
}

// Run implements API.
func (c *Client) Run(ctx context.Context, id string) (Run, error) {
	answer, err := call[resource](ctx, c, request{method: http.MethodGet, path: pathOf("runs", id), query: url.Values{"include": {"plan,apply,workspace"}}}, nil)
	if err != nil {
		return Run{}, err
	}
	return runOf(answer.Data, answer.Included)
}

// operations are all kinds of runs. Without them, lists of runs lack those that are plan-only.
const operations = "plan_only,plan_and_apply,save_plan,refresh_only,destroy,empty_apply"

// Runs implements API.
func (c *Client) Runs(ctx context.Context, workspace string) ([]Run, error) {
	answer, err := list(ctx, c, pathOf("workspaces", workspace, "runs"), url.Values{"filter[operation]": {operations}}, 1, false)
	if err != nil {
		return nil, err
	}
	return runsOf(answer)
}

// maxPages bounds what is read of the active runs of many workspaces.
const maxPages = 20

// ActiveRuns implements API.
func (c *Client) ActiveRuns(ctx context.Context, organization string, workspaces []string) ([]Run, error) {
	answer, err := list(ctx, c, pathOf("organizations", organization, "runs"), url.Values{
		"filter[status_group]": {"non_final"}, "filter[operation]": {operations}, "filter[workspace_names]": {strings.Join(workspaces, ",")}, "include": {"workspace"}}, maxPages, true)
	if err != nil {
		return nil, err
	}
	return runsOf(answer)
}

// Act implements API.
func (c *Client) Act(ctx context.Context, run string, a Action, comment string) error {
	body, err := json.Marshal(map[string]string{"comment": comment})
	if err == nil {
		_, err = c.do(ctx, request{method: http.MethodPost, path: pathOf("runs", run, "actions", string(a)), body: body, once: true})
	}
	return err
}

// Events implements API.
func (c *Client) Events(ctx context.Context, run string) ([]Event, error) {
	answer, err := list(ctx, c, pathOf("runs", run, "run-events"), url.Values{"include": {"actor,comment"}}, 1, false)
	if err != nil {
		return nil, err
	}
	var all []Event
	for _, r := range answer.Data {
		a, err := decode[struct {
			Action string    `json:"action"`
			At     time.Time `json:"created-at"`
		}](r)
		if err != nil {
			return nil, err
		}
		e := Event{Action: a.Action, At: a.At, User: r.one("actor")}
		e.By = attributesOf[struct{ Username string }](answer.Included, "users", e.User).Username
		e.Comment = attributesOf[struct{ Body string }](answer.Included, "comments", r.one("comment")).Body
		all = append(all, e)
	}
	return all, nil
}

// PlanJSON implements API.
func (c *Client) PlanJSON(ctx context.Context, plan string) ([]byte, error) {
	raw, err := c.do(ctx, request{method: http.MethodGet, path: pathOf("plans", plan, "json-output")})
	if errors.Is(err, ErrDenied) || err == nil && len(raw) == 0 {
		return nil, ErrNotFound
	}
	return raw, err
}

// Log implements API.
func (c *Client) Log(ctx context.Context, address string) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: address, bare: true})
}

// AgentPools implements API.
func (c *Client) AgentPools(ctx context.Context, organization string) ([]AgentPool, error) {
	answer, err := list(ctx, c, pathOf("organizations", organization, "agent-pools"), nil, maxPages, false)
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
	answer, err := list(ctx, c, pathOf("workspaces", workspace, "notification-configurations"), nil, maxPages, false)
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
	_, err := call[resource](ctx, c, r, &outgoing{ID: n.ID, Type: "notification-configurations", Attributes: map[string]any{
		"destination-type": "generic", "name": n.Name, "url": n.URL, "token": n.Token, "enabled": true, "triggers": n.Triggers}})
	if err != nil {
		return fmt.Errorf("set the notification to %s: %w", n.URL, err)
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
