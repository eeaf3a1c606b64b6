package apiclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// AskWhatIf starts the plans of a what-if.
func (c *Client) AskWhatIf(ctx context.Context, asked apispec.WhatIfRequest) (apispec.WhatIf, error) {
	var answer apispec.WhatIfResponse
	_, err := c.call(ctx, http.MethodPost, "v1/what-if", nil, asked, &answer)
	return answer.WhatIf, err
}

// WhatIf reads what would happen under a what-if, as far as it is known.
func (c *Client) WhatIf(ctx context.Context, id string) (apispec.WhatIf, error) {
	var answer apispec.WhatIfResponse
	_, err := c.call(ctx, http.MethodGet, "v1/what-if/"+url.PathEscape(id), nil, nil, &answer)
	return answer.WhatIf, err
}

// AwaitWhatIf waits until everything is known about a what-if.
func (c *Client) AwaitWhatIf(ctx context.Context, id string, seen func(apispec.WhatIf)) (apispec.WhatIf, error) {
	for {
		w, err := c.WhatIf(ctx, id)
		if err != nil || w.Ended {
			return w, err
		}
		seen(w)
		if !delay.For(ctx, time.Second) {
			return w, fmt.Errorf("wait for the plans: %w", context.Cause(ctx))
		}
	}
}

// PlanText reads the plan of a plan run, in Terraform's words.
func (c *Client) PlanText(ctx context.Context, task, run string) (string, error) {
	var text string
	_, err := c.call(ctx, http.MethodGet, "v1/tasks/"+url.PathEscape(task)+"/runs/"+url.PathEscape(run)+"/plan", nil, nil, &text)
	return text, err
}
