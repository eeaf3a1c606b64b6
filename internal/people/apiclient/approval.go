package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// WaitingPlan returns the plan of a task that waits for an approval.
func (c *Client) WaitingPlan(ctx context.Context, task string) (apispec.WaitingPlan, error) {
	answer, err := get[apispec.WaitingPlanResponse](ctx, c, taskPath(task)+"/plan", nil)
	return answer.Waiting, err
}

// DecidePlan approves or rejects the plan that a task waits with.
func (c *Client) DecidePlan(ctx context.Context, task string, decision apispec.ApprovalRequest) error {
	_, err := c.call(ctx, http.MethodPost, taskPath(task)+"/approval", nil, decision, nil)
	return err
}

// ApprovePlans approves the plans of several tasks, and returns what was done about each.
func (c *Client) ApprovePlans(ctx context.Context, asked apispec.ApprovalsRequest) ([]apispec.ApprovalResult, error) {
	var all []apispec.ApprovalResult
	for some := range slices.Chunk(asked.Plans, maxPlans) {
		asked.Plans = some
		var answer apispec.ApprovalsResponse
		if _, err := c.call(ctx, http.MethodPost, "v1/approvals", nil, asked, &answer); err != nil {
			return all, err
		}
		all = append(all, answer.Results...)
	}
	return all, nil
}

// maxPlans is how many plans one request approves, which is the most there is.
const maxPlans = 100

// ApproveConsul approves what all tasks lose by a Consul that was replaced.
func (c *Client) ApproveConsul(ctx context.Context, approval apispec.HoldRequest) error {
	_, err := c.call(ctx, http.MethodPost, "v1/consul/approval", nil, approval, nil)
	return err
}

// HoldTask keeps a task from running until it is released.
func (c *Client) HoldTask(ctx context.Context, task string, hold apispec.HoldRequest) error {
	_, err := c.call(ctx, http.MethodPost, taskPath(task)+"/hold", nil, hold, nil)
	return err
}

// DestroyTask requests that everything that a task has made is destroyed. by is used if
// the client is not authenticated.
func (c *Client) DestroyTask(ctx context.Context, task, by string) error {
	_, err := c.call(ctx, http.MethodPost, taskPath(task)+"/destroy", url.Values{"by": {by}}, nil, nil)
	return err
}

// ReleaseTask releases a task that is on hold. by is used if the client is not
// authenticated.
func (c *Client) ReleaseTask(ctx context.Context, task, by string) error {
	_, err := c.call(ctx, http.MethodDelete, taskPath(task)+"/hold", url.Values{"by": {by}}, nil, nil)
	return err
}

// Pause keeps every task from running until somebody resumes. It returns the pause that
// counts.
func (c *Client) Pause(ctx context.Context, pause apispec.PauseRequest) (apispec.Paused, error) {
	var answer apispec.PauseResponse
	_, err := c.call(ctx, http.MethodPost, "v1/pause", nil, pause, &answer)
	return apispec.Deref(answer.Paused), err
}

// Resume lets tasks run again. It returns the pause that has ended; nil if there was none.
func (c *Client) Resume(ctx context.Context, resume apispec.PauseRequest) (*apispec.Paused, error) {
	var answer apispec.PauseResponse
	_, err := c.call(ctx, http.MethodPost, "v1/resume", nil, resume, &answer)
	return answer.Paused, err
}

// Tokens returns the named tokens.
func (c *Client) Tokens(ctx context.Context) ([]apispec.Token, error) {
	answer, err := get[apispec.TokensResponse](ctx, c, "v1/tokens", nil)
	return answer.Tokens, err
}

// CreateToken makes a named token, and returns the token itself.
func (c *Client) CreateToken(ctx context.Context, asked apispec.TokenRequest) (string, apispec.Token, error) {
	var answer apispec.TokenCreatedResponse
	_, err := c.call(ctx, http.MethodPost, "v1/tokens", nil, asked, &answer)
	return answer.Token, answer.Made, err
}

// RevokeToken revokes a named token.
func (c *Client) RevokeToken(ctx context.Context, name string) error {
	_, err := c.call(ctx, http.MethodDelete, "v1/tokens/"+url.PathEscape(name), nil, nil, nil)
	return err
}
