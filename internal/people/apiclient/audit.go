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

// After returns before of a request for the entries that follow an answer; "" if there are none.
func After(answer apispec.AuditResponse) string {
	if !answer.More || len(answer.Entries) == 0 {
		return ""
	}
	return answer.Entries[len(answer.Entries)-1].ID
}
