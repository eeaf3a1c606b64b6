// Package openid signs people in at an OpenID provider, for which Terrapulse is a client: it checks
// the ID tokens that the provider has issued, and begins and finishes a sign-in in a browser.
//
// Only programs that serve people or run on their machines import it, no function in AWS.
package openid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/time/rate"

	"github.com/terrapulse/terrapulse/internal/base/clienttls"
)

// Limits of a request to the provider.
const (
	answerTime = 10 * time.Second
	maxAnswer  = 1 << 20 // bytes; a description of a provider has a few KB
	againAfter = 5 * time.Second
)

// skew is by how much the clocks of the provider and of this machine may differ.
const skew = time.Minute

// Options say which provider is used, and as which client.
type Options struct {
	Issuer       string // as the provider writes it into tokens
	ClientID     string
	ClientSecret string // "" for a public client
	CLIClientID  string // another client of the provider whose ID tokens are accepted, too; "" if there is none
	Scopes       []string
	// UsernameClaim and GroupsClaim are the claims that have the name and the groups of a person.
	UsernameClaim, GroupsClaim string
	CACert                     string // file of the authorities of the provider's certificate; "" for those of the system
	Now                        func() time.Time
}

// Provider is an OpenID provider. It is read at the first use, so that a program begins without it.
type Provider struct {
	Options
	http *http.Client

	known  atomic.Pointer[described]
	mu     sync.Mutex // held while it is read
	failed error      // why it could not be read
	at     time.Time  // when that was
}

// described is a provider with what it says of itself.
type described struct {
	*oidc.Provider
	verifier *oidc.IDTokenVerifier
	scopes   []string // that it supports; nil if it does not say
	ending   ending
}

// DownError is why the provider cannot be used now. It says nothing about a token.
type DownError struct {
	Issuer string
	Err    error
}

func (e *DownError) Error() string {
	return fmt.Sprintf("the OpenID provider %s cannot be used now: %v", e.Issuer, e.Err)
}

// Unwrap returns the cause.
func (e *DownError) Unwrap() error { return e.Err }

// New returns a provider. It reads the authorities, and does not connect.
func New(o Options) (*Provider, error) {
	config, err := clienttls.Config(clienttls.Options{CACert: o.CACert})
	if err != nil {
		return nil, fmt.Errorf("use the OpenID provider: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return newProvider(o, transport), nil
}

func newProvider(o Options, transport http.RoundTripper) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Provider{Options: o, http: &http.Client{Timeout: answerTime, Transport: &limited{next: transport, keys: rate.NewLimiter(rate.Every(againAfter), 10)}, CheckRedirect: stay}}
}

// stay follows no redirection to another host or scheme: a request may carry a secret or a code.
func stay(next *http.Request, via []*http.Request) error {
	if next.URL.Host != via[0].URL.Host || next.URL.Scheme != via[0].URL.Scheme || len(via) > 3 {
		return fmt.Errorf("it redirects to %s, which is not followed", next.URL.Redacted())
	}
	return nil
}

// limited limits what the provider is sent and what of its answers is read. A stranger can send any number of
// tokens with new key ids, each of which makes the library read the keys again.
type limited struct {
	next http.RoundTripper
	keys *rate.Limiter
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && !l.keys.Allow() {
		return nil, errors.New("it was read too often in the last seconds: try again in a moment")
	}
	answer, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &limitedBody{answer.Body, maxAnswer}
	return answer, nil
}

// limitedBody fails after so many bytes.
type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	}
	return n, err
}

// describe reads what the provider says of itself, once. After a failure it tries again a few seconds later.
func (p *Provider) describe(ctx context.Context) (*described, error) {
	if known := p.known.Load(); known != nil {
		return known, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known.Load(); known != nil {
		return known, nil
	}
	if p.failed != nil && p.Now().Sub(p.at).Abs() < againAfter {
		return nil, p.failed
	}
	patience := answerTime
	if end, limited := ctx.Deadline(); limited {
		patience = min(patience, time.Until(end))
	}
	// A client that goes away does not make the provider fail for others.
	ctx, cancel := context.WithTimeout(p.context(context.WithoutCancel(ctx)), patience)
	defer cancel()
	found, err := oidc.NewProvider(ctx, p.Issuer)
	if err != nil {
		p.failed, p.at = &DownError{p.Issuer, err}, p.Now()
		return nil, p.failed
	}
	var more struct {
		Scopes []string `json:"scopes_supported"`
	}
	d := &described{Provider: found, verifier: found.Verifier(&oidc.Config{
		SkipClientIDCheck: true, // checked below, as there are two
		Now:               func() time.Time { return p.Now().Add(-skew) },
	})}
	// The library has decoded the answer already. What has another type counts as missing.
	_, _ = found.Claims(&more), found.Claims(&d.ending)
	d.scopes = more.Scopes
	p.known.Store(d)
	return d, nil
}

// context returns a context with which the libraries use the provider's HTTP client.
func (p *Provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.http)
}

// oauth is the client at the provider.
func (p *Provider) oauth(d *described, redirect string) *oauth2.Config {
	scopes := p.Scopes
	if !slices.Contains(scopes, oidc.ScopeOpenID) {
		scopes = append([]string{oidc.ScopeOpenID}, scopes...)
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: d.Endpoint(), RedirectURL: redirect, Scopes: scopes}
}
