package instance

import (
	"context"
	"net/url"

	"github.com/terrapulse/terrapulse/internal/people/openid"
	"github.com/terrapulse/terrapulse/internal/people/serve"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// openID returns the OpenID provider of the configuration; nil if there is none. It does not connect:
// an instance starts without its provider.
func (i *Instance) openID(ctx context.Context, cfg *config.Config) (*serve.OpenID, error) {
	o := cfg.API.OIDC
	if o == nil {
		return nil, nil
	}
	token, err := i.token(ctx, cfg, o.Secret)
	if err != nil {
		return nil, err
	}
	secret, err := token.Read()
	if err != nil {
		return nil, &serve.SetupError{Err: err}
	}
	provider, err := openid.New(openid.Options{Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secret, CLIClientID: o.CLIClientID,
		Scopes: o.Scopes, UsernameClaim: o.UsernameClaim, GroupsClaim: o.GroupsClaim, CACert: o.CACert})
	if err != nil {
		return nil, &serve.SetupError{Err: err}
	}
	return &serve.OpenID{Provider: provider, Redirect: o.RedirectURL, Session: o.Session}, nil
}

// providerName is how people know a provider: its host.
func providerName(o *config.OIDC) string {
	if o == nil {
		return ""
	}
	u, err := url.Parse(o.Issuer)
	if err != nil {
		return o.Issuer
	}
	return u.Hostname()
}
