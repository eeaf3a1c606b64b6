package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// API is the api block: where the HTTP API is served, and who may use it.
type API struct {
	BindAddress string   // an IP address; "" is every interface
	Hosts       []string // further host names that it answers to, also that of URL; AnyHost is all
	URL         string   // at which people reach the pages, without a path; "" if it is not set
	Token       APIToken // needed for every request
	ReadToken   APIToken // enough for requests that change nothing
	Access      roles.Policy
	OIDC        *OIDC // nil if people cannot sign in at an OpenID provider
}

// MinToken is the minimum length of a token, in bytes. A random token
// of this length cannot be guessed.
const MinToken = 16

// AnyHost in API.Hosts allows every host name.
const AnyHost = "*"

// APIToken is where a token comes from. The zero value is none.
type APIToken struct {
	Key  string // where it is configured, such as api.token
	Text string // the token, or a template of it (see IsTemplate)
	File string // path of a file that holds it; then Text is empty
}

// Set reports whether a token is configured.
func (t APIToken) Set() bool { return t.Key != "" }

// Anonymous reports whether other machines can use the API without saying who they are: they may
// read, and change nothing.
func (c *Config) Anonymous() bool {
	return !c.API.Token.Set() && !c.API.Access.Set() && !c.TLS.VerifyIncoming && !c.API.Loopback()
}

// Loopback reports whether only this machine can connect.
func (a API) Loopback() bool {
	address, err := netip.ParseAddr(a.BindAddress)
	return err == nil && address.Unmap().IsLoopback()
}

// tokenTemplate reports whether the value of a key outside of terraform_provider blocks may be a
// template of a token.
func tokenTemplate(key string) bool {
	return key == "api.token" || key == "api.read_token" || key == "api.access.oidc.client_secret" || slices.ContainsFunc(DriverKinds, func(k *DriverKind) bool { return slices.Contains(k.Templates, key) })
}

// hostName is a DNS name, also with underscores, which some networks have.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

func (l *loader) api(raw *rawAPI, vault bool) API {
	a := API{
		BindAddress: raw.BindAddress.V,
		Token:       l.secret("api", "token", raw.Token, raw.TokenFile, vault),
		ReadToken:   l.secret("api", "read_token", raw.ReadToken, raw.ReadTokenFile, vault),
		Access:      l.access(&raw.Access),
	}
	if a.BindAddress != "" {
		if _, err := netip.ParseAddr(a.BindAddress); err != nil {
			l.Fail(raw.BindAddress.Origin, "not an IP address: "+block.Quoted(a.BindAddress), "such as 127.0.0.1, ::1 or 0.0.0.0; the port is set with the key port at the top level")
		}
	}
	for _, host := range raw.Hosts.V {
		host = strings.TrimSuffix(host, ".")
		if host != AnyHost && !hostName.MatchString(host) {
			l.Fail(raw.Hosts.Origin, "not a host name: "+block.Quoted(host), `without scheme and port, such as "terrapulse.example.com", or "*" for any`)
		}
		a.Hosts = append(a.Hosts, host)
	}
	if raw.URL.Set {
		u, err := url.Parse(raw.URL.V)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			l.Fail(raw.URL.Origin, "not the address of a server: "+block.Quoted(raw.URL.V), `scheme, host and perhaps port, such as "https://terrapulse.example.com"; the pages are below it at /ui/`)
		} else {
			a.URL = u.Scheme + "://" + u.Host
			a.Hosts = append(a.Hosts, u.Hostname())
		}
	}
	a.OIDC = l.oidc(&raw.Access.OIDC, a.URL, vault)
	if a.ReadToken.Set() && !a.Token.Set() {
		l.Fail(raw.Key("token"), "read_token has no effect without token: everybody could act", "set token or token_file, too")
	}
	if text := raw.ReadToken.V; text != "" && text == raw.Token.V {
		l.Fail(raw.ReadToken.Origin, "read_token is the same as token: readers could change things", "use another one")
	}
	return a
}

// secret returns a token of the API, or another secret that two keys of a block have: itself, or its file.
func (l *loader) secret(in, name string, text, file block.String, vault bool) APIToken {
	t := APIToken{Key: in + "." + name, Text: text.V, File: l.abs(file.V)}
	what := name[strings.LastIndexByte(name, '_')+1:]
	switch {
	case text.Set && file.Set:
		l.Fail(file.Origin, name+" and "+name+"_file are both set", "remove one of them")
	case text.Set && text.V == "":
		l.Fail(text.Origin, "the "+what+" is empty", "set a long random text, such as the output of `openssl rand -hex 32`, or remove the key")
	case file.Set && file.V == "":
		l.Fail(file.Origin, "the file has no name", "set the path of a file, or remove the key")
	case text.Set && IsTemplate(text.V):
		l.template(&node{kind: kindString, text: text.V, pos: text.Pos}, t.Key, vault)
	case text.Set && strings.Contains(text.V, "{{"):
		l.Fail(text.Origin, "the template looks nothing up", `such as {{ env "TERRAPULSE_TOKEN" }}`)
	case text.Set && what == "token" && len(text.V) < MinToken:
		l.Fail(text.Origin, fmt.Sprintf("the %s has %d characters, but needs at least %d", what, len(text.V), MinToken), "create one with `openssl rand -hex 32`")
	case file.Set:
		t.Key += "_file"
	case !text.Set:
		return APIToken{}
	}
	return t
}
