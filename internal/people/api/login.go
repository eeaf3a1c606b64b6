package api

import (
	"net/http"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

// LoginPath is the path of an operation that works without a token.
const LoginPath = "/v1/login/configuration"

// Login is the OpenID provider at which people sign in on the command line.
type Login struct {
	Issuer, ClientID           string // the client is "" if only the pages sign people in
	Scopes                     []string
	UsernameClaim, GroupsClaim string
}

// getLogin answers with how people sign in on the command line.
func (a *api) getLogin(r *http.Request) (any, error) {
	switch l := a.Login; {
	case l == nil:
		return nil, refuse(http.StatusNotFound, "nobody can sign in here: there is no OpenID provider (api.access.oidc in the configuration); use a token")
	case l.ClientID == "":
		return nil, refuse(http.StatusNotFound, "people sign in to the pages only: for the command line, set api.access.oidc.cli_client_id to a public client of the OpenID provider, or use a token")
	default:
		return apispec.LoginConfigurationResponse{RequestID: middleware.ID(r), Issuer: l.Issuer, ClientID: l.ClientID, Scopes: l.Scopes,
			UsernameClaim: l.UsernameClaim, GroupsClaim: l.GroupsClaim}, nil
	}
}
