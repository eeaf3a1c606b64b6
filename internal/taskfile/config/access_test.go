package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

func TestAccess_Block(t *testing.T) {
	dir := t.TempDir()
	const grant = "grant {\n roles = [\"operate\"]\n to = [\"token:ci\"]\n}\n"
	for _, tt := range []struct {
		name, inside string
		want         roles.Policy
		said         string // of what is wrong
	}{
		{"grants and groups", "grant {\n roles = [\"operate\", \"approve\"]\n to = [\"group:network\", \"arn:aws:iam::123456789012:role/team/NetOps\"]\n tasks = [\"firewall-*\", \"dns\"]\n}\n" +
			"grant {\n roles = [\"view\"]\n to = [\"everyone\"]\n}\ngroup \"network\" {\n members = [\"token:alice\", \"cert:*.noc.example.com\"]\n}",
			roles.Policy{Grants: []roles.Grant{
				{Roles: []roles.Role{roles.Operate, roles.Approve}, To: []string{"group:network", "arn:aws:iam::123456789012:role/NetOps"}, Tasks: []string{"firewall-*", "dns"}},
				{Roles: []roles.Role{roles.View}, To: []string{"everyone"}},
			}, Groups: map[string][]string{"network": {"token:alice", "cert:*.noc.example.com"}}}, ""},

		{"a grant by labels", strings.Replace(grant, "to =", "tasks = [\"fw-*\"]\n labels = { site = \"muc\", rack = 12 }\n to =", 1),
			roles.Policy{Grants: []roles.Grant{{Roles: []roles.Role{roles.Operate}, To: []string{"token:ci"}, Tasks: []string{"fw-*"}, Labels: map[string]string{"site": "muc", "rack": "12"}}}}, ""},

		{"no grant", "", roles.Policy{}, "api.access: access has no grant"},
		{"groups alone", "group \"g\" {\n members = [\"token:a\"]\n}", roles.Policy{}, "api.access: access has no grant"},
		{"another role", strings.Replace(grant, "operate", "boss", 1), roles.Policy{}, `f.hcl:4: api.access.grant[0].roles[0]: not a role: "boss"; one of view, operate, approve, administer`},
		{"no role", strings.Replace(grant, `"operate"`, "", 1), roles.Policy{}, "api.access.grant[0].roles: roles is required"},
		{"nobody", strings.Replace(grant, `"token:ci"`, "", 1), roles.Policy{}, "api.access.grant[0].to: to is required"},
		{"a name without a kind", strings.Replace(grant, "token:ci", "ci", 1), roles.Policy{}, `api.access.grant[0].to[0]: "ci" names no identity; write token:NAME`},
		{"a group that is not there", strings.Replace(grant, "token:ci", "group:g", 1), roles.Policy{}, `there is no group "g"`},
		{"a group in a group", grant + "group \"g\" {\n members = [\"group:h\"]\n}", roles.Policy{}, `api.access.group.g.members[0]: "group:h" names no identity`},
		{"everyone in a group", grant + "group \"g\" {\n members = [\"everyone\"]\n}", roles.Policy{}, `"everyone" names no identity`},
		{"an empty group", grant + "group \"g\" {\n members = []\n}", roles.Policy{}, "members is required"},
		{"everyone acts", strings.Replace(grant, "token:ci", "everyone", 1), roles.Policy{}, "everyone cannot get the role operate"},
		{"a user of an OpenID provider", strings.Replace(grant, "token:ci", "user:a@example.com", 1), roles.Policy{}, `"user:a@example.com" is a person of an OpenID provider, and none is configured`},
		{"roles of unknown path", strings.Replace(grant, "token:ci", "arn:aws:iam::123456789012:role/team/*", 1), roles.Policy{}, "AWS does not tell the path"},
		{"no task", strings.Replace(grant, "to =", "tasks = []\n to =", 1), roles.Policy{}, "the grant is for no task"},
		{"a wrong pattern", strings.Replace(grant, "to =", "tasks = [\"a b\"]\n to =", 1), roles.Policy{}, `no task has such a name: "a b"`},
		{"no label", strings.Replace(grant, "to =", "labels = {}\n to =", 1), roles.Policy{}, "api.access.grant[0].labels: the grant names no label; remove labels to grant the roles for tasks with any labels"},
		{"a label without a value", strings.Replace(grant, "to =", "labels = { site = \"\" }\n to =", 1), roles.Policy{}, `not a value of the label site: ""`},
		{"several values of a label", strings.Replace(grant, "to =", "labels = { site = \"muc,ber\" }\n to =", 1), roles.Policy{}, `not a value of the label site: "muc,ber"`},
		{"a label in place of a name", strings.Replace(grant, "to =", "tasks = [\"site=muc\"]\n to =", 1), roles.Policy{}, `no task has such a name: "site=muc"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			writeFile(t, dir, "f.hcl", "api {\naccess {\n"+tt.inside+"\n}\n}\n")
			o := options(dir, "f.hcl")
			if tt.said != "" {
				if said := mistakesIn(t, o); !strings.Contains(said, tt.said) {
					t.Errorf("said %q, want %q", said, tt.said)
				}
				return
			}
			cfg, err := Load(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.API.Access); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAccess_OpenIDProvider(t *testing.T) {
	dir := t.TempDir()
	const grant = "grant {\n roles = [\"operate\"]\n to = [\"user:a@example.com\", \"group:network\"]\n}\n"
	const least = "issuer = \"https://dex.example.com\"\nclient_id = \"terrapulse\"\n"
	defaults := OIDC{Issuer: "https://dex.example.com", ClientID: "terrapulse", Scopes: []string{"openid", "profile", "email"}, UsernameClaim: "email", GroupsClaim: "groups", Session: 8 * time.Hour}
	with := func(change func(*OIDC)) *OIDC {
		o := defaults
		change(&o)
		return &o
	}
	for _, tt := range []struct {
		name, api, oidc string
		want            *OIDC
		cli             string // as which client the command line signs in
		said            string // of what is wrong
	}{
		{"defaults", "", least, &defaults, "terrapulse", ""},
		{"a client with a secret", "", least + `client_secret = "0123456789abcdef"`, with(func(o *OIDC) {
			o.Secret = APIToken{Key: "api.access.oidc.client_secret", Text: "0123456789abcdef"}
		}), "", ""},
		{"a template of the secret, and another client", "", least + "client_secret = \"{{ env \\\"S\\\" }}\"\ncli_client_id = \"cli\"", with(func(o *OIDC) {
			o.Secret, o.CLIClientID = APIToken{Key: "api.access.oidc.client_secret", Text: `{{ env "S" }}`}, "cli"
		}), "cli", ""},
		{"everything else", "", least + "client_secret_file = \"s\"\nscopes = [\"openid\", \"groups\"]\nusername_claim = \"sub\"\ngroups_claim = \"roles\"\nredirect_url = \"https://t.example.com/ui/session/callback\"\nca_cert = \"ca.pem\"\nsession_time = \"1h\"",
			with(func(o *OIDC) {
				o.Secret, o.Scopes = APIToken{Key: "api.access.oidc.client_secret_file", File: filepath.Join(dir, "s")}, []string{"openid", "groups"}
				o.UsernameClaim, o.GroupsClaim, o.RedirectURL = "sub", "roles", "https://t.example.com/ui/session/callback"
				o.CACert, o.Session = filepath.Join(dir, "ca.pem"), time.Hour
			}), "", ""},
		{"the address of the pages", "url = \"https://t.example.com\"\n", least, with(func(o *OIDC) { o.RedirectURL = "https://t.example.com/ui/session/callback" }), "terrapulse", ""},
		{"a provider on this machine", "", strings.Replace(least, "https://dex.example.com", "http://127.0.0.1:5556/dex", 1), with(func(o *OIDC) { o.Issuer = "http://127.0.0.1:5556/dex" }), "terrapulse", ""},

		{"no issuer", "", "client_id = \"terrapulse\"\n", nil, "", "api.access.oidc.issuer: issuer is required"},
		{"no client", "", "issuer = \"https://dex.example.com\"\n", nil, "", "api.access.oidc.client_id: client_id is required"},
		{"no address", "", strings.Replace(least, "https://", "", 1), nil, "", `not the address of an OpenID provider: "dex.example.com"`},
		{"without TLS", "", strings.Replace(least, "https", "http", 1), nil, "", "anyone in between could sign in as anybody"},
		{"an empty secret", "", least + `client_secret = ""`, nil, "", "client_secret: the secret is empty"},
		{"a secret twice", "", least + "client_secret = \"0123456789abcdef\"\nclient_secret_file = \"s\"", nil, "", "are both set"},
		{"scopes in one text", "", least + `scopes = ["openid email"]`, nil, "", `not a scope: "openid email"`},
		{"a long session", "", least + `session_time = "48h"`, nil, "", "a session of 48h is not possible; use 5m to 24h"},
		{"another path to come back at", "", least + `redirect_url = "https://t.example.com/callback"`, nil, "", `browsers cannot come back at "https://t.example.com/callback"`},
		{"an empty client of the command line", "", least + `cli_client_id = ""`, nil, "", "cli_client_id is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			writeFile(t, dir, "f.hcl", "api {\n"+tt.api+"access {\n"+grant+"oidc {\n"+tt.oidc+"\n}\n}\n}\n")
			o := options(dir, "f.hcl")
			if tt.said != "" {
				if said := mistakesIn(t, o); !strings.Contains(said, tt.said) {
					t.Errorf("said %q, want %q", said, tt.said)
				}
				return
			}
			cfg, err := Load(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.API.OIDC); diff != "" {
				t.Error(diff)
			}
			if got := cfg.API.OIDC.CLIClient(); got != tt.cli {
				t.Errorf("the command line signs in as %q, want %q", got, tt.cli)
			}
		})
	}
}
