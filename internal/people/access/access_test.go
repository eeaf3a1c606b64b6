package access_test

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

func TestRefusal_NamesWhoTheRoleTheTaskAndWhatToDo(t *testing.T) {
	policy := roles.Policy{Grants: []roles.Grant{
		{Roles: []roles.Role{roles.View}, To: []string{"token:ci"}},
		{Roles: []roles.Role{roles.Administer}, To: []string{"token:ci"}, Tasks: []string{"web-*"}},
		{Roles: []roles.Role{roles.Approve}, To: []string{"token:ci", "token:eve"}, Labels: map[string]string{"site": "muc"}},
	}}
	ci := access.Caller{Identity: identity.OfToken("ci"), Rights: policy.Rights(identity.OfToken("ci"))}
	eve := access.Caller{Identity: identity.OfToken("eve"), Rights: policy.Rights(identity.OfToken("eve"))}
	bob := access.Caller{Identity: identity.OfToken("bob")}
	const fix = "an administrator can give it with a grant in api.access of the configuration"
	for _, tt := range []struct {
		err  error
		want string
	}{
		{ci.Need(roles.Operate, "firewall-1"), "token:ci may view, but needs the role operate for task firewall-1: " + fix},
		{ci.Need(roles.Approve, "web-1"), "token:ci may view, operate and administer, but needs the role approve for task web-1, and has it only for site=muc: " + fix},
		{eve.Need(roles.View, "web-1"), "token:eve needs the role view for task web-1, and has it only for site=muc: " + fix},
		{ci.NeedAll(roles.Administer), "token:ci may administer only web-*, but needs the role administer for all tasks: " + fix},
		{bob.Need(roles.View, "web-1"), "token:bob needs the role view for task web-1, and has none: " + fix},
		{bob.NeedAny(roles.View), "token:bob needs the role view, and has none: " + fix},
		{access.Caller{Remedy: "use api.token"}.NeedAny(roles.Operate), "the sender of this request needs the role operate, and has none: use api.token"},
		{ci.Need(roles.Operate, "web-1"), ""},
		{ci.NeedAll(roles.View), ""},
		{access.Of(t.Context()).NeedAll(roles.Approve), ""}, // no server is in between
	} {
		got := ""
		if tt.err != nil {
			got = tt.err.Error()
		}
		if got != tt.want {
			t.Errorf("%s\nwant %s", got, tt.want)
		}
	}
}
