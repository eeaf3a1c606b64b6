package roles_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// granted are the rights of an identity by one grant.
func granted(who identity.Identity, g roles.Grant) roles.Rights {
	p := roles.Policy{Grants: []roles.Grant{g}, Groups: map[string][]string{"network": {"token:alice", "cert:*.noc.example.com"}}}
	return p.Rights(p.Identify(who))
}

func TestRoles_WhatEachIncludes(t *testing.T) {
	for role, want := range map[roles.Role]string{roles.View: "view", roles.Operate: "view, operate", roles.Approve: "view, approve", roles.Administer: "view, operate, administer"} {
		if got := granted(identity.OfToken("ci"), roles.Grant{Roles: []roles.Role{role}, To: []string{"token:ci"}}).String(); got != want {
			t.Errorf("%s: %s, want %s", role, got, want)
		}
	}
}

func TestGrant_MeansWhomItNames(t *testing.T) {
	bob := identity.Identity{Name: "cert:bob", Also: []string{"cert:b.noc.example.com"}, Proof: identity.Certificate}
	ann := identity.OfARN("arn:aws:sts::123456789012:assumed-role/NetOps/ann")
	carl := identity.Identity{Name: "user:carl@example.com", Groups: []string{"network", "ops"}, Proof: identity.OIDC}
	for _, tt := range []struct {
		to   string
		who  identity.Identity
		want bool
	}{
		{"token:ci", identity.OfToken("ci"), true},
		{"token:ci", identity.OfToken("ci2"), false},
		{"token:c?", identity.OfToken("ci"), false},
		{"token:*", identity.OfToken("ci"), true},
		{"token:*", bob, false},
		{"cert:bob", bob, true},
		{"cert:b.noc.example.com", bob, true},
		{"cert:*", bob, true},
		{"group:network", bob, true}, // by its other name
		{"group:network", identity.OfToken("alice"), true},
		{"group:network", identity.OfToken("ci"), false},
		{"group:network", carl, false}, // the configuration defines the group
		{"group:ops", carl, true},      // only the provider knows it
		{"user:*@example.com", carl, true},
		{"arn:aws:iam::123456789012:role/NetOps", ann, true},
		{"arn:aws:sts::123456789012:assumed-role/NetOps/ann", ann, true},
		{"arn:aws:sts::123456789012:assumed-role/NetOps/bob", ann, false},
		{"arn:aws:iam::*:role/Net*", ann, true},
		{"arn:aws:iam::123456789012:role/NetOpsAdmin", ann, false},
		{"everyone", identity.Identity{}, true},
		{"everyone", ann, true},

		// a name without the proof of its kind
		{"token:ci", identity.Identity{Name: "token:ci", Proof: identity.Local}, false},
		{"token:ci", identity.Identity{Name: "token:ci", Proof: identity.None}, false},
		{"token:ci", identity.Identity{Name: "token:ci"}, false},
		{"token:ci", identity.Identity{Name: "token:ci", Proof: identity.Certificate}, false},
		{"group:ops", identity.Identity{Name: "x", Groups: []string{"ops"}, Proof: identity.None}, false},
		{"group:ops", identity.Identity{Name: "cert:x", Groups: []string{"ops"}, Proof: identity.Certificate}, false}, // groups come from a provider only
		{"", identity.Identity{}, false},
		{"*", identity.OfToken("ci"), false},
	} {
		if got := granted(tt.who, roles.Grant{Roles: []roles.Role{roles.View}, To: []string{tt.to}}).MayAny(roles.View); got != tt.want {
			t.Errorf("%q means %s (%s): %v", tt.to, tt.who.Name, tt.who.Proof, got)
		}
	}
}

func TestGrant_IsForTheTasksThatItNames(t *testing.T) {
	who := identity.OfToken("ci")
	for _, tt := range []struct {
		patterns, task string
		want           bool
	}{
		{"", "anything", true}, {"*", "anything", true}, {"firewall-*", "firewall-1", true}, {"firewall-*", "firewall-", true},
		{"firewall-*", "Firewall-1", false}, {"firewall-*", "my-firewall-1", false}, {"web-?", "web-1", true}, {"web-?", "web-12", false},
		{"*-web-*-x", "a-web-b-web-c-x", true}, {"*-web-*-x", "a-web-b", false}, {"dns firewall-1", "dns", true}, {"dns firewall-1", "firewall-12", false}, {"web", "", false},
	} {
		r := granted(who, roles.Grant{Roles: []roles.Role{roles.Operate}, To: []string{"token:ci"}, Tasks: strings.Fields(tt.patterns)})
		if r.May(roles.Operate, tt.task) != tt.want || r.May(roles.View, tt.task) != tt.want || r.May(roles.Approve, tt.task) {
			t.Errorf("%q for %q: %s", tt.patterns, tt.task, r)
		}
		if all := tt.patterns == "" || tt.patterns == "*"; r.MayAll(roles.Operate) != all {
			t.Errorf("%q is for all tasks: %v", tt.patterns, r.MayAll(roles.Operate))
		}
	}
}

