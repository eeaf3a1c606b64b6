package apiclient

import (
	"context"
	"net/url"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// Audit returns entries of the audit record, as the query of the request says.
func (c *Client) Audit(ctx context.Context, query url.Values) (apispec.AuditResponse, error) {
	return get[apispec.AuditResponse](ctx, c, "v1/audit", query)
}
