package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// sessionStart begins the cookie of a session that the store keeps. That of a token of the configuration
// begins with its key.
const sessionStart = "s."

// storeError is why credentials cannot be checked now.
type storeError struct{ error }

// byToken returns who sends a token: one of the configuration or, with grants, a named one. Wrong ones are
// logged.
func (g *guard) byToken(r *http.Request, value string, policy roles.Policy) (access.Caller, *credentials.Token, error) {
	if known := g.tokens.configured(value); known != nil {
		return *known, nil, nil
	}
	if !policy.Set() || g.credentials == nil {
		return access.Caller{}, nil, g.tokens.wrong(r, errWrongToken)
	}
	token, err := g.credentials.Token(r.Context(), value)
	switch {
	case errors.Is(err, credentials.ErrUnknown):
		return access.Caller{}, nil, g.tokens.wrong(r, errWrongToken)
	case err != nil:
		return access.Caller{}, nil, storeError{fmt.Errorf("check the token: %w", err)}
	}
	return callerOf(token.Identity(), policy), &token, nil
}

// callerOf returns an identity with the rights that grants give it.
func callerOf(who identity.Identity, policy roles.Policy) access.Caller {
	who = policy.Identify(who)
	return access.Caller{Identity: who, Rights: policy.Rights(who)}
}

// bySession returns who has begun the session of a request; errNoToken if it has no valid session.
func (g *guard) bySession(r *http.Request, policy roles.Policy) (access.Caller, error) {
	if c, err := g.tokens.ofSession(r); err == nil {
		return c, nil
	}
	for _, secret := range g.kept(r, policy) {
		s, err := g.credentials.Session(r.Context(), secret)
		switch {
		case err == nil && s.Provider != "" && s.Provider != g.people.name():
		case err == nil:
			c := callerOf(s.Identity, policy)
			c.Session = true
			return c, nil
		case !errors.Is(err, credentials.ErrUnknown):
			return access.Caller{}, storeError{fmt.Errorf("check the session: %w", err)}
		}
	}
	return access.Caller{}, errNoToken
}

// kept returns the secrets of the sessions of a request that the store may have.
func (g *guard) kept(r *http.Request, policy roles.Policy) (secrets []string) {
	if g.credentials == nil || !policy.Set() {
		return nil
	}
	for _, cookie := range cookiesOf(r) {
		if secret, ok := strings.CutPrefix(cookie.Value, sessionStart); ok {
			secrets = append(secrets, secret)
		}
	}
	return secrets
}

// newSession returns the cookie of a new session, and how long it lasts. A session of a named token is
// kept in the store: it is valid on every instance, and ends with the token.
func (g *guard) newSession(ctx context.Context, c access.Caller, token *credentials.Token) (string, time.Duration, error) {
	if token == nil {
		return g.tokens.session(c), sessionTime, nil
	}
	now := g.tokens.now()
	session := token.Session(now, sessionTime)
	secret, err := g.credentials.Begin(ctx, session)
	return sessionStart + secret, session.Expires.Sub(now), err
}

// endSessions ends the sessions of a request. It reports whether the OpenID provider began one of them: the
// browser may have a session there, too.
func (g *guard) endSessions(r *http.Request) (atProvider bool, err error) {
	g.tokens.end(r)
	var all []error
	for _, secret := range g.kept(r, g.policy()) {
		ended, err := g.credentials.End(r.Context(), secret)
		all = append(all, err)
		atProvider = atProvider || g.people != nil && ended.Provider == g.people.name()
	}
	return atProvider, errors.Join(all...)
}
