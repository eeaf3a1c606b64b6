package openid

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/terrapulse/terrapulse/internal/base/identity"
)

// Flow is a sign-in that has begun, with what the provider's answer must fit. The browser or the command
// that begins it keeps it.
type Flow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // of PKCE
	Redirect string `json:"r"` // the address to which the provider sends the browser back
}

// Begin begins a sign-in. The browser is sent to the address; the provider sends it back to redirect.
func (p *Provider) Begin(ctx context.Context, redirect string) (address string, flow Flow, err error) {
	d, err := p.describe(ctx)
	if err != nil {
		return "", Flow{}, err
	}
	flow = Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect}
	return p.oauth(d, redirect).AuthCodeURL(flow.State, oidc.Nonce(flow.Nonce), oauth2.S256ChallengeOption(flow.Verifier)), flow, nil
}

// Finish returns who has signed in, from the query with which the provider sends the browser back.
func (p *Provider) Finish(ctx context.Context, flow Flow, answer url.Values) (identity.Identity, error) {
	_, token, err := p.redeem(ctx, flow, answer)
	if err != nil {
		return identity.Identity{}, err
	}
	return p.identity(token)
}

// redeem exchanges the code of an answer for tokens, and checks the ID token.
func (p *Provider) redeem(ctx context.Context, flow Flow, answer url.Values) (*oauth2.Token, *oidc.IDToken, error) {
	if err := p.fits(flow, answer); err != nil {
		return nil, nil, err
	}
	d, err := p.describe(ctx)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(p.context(ctx), answerTime)
	defer cancel()
	tokens, err := p.oauth(d, flow.Redirect).Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(flow.Verifier))
	if err != nil {
		return nil, nil, p.refusal("exchange the code of the sign-in for a token", err)
	}
	token, err := p.checked(ctx, tokens)
	if err == nil && subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(flow.Nonce)) != 1 {
		err = refusedToken("it belongs to another sign-in (its nonce differs)")
	}
	return tokens, token, err
}

// checked returns the ID token of an answer of the token endpoint.
func (p *Provider) checked(ctx context.Context, tokens *oauth2.Token) (*oidc.IDToken, error) {
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return nil, refusedToken("the OpenID provider has sent none: does the client have the scope openid?")
	}
	token, err := p.verified(ctx, raw)
	if err != nil {
		return nil, err
	}
	return token, p.isFor(token, p.ClientID)
}

// fits checks that an answer belongs to a sign-in that has begun here.
func (p *Provider) fits(flow Flow, answer url.Values) error {
	switch {
	case flow.State == "" || subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(flow.State)) != 1:
		return errors.New("this answer belongs to no sign-in that began here, or to one that has ended: sign in again")
	case answer.Get("iss") != "" && answer.Get("iss") != p.Issuer: // RFC 9207
		return fmt.Errorf("the answer is from another OpenID provider, %q", clipped(answer.Get("iss")))
	case answer.Get("error") != "":
		return p.refused(answer.Get("error"), answer.Get("error_description"))
	case answer.Get("code") == "":
		return errors.New("the OpenID provider has sent no code: sign in again")
	}
	return nil
}

// refusal words an error of the token endpoint. It has no secret: neither a code nor a token.
func (p *Provider) refusal(doing string, err error) error {
	var answer *oauth2.RetrieveError
	switch {
	case errors.As(err, &answer) && answer.ErrorCode != "":
		return fmt.Errorf("%s: %w", doing, p.refused(answer.ErrorCode, answer.ErrorDescription))
	case errors.As(err, &answer) && answer.Response.StatusCode < 500:
		return fmt.Errorf("%s: the OpenID provider answers with the status %d: check client_id and client_secret", doing, answer.Response.StatusCode)
	case errors.As(err, &answer):
		return &DownError{p.Issuer, fmt.Errorf("%s: it answers with the status %d", doing, answer.Response.StatusCode)}
	}
	return &DownError{p.Issuer, fmt.Errorf("%s: %w", doing, err)}
}

func (p *Provider) refused(code, why string) error {
	text := "the OpenID provider refuses it: " + clipped(code)
	if why != "" {
		text += " (" + clipped(why) + ")"
	}
	return errors.New(text)
}

// clipped shortens text of strangers.
func clipped(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// offline are the scopes with which the provider also sends a refresh token, if it says that it does.
func (d *described) offline(scopes []string) []string {
	if slices.Contains(d.scopes, oidc.ScopeOfflineAccess) && !slices.Contains(scopes, oidc.ScopeOfflineAccess) {
		return append(slices.Clip(scopes), oidc.ScopeOfflineAccess)
	}
	return scopes
}
