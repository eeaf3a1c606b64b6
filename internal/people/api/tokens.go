package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
)

// withTokens refuses a request for the named tokens where there are none.
func (a *api) withTokens(handle handler) handler {
	return func(r *http.Request) (any, error) {
		if a.Tokens == nil {
			return nil, refuse(http.StatusNotFound, "there are no named tokens here: IAM identifies the callers of a deployment in AWS, and grants of api.access name their ARNs")
		}
		return handle(r)
	}
}

// getTokens answers with the named tokens.
func (a *api) getTokens(r *http.Request) (any, error) {
	all, err := a.Tokens.List(r.Context())
	tokens := make([]apispec.Token, len(all))
	for i, t := range all {
		tokens[i] = apiview.Token(t)
	}
	return apispec.TokensResponse{RequestID: middleware.ID(r), Tokens: tokens}, err
}

// createToken makes a named token.
func (a *api) createToken(r *http.Request, asked apispec.TokenRequest) (any, error) {
	var expires time.Time
	if asked.Expires != nil {
		expires = *asked.Expires
	}
	token, made, err := a.Tokens.Create(r.Context(), asked.Name, by(r).Or(apispec.Deref(asked.By)).Name, expires)
	switch {
	case errors.Is(err, credentials.ErrExists):
		return nil, refuse(http.StatusConflict, "a token has the name %s already: revoke it first, or use another name", asked.Name)
	case errors.Is(err, credentials.ErrName), errors.Is(err, credentials.ErrExpires):
		return nil, refuse(http.StatusBadRequest, "%s", err)
	case err != nil:
		return nil, err
	}
	return answer{http.StatusCreated, "Cache-Control", "no-store", apispec.TokenCreatedResponse{RequestID: middleware.ID(r), Token: token, Made: apiview.Token(made)}}, nil
}

// revokeToken revokes a named token.
func (a *api) revokeToken(r *http.Request) (any, error) {
	name := r.PathValue("token")
	err := a.Tokens.Revoke(r.Context(), name, by(r).Name)
	if errors.Is(err, credentials.ErrUnknown) {
		return nil, refuse(http.StatusNotFound, "there is no token %s: `terrapulse token list` lists them", name)
	}
	return apispec.RequestID{RequestID: middleware.ID(r)}, err
}
