package api

import (
	"fmt"
	"io"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/notification"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

// NotificationPath is where HCP Terraform sends its notifications. Its requests need no token: they
// are signed.
const NotificationPath = "/v1/notifications/terraform-cloud"

// notified requests a tick after a notification of HCP Terraform: a run may have changed its status.
// What the notification says is not used.
func (a *api) notified(r *http.Request) (any, error) {
	key := ""
	if a.HintKey != nil {
		var err error
		if key, err = a.HintKey(r.Context()); err != nil {
			return nil, fmt.Errorf("look up the key of HCP Terraform's notifications: %w", err)
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, notification.MaxBody+1))
	switch {
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "read the notification: %v", err)
	case len(body) > notification.MaxBody:
		return nil, refuse(http.StatusRequestEntityTooLarge, "a notification has at most %d bytes", notification.MaxBody)
	case key == "":
		return nil, refuse(http.StatusUnauthorized, "no notification is expected: there is no driver \"terraform-cloud\" with notification.token")
	case !notification.Signed(key, r.Header.Get(notification.Signature), body):
		return nil, refuse(http.StatusUnauthorized, "the notification is not signed with notification.token of the driver \"terraform-cloud\"")
	}
	return answer{status: http.StatusAccepted, body: apispec.RequestID{RequestID: middleware.ID(r)}}, a.Control.Notified(r.Context())
}
