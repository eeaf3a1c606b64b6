package openid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/terrapulse/terrapulse/internal/base/identity"
)

// Tokens are what a person keeps who has signed in on the command line.
type Tokens struct {
	ID      string    `json:"id_token"`
	Refresh string    `json:"refresh_token,omitempty"` // "" if the provider gives none
	Expires time.Time `json:"expires"`                 // of the ID token
}

// Person is who the ID token is about, without a check of the instance.
func (p *Provider) Person(ctx context.Context, t Tokens) (identity.Identity, error) {
	return p.Verify(ctx, t.ID)
}

// callbackPath is where the browser comes back on this machine.
const callbackPath = "/callback"

// InBrowser signs a person in with a browser on this machine, as in RFC 8252: it shows the address to open, and
// listens on a port of this machine, 0 for any, until the browser comes back.
func (p *Provider) InBrowser(ctx context.Context, port int, show func(port int, address string)) (Tokens, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return Tokens{}, fmt.Errorf("listen for the browser: %w", err)
	}
	port = listener.Addr().(*net.TCPAddr).Port
	// Providers register localhost rather than the address.
	redirect := "http://" + net.JoinHostPort("localhost", strconv.Itoa(port)) + callbackPath
	d, err := p.describe(ctx)
	if err != nil {
		_ = listener.Close()
		return Tokens{}, err
	}
	mine := p.with(d.offline(p.Scopes))
	address, flow, err := mine.Begin(ctx, redirect)
	if err != nil {
		_ = listener.Close()
		return Tokens{}, err
	}
	show(port, address)
	return mine.await(ctx, listener, flow)
}

// with returns the provider with other scopes.
func (p *Provider) with(scopes []string) *Provider {
	o := p.Options
	o.Scopes = scopes
	scoped := &Provider{Options: o, http: p.http}
	scoped.known.Store(p.known.Load())
	return scoped
}

// signedIn is what a person has got, or why not.
type signedIn struct {
	tokens Tokens
	err    error
}

// await answers the browser until it brings an answer of this sign-in.
func (p *Provider) await(ctx context.Context, listener net.Listener, flow Flow) (Tokens, error) {
	ended := make(chan signedIn, 1)
	server := &http.Server{ReadHeaderTimeout: answerTime, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		// Other pages can send requests to this port: only the answer of this sign-in ends it.
		if r.URL.Path != callbackPath || r.Method != http.MethodGet || query.Get("state") != flow.State {
			http.NotFound(w, r)
			return
		}
		tokens, token, err := p.redeem(r.Context(), flow, query)
		end := signedIn{err: err}
		if err == nil {
			end.tokens = Tokens{ID: tokens.Extra("id_token").(string), Refresh: tokens.RefreshToken, Expires: token.Expiry}
		}
		text := "You are signed in to Terrapulse on the command line. You can close this page."
		if err != nil {
			text = "You are not signed in: " + err.Error() + "\n\nThe command line says the same."
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text+"\n") // an error means that the browser has gone
		select {
		case ended <- end:
		default: // the page was loaded again
		}
	})}
	go func() { _ = server.Serve(listener) }() // it ends with Shutdown
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(stop)
	}()
	select {
	case <-ctx.Done():
		return Tokens{}, fmt.Errorf("wait for the sign-in in the browser: %w", context.Cause(ctx))
	case end := <-ended:
		return end.tokens, end.err
	}
}

// ErrNoDevices is why nobody can sign in on another device.
var ErrNoDevices = errors.New("the OpenID provider has no sign-in on another device (it names no device_authorization_endpoint): use a browser on this machine")

// OnDevice signs a person in on another device, as in RFC 8628: it shows an address and a code to enter there, and
// waits until that was done.
func (p *Provider) OnDevice(ctx context.Context, show func(address, code string)) (Tokens, error) {
	d, err := p.describe(ctx)
	if err != nil {
		return Tokens{}, err
	}
	if d.Endpoint().DeviceAuthURL == "" {
		return Tokens{}, ErrNoDevices
	}
	client := p.with(d.offline(p.Scopes)).oauth(d, "")
	device, err := client.DeviceAuth(p.context(ctx))
	if err != nil {
		return Tokens{}, p.refusal("begin a sign-in on another device", err)
	}
	if u, err := url.Parse(device.VerificationURI); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return Tokens{}, fmt.Errorf("the OpenID provider sends no address to sign in at, but %q", clipped(device.VerificationURI))
	}
	show(device.VerificationURI, device.UserCode)
	tokens, err := client.DeviceAccessToken(p.context(ctx), device)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return Tokens{}, errors.New("nobody entered the code in time: sign in again")
	}
	if err != nil {
		return Tokens{}, p.refusal("sign in on another device", err)
	}
	return p.kept(ctx, tokens, "")
}

// Renew returns new tokens for a refresh token.
func (p *Provider) Renew(ctx context.Context, refresh string) (Tokens, error) {
	d, err := p.describe(ctx)
	if err != nil {
		return Tokens{}, err
	}
	ctx, cancel := context.WithTimeout(p.context(ctx), answerTime)
	defer cancel()
	tokens, err := p.oauth(d, "").TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		return Tokens{}, p.refusal("renew the sign-in", err)
	}
	return p.kept(ctx, tokens, refresh)
}

// kept returns what a person keeps of an answer of the token endpoint.
func (p *Provider) kept(ctx context.Context, tokens *oauth2.Token, refresh string) (Tokens, error) {
	token, err := p.checked(ctx, tokens)
	if err != nil {
		return Tokens{}, err
	}
	if tokens.RefreshToken != "" {
		refresh = tokens.RefreshToken
	}
	return Tokens{ID: strings.TrimSpace(tokens.Extra("id_token").(string)), Refresh: refresh, Expires: token.Expiry}, nil
}
