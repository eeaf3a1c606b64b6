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

// runAttributes are the attributes of a run as they are read.
type runAttributes struct {
	Status     string                     `json:"status"`
	Message    string                     `json:"message"`
	PlanOnly   bool                       `json:"plan-only"`
	Destroy    bool                       `json:"is-destroy"`
	HasChanges bool                       `json:"has-changes"`
	Position   int                        `json:"position-in-queue"`
	Timestamps map[string]json.RawMessage `json:"status-timestamps"`
	Actions    struct {
		Confirmable bool `json:"is-confirmable"`
		Discardable bool `json:"is-discardable"`
		Cancelable  bool `json:"is-cancelable"`
	} `json:"actions"`
}

// phaseAttributes are the attributes of a plan or an apply as they are read.
type phaseAttributes struct {
	Status  string `json:"status"`
	Add     *int   `json:"resource-additions"` // nil if it is missing, also the others
	Change  *int   `json:"resource-changes"`
	Destroy *int   `json:"resource-destructions"`
	LogURL  string `json:"log-read-url"`
}

func partOf(included []resource, kind, id string) Phase {
	return phaseFrom(id, attributesOf[phaseAttributes](included, kind, id))
}

func phaseFrom(id string, a phaseAttributes) Phase {
	p := Phase{ID: id, Status: a.Status, LogURL: a.LogURL}
	if p.Counted = a.Add != nil && a.Change != nil && a.Destroy != nil; p.Counted {
		p.Add, p.Change, p.Destroy = *a.Add, *a.Change, *a.Destroy
	}
	return p
}

// checked reports whether a policy or a run task judges a run.
func checked(r resource, times map[string]json.RawMessage) bool {
	for _, relation := range []string{"policy-checks", "task-stages"} {
		var all []struct{}
		if json.Unmarshal(r.Relationships[relation].Data, &all) == nil && len(all) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(times)), func(name string) bool {
		return strings.HasPrefix(name, "policy-") || strings.HasPrefix(name, "pre-") || strings.HasPrefix(name, "post-")
	})
}

func runOf(r resource, included []resource) (Run, error) {
	a, err := decode[runAttributes](r)
	ws := attributesOf[workspaceAttributes](included, "workspaces", r.one("workspace"))
	return Run{
		ID: r.ID, Status: a.Status, Message: a.Message, PlanOnly: a.PlanOnly, Destroy: a.Destroy, HasChanges: a.HasChanges || a.Actions.Confirmable,
		Confirmable: a.Actions.Confirmable, Discardable: a.Actions.Discardable, Cancelable: a.Actions.Cancelable, Position: a.Position,
		Workspace: r.one("workspace"), Version: r.one("configuration-version"), ConfirmedBy: r.one("confirmed-by"),
		Checked: checked(r, a.Timestamps), Name: ws.Name, Locked: ws.Locked,
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
	run, err := runOf(answer.Data, answer.Included)
	if err == nil && lacking(run.Plan) {
		run.Plan, err = c.part(ctx, "plans", run.Plan)
	}
	if err == nil && lacking(run.Apply) {
		run.Apply, err = c.part(ctx, "applies", run.Apply)
	}
	return run, err
}

// lacking reports whether the answer about a run lacks its plan or its apply, or the numbers.
func lacking(p Phase) bool {
	return p.ID != "" && (p.Status == "" || p.Status == "finished" && !p.Counted)
}

// part reads a plan or an apply. If it cannot be read, it stays as it is.
func (c *Client) part(ctx context.Context, kind string, p Phase) (Phase, error) {
	answer, err := call[resource](ctx, c, request{method: http.MethodGet, path: pathOf(kind, p.ID)}, nil)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDenied) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	a, err := decode[phaseAttributes](answer.Data)
	return phaseFrom(p.ID, a), err
}

// operations are all kinds of runs that every version of the API knows. Without the filter, lists
// of runs lack those that are plan-only.
const operations = "plan_only,plan_and_apply,refresh_only,destroy,empty_apply"

// Runs implements API. Runs that may apply something need no filter, which an older Terraform
// Enterprise may refuse.
func (c *Client) Runs(ctx context.Context, workspace string, planOnly bool) ([]Run, error) {
	query := url.Values{}
	if planOnly {
		query.Set("filter[operation]", "plan_only")
	}
	answer, err := list(ctx, c, pathOf("workspaces", workspace, "runs"), query, 1)
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
		"filter[status_group]": {"non_final"}, "filter[operation]": {operations}, "filter[workspace_names]": {strings.Join(workspaces, ",")}, "include": {"workspace"}}, maxPages)
	if err != nil {
		return nil, err
	}
	if answer.Meta.Pagination.Next > 0 {
		return nil, fmt.Errorf("%d workspaces have more than %d runs that have not ended: discard some of them in HCP Terraform", len(workspaces), len(answer.Data))
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
	answer, err := list(ctx, c, pathOf("runs", run, "run-events"), url.Values{"include": {"actor,comment"}}, 1)
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

// State implements API. The address of the content is signed, or is one of the API's own host, which needs
// the token.
func (c *Client) State(ctx context.Context, workspace string) (State, error) {
	answer, err := call[resource](ctx, c, request{method: http.MethodGet, path: pathOf("workspaces", workspace, "current-state-version")}, nil)
	if errors.Is(err, ErrDenied) {
		return State{}, ErrNotFound
	}
	if err != nil {
		return State{}, err
	}
	a, err := decode[struct {
		Address string `json:"hosted-state-download-url"`
	}](answer.Data)
	if err != nil {
		return State{}, err
	}
	if a.Address == "" {
		return State{}, fmt.Errorf("%w: its version %s has no address of its content", ErrNoContent, answer.Data.ID)
	}
	address, err := c.resolve(a.Address)
	if err != nil {
		return State{}, err
	}
	raw, err := c.do(ctx, request{method: http.MethodGet, path: address.String(), bare: true, withToken: address.Scheme == c.base.Scheme && address.Host == c.base.Host})
	if errors.Is(err, ErrDenied) || errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%w: %v", ErrNoContent, err)
	}
	return State{Run: answer.Data.one("run"), Content: raw}, err
}

// resolve returns a whole address. Some servers answer with addresses that are relative to the API's.
func (c *Client) resolve(address string) (*url.URL, error) {
	whole, err := c.base.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the server has sent an address that is not valid: %w", withoutAddress(err))
	}
	return whole, nil
}

// Log implements API.
func (c *Client) Log(ctx context.Context, address string) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: address, bare: true})
}
