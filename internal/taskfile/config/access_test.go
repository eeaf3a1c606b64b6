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
	const ann = "person \"ann\" {\n identities = [\"token:ann\", \"arn:aws:iam::123456789012:role/team/ann\"]\n}\n"
	person := func(identity string) string {
		return grant + ann + "person \"bob\" {\n identities = [\"token:bob\", \"" + identity + "\"]\n}\n"
	}
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

		{"people", ann + strings.Replace(grant, "token:ci", "person:ann", 1) + "person \"bob\" {\n identities = [\"cert:bob\", \"arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Net_*/bob\"]\n}\ngroup \"network\" {\n members = [\"person:bob\", \"token:cho\"]\n}",
			roles.Policy{
				Grants: []roles.Grant{{Roles: []roles.Role{roles.Operate}, To: []string{"token:ann", "arn:aws:iam::123456789012:role/ann"}}},
				Groups: map[string][]string{"network": {"cert:bob", "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Net_*/bob", "token:cho"}},
				People: roles.People{"ann": {"token:ann", "arn:aws:iam::123456789012:role/ann"}, "bob": {"cert:bob", "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Net_*/bob"}},
			}, ""},
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
		{"people alone", ann, roles.Policy{}, "api.access: access has no grant"},
		{"an identity of two people", person("token:ann"), roles.Policy{}, `f.hcl:11: api.access.person.bob.identities[1]: "token:ann" is also of the person "ann", as "token:ann"; name it in one person only`},
		{"a pattern with an identity of another person", person("token:a*"), roles.Policy{}, `"token:a*" is also of the person "ann", as "token:ann"`},
		{"a role of two people, with another path", person("arn:aws:iam::123456789012:role/ann"), roles.Policy{}, `is also of the person "ann", as "arn:aws:iam::123456789012:role/ann"`},
		{"sessions of the role of another person", strings.Replace(person("arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_a/bob"), "role/team/ann", "role/AWSReservedSSO_*", 1), roles.Policy{}, `is also of the person "ann"`},
		{"a person twice", grant + ann + ann, roles.Policy{}, `another person has the name "ann"`},
		{"a person without identities", grant + "person \"ann\" {\n identities = []\n}", roles.Policy{}, "api.access.person.ann.identities: identities is required"},
		{"a claimed name of a person", person("token:cho (not proven)"), roles.Policy{}, `"token:cho (not proven)" is a name that somebody only claims`},
		{"a claimed name in a grant", strings.Replace(grant, "token:ci", "token:ci (not proven)", 1), roles.Policy{}, `"token:ci (not proven)" is a name that somebody only claims`},
		{"a person without a kind", person("cho"), roles.Policy{}, `api.access.person.bob.identities[1]: "cho" names no identity; write token:NAME`},
		{"a group as a person", person("group:g"), roles.Policy{}, `"group:g" names no identity`},
		{"a person in a person", person("person:ann"), roles.Policy{}, `"person:ann" names no identity`},
		{"everyone as a person", person("everyone"), roles.Policy{}, `"everyone" names no identity`},
		{"every token as a person", person("token:*"), roles.Policy{}, `"token:*" is every identity of this kind; name the identities of the person`},
		{"a session as a person", person("arn:aws:sts::123456789012:assumed-role/NetOps/bob"), roles.Policy{}, "is a session of a role, and callers choose the names of their sessions; name the role"},
		{"sessions of any role as a person", person("arn:aws:sts::*:assumed-role/*/bob"), roles.Policy{}, "is a session of a role"},
		{"a user of an OpenID provider as a person", person("user:bob@example.com"), roles.Policy{}, `"user:bob@example.com" is a person of an OpenID provider, and none is configured`},
		{"a person that is not there", strings.Replace(grant, "token:ci", "person:ann", 1), roles.Policy{}, `api.access.grant[0].to[0]: there is no person "ann"; define the person with a block person`},
		{"a group with a person that is not there", grant + "group \"g\" {\n members = [\"person:ann\"]\n}", roles.Policy{}, `api.access.group.g.members[0]: there is no person "ann"`},
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

const withAnn = "api {\n access {\n  grant {\n   roles = [\"approve\"]\n   to = [\"token:ci\"]\n  }\n  person \"ann\" {\n   identities = [\"token:ann\", \"cert:ann\"]\n  }\n }\n}\n"

// Approvals are judged by the people that the configuration names at that time: a run that waits is not
// planned again because of them.
func TestPerson_ChangesTheConfigurationAndNoRule(t *testing.T) {
	file := aTask(services + "\napproval {\n require = 2\n}")
	before, now := load(t, "f.hcl", file), load(t, "f.hcl", withAnn+file)
	if before.Digest() == now.Digest() {
		t.Error("instances with other people have the same configuration")
	}
	if was, is := before.Tasks[0], now.Tasks[0]; was.RulesDigest() != is.RulesDigest() || was.Digest(before) != is.Digest(now) {
		t.Error("a person changes the rules of a task, or its definition")
	}
	for name, people := range map[string]roles.People{
		"a task of the file": now.Tasks[0].Approval.People, "one that is made through the API": right(t, load(t, "f.hcl", withAnn), asked(t, file)).Approval.People,
	} {
		if !people.Same("token:ann", "cert:ann") || people.Same("token:ann", "cert:bob") {
			t.Errorf("the people of %s are %v", name, people)
		}
	}
}

func TestPerson_MayBeOneOfThoseWhoApprove(t *testing.T) {
	dir := t.TempDir()
	for from, said := range map[string]string{
		"person:ann": "",
		"person:eve": `f.hcl:14: task[0].approval.from[0]: there is no person "eve"; define the person with a block person in api.access`,
		"person:":    `"person:" names no identity`,
	} {
		writeFile(t, dir, "f.hcl", withAnn+strings.Replace(aTask(services), "{\n", "{\n approval {\n  from = [\""+from+"\"]\n }\n", 1))
		if said != "" {
			if got := mistakesIn(t, options(dir, "f.hcl")); !strings.Contains(got, said) {
				t.Errorf("%s: said %q, want %q", from, got, said)
			}
		} else if got := mustLoad(t, options(dir, "f.hcl")).Tasks[0].Approval.From; len(got) != 1 || got[0] != from {
			t.Errorf("%s: %v", from, got)
		}
	}
}