func TestRights_OfSeveralGrantsAddUp(t *testing.T) {
	p := roles.Policy{Grants: []roles.Grant{
		{Roles: []roles.Role{roles.Operate}, To: []string{"token:ci"}, Tasks: []string{"web-*", "dns"}},
		{Roles: []roles.Role{roles.Approve}, To: []string{"token:*"}, Tasks: []string{"dns"}},
		{Roles: []roles.Role{roles.View}, To: []string{"everyone"}, Tasks: []string{"web-*"}},
	}}
	r := p.Rights(p.Identify(identity.OfToken("ci")))
	if got := r.String(); got != "view (dns, web-*), operate (dns, web-*), approve (dns)" {
		t.Error(got)
	}
	if !slices.Equal(r.On("dns"), []roles.Role{roles.View, roles.Operate, roles.Approve}) || len(r.On("vpn")) != 0 {
		t.Errorf("%v, %v", r.On("dns"), r.On("vpn"))
	}
	if got := p.Rights(identity.Identity{}).String(); got != "view (web-*)" {
		t.Error(got)
	}
	if got := roles.Given(map[roles.Role][]string{roles.Administer: {"dns"}}).Viewed(); got.May(roles.Operate, "dns") || !got.May(roles.View, "dns") {
		t.Error(got)
	}
	if got := (roles.Policy{}).Rights(identity.OfToken("ci")); got.MayAny(roles.View) {
		t.Error(got)
	}
}

func TestParseName_RefusesWhatMeansNobodyOrTooMany(t *testing.T) {
	for entry, want := range map[string]string{
		"token:ci": "token:ci", "cert:*.example.com": "cert:*.example.com", "user:a@b": "user:a@b",
		"arn:aws:iam::123456789012:user/team/ann":                                                          "arn:aws:iam::123456789012:user/team/ann",
		"arn:aws:iam::123456789012:role/team/NetOps":                                                       "arn:aws:iam::123456789012:role/NetOps",
		"arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/eu-west-1/AWSReservedSSO_Network_*": "arn:aws:iam::123456789012:role/AWSReservedSSO_Network_*",
		"arn:aws:iam::123456789012:role/team/*":                                                            "! allows every role", "ci": "! names no identity", "": "! names no identity", "token:": "! has no name", "group:x": "! names no identity", "*": "! names no identity",
	} {
		name, wrong, hint := roles.ParseName(entry)
		got := name
		if wrong != "" {
			got = fmt.Sprint("! ", wrong)
		}
		if !strings.HasPrefix(got, want) || (wrong == "") != (hint == "") {
			t.Errorf("%q: %q (%s), want %q", entry, got, hint, want)
		}
	}
}

func TestGrant_WithLabelsIsForTheTasksThatHaveThem(t *testing.T) {
	who := identity.OfToken("ci")
	labels := map[string]map[string]string{"fw-1": {"site": "muc", "tier": "edge"}, "fw-2": {"site": "ber", "tier": "edge"}, "dns": {"site": "muc"}}
	of := func(task string) map[string]string { return labels[task] }
	for _, tt := range []struct {
		tasks string
		want  map[string]string
		may   string // for which tasks
		text  string
	}{
		{"", map[string]string{"site": "muc"}, "dns fw-1", "view (site=muc), operate (site=muc)"},
		{"*", map[string]string{"site": "muc"}, "dns fw-1", "view (site=muc), operate (site=muc)"},
		{"fw-*", map[string]string{"site": "muc"}, "fw-1", "view (fw-* site=muc), operate (fw-* site=muc)"},
		{"fw-2 dns", map[string]string{"site": "muc"}, "dns", "view (dns site=muc, fw-2 site=muc), operate (dns site=muc, fw-2 site=muc)"},
		{"", map[string]string{"tier": "edge", "site": "muc"}, "fw-1", "view (site=muc tier=edge), operate (site=muc tier=edge)"},
		{"", map[string]string{"site": "rom"}, "", "view (site=rom), operate (site=rom)"},
		{"", map[string]string{"rack": ""}, "", "view (rack=), operate (rack=)"}, // no configuration has that
	} {
		p := roles.Policy{Grants: []roles.Grant{{Roles: []roles.Role{roles.Operate}, To: []string{"token:ci"}, Tasks: strings.Fields(tt.tasks), Labels: tt.want}}, Labels: of}
		r := p.Rights(who)
		var may []string
		for _, task := range []string{"dns", "fw-1", "fw-2", "none"} {
			if r.May(roles.Operate, task) {
				may = append(may, task)
			}
			if r.May(roles.View, task) != r.May(roles.Operate, task) || r.Viewed().May(roles.View, task) != r.May(roles.View, task) || r.May(roles.Approve, task) {
				t.Errorf("%s with %v has other roles for %s: %s", tt.tasks, tt.want, task, r)
			}
		}
		if got := strings.Join(may, " "); got != tt.may || r.String() != tt.text || r.MayAll(roles.View) {
			t.Errorf("%s with %v is for %q: %s", tt.tasks, tt.want, got, r)
		}
		if p.Labels = nil; p.Rights(who).May(roles.Operate, "dns") {
			t.Errorf("%s with %v is for a task whose labels are not known", tt.tasks, tt.want)
		}
	}

	p := roles.Policy{Grants: []roles.Grant{{Roles: []roles.Role{roles.Approve}, To: []string{"token:ci"}, Labels: map[string]string{"site": "muc"}}}, Labels: of}
	r := p.Rights(who)
	labels["dns"], labels["vpn"] = map[string]string{"site": "ber"}, map[string]string{"site": "muc"}
	if r.May(roles.Approve, "dns") || !r.May(roles.Approve, "vpn") {
		t.Error("the labels of another time decide")
	}
}

// A client that shows pages of another machine does not know the labels: it shows a button, and the API decides.
func TestGiven_RightsByLabelsAreAssumed(t *testing.T) {
	r := roles.Given(map[roles.Role][]string{roles.Approve: {"fw-* site=muc"}})
	if !r.May(roles.Approve, "fw-1") || r.May(roles.Approve, "dns") || r.MayAll(roles.Approve) || !r.ByLabel(roles.Approve) || r.ByLabel(roles.Operate) {
		t.Error(r)
	}
}
