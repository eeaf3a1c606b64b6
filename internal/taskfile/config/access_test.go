package config

import (
	"strings"
	"testing"

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
		{"a user of an OpenID provider", strings.Replace(grant, "token:ci", "user:a@example.com", 1), roles.Policy{}, "none can be configured yet"},
		{"roles of unknown path", strings.Replace(grant, "token:ci", "arn:aws:iam::123456789012:role/team/*", 1), roles.Policy{}, "AWS does not tell the path"},
		{"no task", strings.Replace(grant, "to =", "tasks = []\n to =", 1), roles.Policy{}, "the grant is for no task"},
		{"a wrong pattern", strings.Replace(grant, "to =", "tasks = [\"a b\"]\n to =", 1), roles.Policy{}, `no task has such a name: "a b"`},
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
