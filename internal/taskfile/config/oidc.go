package config

import (
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// OIDC is the block api.access.oidc: an OpenID provider at which people sign in.
type OIDC struct {
	Issuer        string
	ClientID      string
	Secret        APIToken // of the client; the zero value for a public client
	CLIClientID   string   // "" for the same client
	Scopes        []string
	UsernameClaim string
	GroupsClaim   string
	RedirectURL   string // "" to make it from api.url or each request
	CACert        string
	Session       time.Duration
}

// CLIClient is the client as which the command line signs in; "" if it cannot: a client with a secret is for
// the pages alone.
func (o *OIDC) CLIClient() string {
	if o.CLIClientID == "" && !o.Secret.Set() {
		return o.ClientID
	}
	return o.CLIClientID
}

type rawOIDC struct {
	block.Origin
	Issuer           block.String   `key:"issuer" required:"true" example:"https://dex.example.com" doc:"address of the provider, exactly as in its 'issuer'"`
	ClientID         block.String   `key:"client_id" required:"true" example:"terrapulse" doc:"client for which the provider issues ID tokens"`
	ClientSecret     block.String   `key:"client_secret" empty:"true" secret:"value" doc:"secret of the client, unless it is public: plain text, or a template such as '{{ env \"OIDC_SECRET\" }}'"`
	ClientSecretFile block.String   `key:"client_secret_file" empty:"true" example:"/etc/terrapulse/oidc-secret" doc:"file with the secret, instead of 'client_secret'"`
	CLIClientID      block.String   `key:"cli_client_id" empty:"true" unset:"'client_id' if that client has no secret" example:"terrapulse-cli" doc:"public client that 'terrapulse login' uses"`
	Scopes           block.Strings  `key:"scopes" unset:"'openid', 'profile' and 'email'" example:"groups" doc:"requested scopes; for groups, dex and Okta need 'groups'"`
	UsernameClaim    block.String   `key:"username_claim" default:"email" example:"preferred_username" doc:"claim with the name of a person: NAME in 'user:NAME' of grants. It must be unique, and people must not be able to change it. If it is 'email', 'email_verified' must not be false"`
	GroupsClaim      block.String   `key:"groups_claim" default:"groups" example:"realm_access.roles" doc:"claim with the names of the groups; '.' separates keys of nested claims"`
	RedirectURL      block.String   `key:"redirect_url" unset:"'/ui/session/callback' below 'api.url', or below the address of each request" example:"https://terrapulse.example.com/ui/session/callback" doc:"redirect URI, as registered at the provider"`
	CACert           block.String   `key:"ca_cert" path:"true" doc:"file of CA certificates for the certificate of the provider; default: the system's CAs"`
	SessionTime      block.Duration `key:"session_time" default:"8h" form:"delay" doc:"how long a sign-in to the pages is valid; 5m to 24h. Changed groups apply at the next sign-in"`
}

// oidc returns the provider; nil if there is none.
func (l *loader) oidc(raw *rawOIDC, pages string, vault bool) *OIDC {
	if !raw.Set {
		return nil
	}
	o := &OIDC{Issuer: raw.Issuer.V, ClientID: raw.ClientID.V, CLIClientID: raw.CLIClientID.V, Scopes: raw.Scopes.V, CACert: l.abs(raw.CACert.V),
		UsernameClaim: raw.UsernameClaim.V, GroupsClaim: raw.GroupsClaim.V, Session: raw.SessionTime.V,
		Secret: l.secret("api.access.oidc", "client_secret", raw.ClientSecret, raw.ClientSecretFile, vault)}
	if !raw.Scopes.Set {
		o.Scopes = []string{"openid", "profile", "email"}
	}
	if o.Session < 5*time.Minute || o.Session > 24*time.Hour {
		l.Fail(raw.SessionTime.Origin, "a session of "+block.Brief(o.Session)+" is not possible", "use 5m to 24h")
	}
	l.issuer(raw.Key("issuer"), raw.Issuer.V)
	if raw.ClientID.V == "" {
		l.Missing(raw.Key("client_id"), "client_id is required", "the id of the client that you have registered at the provider")
	}
	if raw.CLIClientID.Set && raw.CLIClientID.V == "" {
		l.Fail(raw.CLIClientID.Origin, "cli_client_id is empty", "set the id of a public client, or remove the key")
	}
	for i, scope := range o.Scopes {
		if scope == "" || strings.ContainsAny(scope, " \t\"\\") {
			l.Fail(raw.Scopes.Element(i), "not a scope: "+block.Quoted(scope), "each scope is an element of its own, such as groups")
		}
	}
	o.RedirectURL = l.redirect(raw.RedirectURL, pages)
	return o
}

// issuer checks the address of a provider: everybody between it and this instance could otherwise sign in.
func (l *loader) issuer(at block.Origin, issuer string) {
	u, err := url.Parse(issuer)
	switch {
	case issuer == "":
		l.Missing(at, "issuer is required", "the address of the OpenID provider, such as https://dex.example.com")
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		l.Fail(at, "not the address of an OpenID provider: "+block.Quoted(issuer), "such as https://dex.example.com")
	case u.Scheme == "http" && !loopbackHost(u.Hostname()):
		l.Fail(at, "the OpenID provider is reached without TLS: anyone in between could sign in as anybody", "use https; http works only on this machine")
	}
}

// loopbackHost reports whether a host is this machine.
func loopbackHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// CallbackPath is where the provider sends browsers back.
const CallbackPath = "/ui/session/callback"

// redirect returns where browsers come back; "" to make that from each request.
func (l *loader) redirect(raw block.String, pages string) string {
	switch u, err := url.Parse(raw.V); {
	case !raw.Set && pages != "":
		return pages + CallbackPath
	case !raw.Set:
		return ""
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Path != CallbackPath || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		l.Fail(raw.Origin, "browsers cannot come back at "+block.Quoted(raw.V), "use the address of the pages with the path "+CallbackPath)
	}
	return raw.V
}
