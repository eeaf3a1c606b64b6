package api

import (
	"fmt"
	"io"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/hint"
	"github.com/terrapulse/terrapulse/internal/request"
)

// HintPath is where HCP Terraform sends its notifications. Its requests need no token: they
// are signed.
const HintPath = "/v1/hints/terraform-cloud"

// hint requests a tick after a notification of HCP Terraform: a run may have changed its status.
// What the notification says is not used.
func (a *api) hint(r *http.Request) (any, error) {
	key := ""
	if a.HintKey != nil {
		var err error
		if key, err = a.HintKey(r.Context()); err != nil {
			return nil, fmt.Errorf("look up the key of HCP Terraform's notifications: %w", err)
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, hint.MaxBody+1))
	switch {
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "read the notification: %v", err)
	case len(body) > hint.MaxBody:
		return nil, refuse(http.StatusRequestEntityTooLarge, "a notification has at most %d bytes", hint.MaxBody)
	case key == "":
		return nil, refuse(http.StatusUnauthorized, "no notification is expected: there is no driver \"terraform-cloud\" with notification.token")
	case !hint.Signed(key, r.Header.Get(hint.Signature), body):
		return nil, refuse(http.StatusUnauthorized, "the notification is not signed with notification.token of the driver \"terraform-cloud\"")
	}
	return answer{status: http.StatusAccepted, body: apispec.RequestID{RequestID: request.ID(r)}}, a.Control.Hint(r.Context())
}
