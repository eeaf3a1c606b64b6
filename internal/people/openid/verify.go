package openid

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/identity"
)

// TokenError is why an ID token is not accepted.
type TokenError struct{ text string }

func (e *TokenError) Error() string { return "the ID token is not accepted: " + e.text }

func refusedToken(format string, values ...any) error {
	return &TokenError{fmt.Sprintf(format, values...)}
}

// IsToken reports whether a bearer token looks like an ID token: three parts, the first of which is an
// object of JSON.
func IsToken(text string) bool { return strings.HasPrefix(text, "ey") && strings.Count(text, ".") == 2 }

// Verify returns who sends an ID token. The token may be for either client. The error is a *TokenError if
// it is not accepted, or a *DownError if it cannot be checked now.
func (p *Provider) Verify(ctx context.Context, raw string) (identity.Identity, error) {
	token, err := p.verified(ctx, raw)
	if err != nil {
		return identity.Identity{}, err
	}
	if err := p.isFor(token, p.ClientID, p.CLIClientID); err != nil {
		return identity.Identity{}, err
	}
	return p.identity(token)
}

// verified checks everything but for whom a token is.
func (p *Provider) verified(ctx context.Context, raw string) (*oidc.IDToken, error) {
	d, err := p.describe(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.context(ctx), answerTime)
	defer cancel()
	token, err := d.verifier.Verify(ctx, raw)
	var expired *oidc.TokenExpiredError
	switch {
	case err == nil:
		return token, nil
	case errors.As(err, &expired):
		return nil, refusedToken("it expired at %s: sign in again", clock.UTC(expired.Expiry))
	case unreachable(err):
		return nil, &DownError{p.Issuer, err}
	}
	return nil, refusedToken("%s", strings.TrimPrefix(err.Error(), "oidc: "))
}

// unreachable reports whether the keys of the provider could not be read. The library wraps no error of
// that, and says so in words.
func unreachable(err error) bool {
	var network net.Error
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &request) || strings.Contains(err.Error(), "fetching keys")
}

// isFor checks that a token was issued for and to one of these clients.
func (p *Provider) isFor(token *oidc.IDToken, clients ...string) error {
	ours := func(id string) bool { return id != "" && slices.Contains(clients, id) }
	if !slices.ContainsFunc(token.Audience, ours) {
		return refusedToken("it is for %s, and not for the client %s", strings.Join(token.Audience, ", "), p.ClientID)
	}
	var to struct {
		Party string `json:"azp"`
	}
	if err := token.Claims(&to); err != nil {
		return refusedToken("%v", err)
	}
	if to.Party != "" && !ours(to.Party) {
		return refusedToken("it was issued to the client %s", to.Party)
	}
	return nil
}

// identity reads who a token is about.
func (p *Provider) identity(token *oidc.IDToken) (identity.Identity, error) {
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return identity.Identity{}, refusedToken("%v", err)
	}
	if claims["events"] != nil { // a logout token or another security event: it signs nobody in
		return identity.Identity{}, refusedToken("it is no ID token (it has the claim events)")
	}
	name, _ := claim(claims, p.UsernameClaim).(string)
	if !identity.Shown(name) {
		return identity.Identity{}, refusedToken("it has no claim %s with a name (api.access.oidc.username_claim): is the scope for it among api.access.oidc.scopes?", p.UsernameClaim)
	}
	if verified := claims["email_verified"]; p.UsernameClaim == "email" && verified != nil && verified != true && verified != "true" {
		return identity.Identity{}, refusedToken("the OpenID provider has not verified the address %s (email_verified is %v)", name, verified)
	}
	groups, err := p.groups(claims)
	if err != nil {
		return identity.Identity{}, err
	}
	return identity.Identity{Name: "user:" + name, Groups: groups, Proof: identity.OIDC, Account: token.Issuer + "#" + token.Subject}, nil
}

// groups are those in the claims. Without the claim there are none.
func (p *Provider) groups(claims map[string]any) ([]string, error) {
	if elsewhere, ok := claims["_claim_names"].(map[string]any); ok && elsewhere[p.GroupsClaim] != nil {
		return nil, refusedToken("the person is in more groups than the OpenID provider writes into a token: let it send only the groups that are assigned to the client")
	}
	var groups []string
	switch value := claim(claims, p.GroupsClaim).(type) {
	case nil:
	case string:
		groups = []string{value}
	case []any:
		for _, one := range value {
			group, ok := one.(string)
			if !ok {
				return nil, refusedToken("its claim %s is not a list of names", p.GroupsClaim)
			}
			groups = append(groups, group)
		}
	default:
		return nil, refusedToken("its claim %s is not a list of names", p.GroupsClaim)
	}
	groups = slices.DeleteFunc(groups, func(name string) bool { return !identity.Shown(name) })
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

// claim returns a claim by its name or by a path, such as realm_access.roles.
func claim(claims map[string]any, name string) any {
	if value, ok := claims[name]; ok {
		return value
	}
	first, rest, ok := strings.Cut(name, ".")
	inner, object := claims[first].(map[string]any)
	if !ok || !object {
		return nil
	}
	return claim(inner, rest)
}
