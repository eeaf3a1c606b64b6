package apiclient

import (
	"context"
	"net/http"
	"net/url"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// Audit returns entries of the audit record, as the query of the request says, and whether there are
// earlier ones.
func (c *Client) Audit(ctx context.Context, query url.Values) ([]apispec.AuditEntry, bool, error) {
	var answer apispec.AuditResponse
	_, err := c.call(ctx, http.MethodGet, "v1/audit", query, nil, &answer)
	return answer.Entries, answer.More, err
}
