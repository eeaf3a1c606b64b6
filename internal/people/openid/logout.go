package openid

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// ending is what a provider says of how sessions and tokens end there: "" where it does not support that.
type ending struct {
	Session    string `json:"end_session_endpoint"` // OpenID Connect RP-Initiated Logout 1.0
	Revocation string `json:"revocation_endpoint"`  // RFC 7009
}

// SignsOut reports whether a browser may be able to end its session at the provider: the provider has an
// address for that, or was not read yet. It sends no request.
func (p *Provider) SignsOut() bool {
	d := p.known.Load()
	return d == nil || d.ending.Session != ""
}

// SignOut returns the address at which a browser ends its session at the provider; "" if the provider has
// none. The provider asks the person first: only an ID token would replace the question, and Terrapulse keeps
// none. It shows its own page in the end: an address to return to would have to be registered there.
func (p *Provider) SignOut(ctx context.Context) (string, error) {
	d, err := p.describe(ctx)
	if err != nil || d.ending.Session == "" {
		return "", err
	}
	u, err := url.Parse(d.ending.Session)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", fmt.Errorf("the OpenID provider names no address to sign out at, but %q", clipped(d.ending.Session))
	}
	query := u.Query()
	query.Set("client_id", p.ClientID)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// Revoke ends a refresh token at the provider. It reports false if the provider revokes no tokens.
func (p *Provider) Revoke(ctx context.Context, refresh string) (bool, error) {
	d, err := p.describe(ctx)
	if err != nil || d.ending.Revocation == "" {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	form := url.Values{"token": {refresh}, "token_type_hint": {"refresh_token"}, "client_id": {p.ClientID}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.ending.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return false, fmt.Errorf("revoke the sign-in: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := p.http.Do(r)
	if err != nil {
		return false, &DownError{p.Issuer, fmt.Errorf("revoke the sign-in: %w", err)}
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // only the status says something
	switch {
	case answer.StatusCode >= http.StatusInternalServerError:
		return false, &DownError{p.Issuer, fmt.Errorf("revoke the sign-in: it answers with the status %d", answer.StatusCode)}
	case answer.StatusCode != http.StatusOK:
		return false, fmt.Errorf("revoke the sign-in: the OpenID provider answers with the status %d", answer.StatusCode)
	}
	return true, nil
}
