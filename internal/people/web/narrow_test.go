package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// tells reports an error for each word that a page, its JSON or its source has.
func tells(t *testing.T, b *browsertest.Browser, url string, words ...string) {
	t.Helper()
	b.Open(url)
	b.Until(" ") // it has come
	path := browsertest.Eval[string](b, "location.pathname + '.json' + location.search")
	for name, text := range map[string]string{"the page": browsertest.Eval[string](b, "document.documentElement.outerHTML"), "its JSON": fetched(b, path)} {
		for _, word := range words {
			if strings.Contains(text, word) {
				t.Errorf("%s of %s tells of %q:\n%s", name, url, word, text)
			}
		}
	}
}

// fetched is what the browser gets at an address, with the session of the viewer.
func fetched(b *browsertest.Browser, path string) string {
	return browsertest.Eval[string](b, fmt.Sprintf("(() => { const r = new XMLHttpRequest(); r.open('GET', %q, false); r.send(); return r.responseText; })()", path))
}

func TestAuditPage_ANarrowRoleSeesOnlyItsTasksInTheBrowser(t *testing.T) {
	s := newSite(t, "web-1", "vpn")
	s.did(1, identity.OfToken("ann"), audit.Entry{Action: audit.Approve, Task: "web-1", Comment: "rack 7"})
	s.did(2, identity.OfToken("bob"), audit.Entry{Action: audit.Hold, Task: "vpn", Comment: "the secret of the tunnel"})
	s.did(3, identity.OfToken("cho"), audit.Entry{Action: audit.Pause, Comment: "new firewalls"})
	s.did(4, identity.OfToken("dan"), audit.Entry{Action: audit.Refused, Task: "vpn", Detail: "POST /v1/tasks/{name}/hold: token:dan needs the role operate for task vpn"})
	s.did(5, identity.OfToken("trudy"), audit.Entry{Action: audit.WhatIf, Detail: "without node n7, for vpn"})
	_, tokens := s.granted(grant(roles.Operate, "token:ops", "web-*"), grant(roles.View, "token:viewer", "web-1"), grant(roles.View, "token:all"))
	hidden := []string{"vpn", "secret", "bob", "cho", "dan", "trudy", "firewalls", "n7"}
	for _, name := range []string{"ops", "viewer"} {
		b := browsertest.New(t)
		b.Open(s.url + "/ui/audit")
		b.Until("Sign in")
		signIn(b, tokens[name])
		b.Until("token:ann", "rack 7", "web-1")
		b.Accessible()
		tells(t, b, s.url+"/ui/audit", hidden...)
		tells(t, b, s.url+"/ui/audit?by=bob&range=365d", "secret", "vpn", "token:bob")
		if text := fetched(b, "/ui/audit/export?range=7d"); !strings.Contains(text, "rack 7") || strings.Count(strings.TrimSpace(text), "\n") != 0 {
			t.Errorf("%s exports %s", name, text)
		}
		b.Open(s.url + "/ui/audit?task=vpn")
		b.Until("No entry matches.") // as for a task that is not there
	}
	b := browsertest.New(t)
	b.Open(s.url + "/ui/audit")
	b.Until("Sign in")
	signIn(b, tokens["all"])
	b.Until("the secret of the tunnel", "new firewalls", "needs the role operate for task vpn", "without node n7, for vpn", "rack 7")
}

// ordered are tasks that come after each other: vpn, then web-1, then web-2, and then dns.
const ordered = `
task { name = "vpn" 
  module = "./m" 
  condition "services" { names = ["vpn"] } 
}
task { name = "web-1" 
  module = "./m" 
  after = ["vpn"] 
  condition "services" { names = ["web"] } 
}
task { name = "web-2" 
  module = "./m" 
  after = ["web-1"] 
  condition "services" { names = ["web"] } 
}
task { name = "dns" 
  module = "./m" 
  after = ["web-*"] 
  condition "services" { names = ["dns"] } 
}
`

func TestOrder_ANarrowRoleSeesOnlyItsTasksInTheBrowser(t *testing.T) {
	s := newSiteOf(t, ordered)
	s.write("vpn", s.ran("vpn", state.RunFailed, "the secret of the tunnel"))
	s.write("web-1", s.ran("web-1", state.RunSucceeded, "service web: +web-1"))
	s.write("dns", s.ran("dns", state.RunSucceeded, "service dns: +dns-1"))
	_, tokens := s.granted(grant(roles.View, "token:viewer", "web-*"), grant(roles.Administer, "token:admin", "web-*"), grant(roles.View, "token:one", "web-2"),
		grant(roles.View, "token:edge", "vpn"), grant(roles.View, "token:all"))
	for _, c := range []struct {
		name          string
		shows, hidden []string
		lines         int
	}{
		{"viewer", []string{"web-1", "web-2"}, []string{"/ui/tasks/vpn", "secret", "dns", ">vpn<"}, 1},
		{"admin", []string{"web-1", "web-2"}, []string{"/ui/tasks/vpn", "secret", "dns", ">vpn<"}, 1},
		{"one", []string{"web-2"}, []string{"vpn", "secret", "dns", "/ui/tasks/web-1", ">web-1<"}, 0},
		{"edge", []string{"vpn", "failing"}, []string{"web-1", "web-2", "dns"}, 0},
		{"all", []string{"vpn", "web-1", "web-2", "dns"}, nil, 4},
	} {
		b := browsertest.New(t)
		b.Open(s.url + "/ui/order")
		b.Until("Sign in")
		signIn(b, tokens[c.name])
		b.Until(c.shows...)
		b.Accessible()
		if n := browsertest.Eval[int](b, "document.querySelectorAll('svg .line').length"); n != c.lines {
			t.Errorf("the drawing for %s has %d lines, want %d", c.name, n, c.lines)
		}
		tells(t, b, s.url+"/ui/order", c.hidden...)
	}
}

func TestOrder_TheTaskPageNamesNoNeighbourThatTheViewerMayNotView(t *testing.T) {
	s := newSiteOf(t, ordered)
	s.write("web-1", s.ran("web-1", state.RunSucceeded, "service web: +web-1"))
	_, tokens := s.granted(grant(roles.View, "token:viewer", "web-*"))
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks/web-1")
	b.Until("Sign in")
	signIn(b, tokens["viewer"])
	b.Until("Comes before", "web-2")
	if text := browsertest.Eval[string](b, "document.documentElement.outerHTML"); strings.Contains(text, "/ui/tasks/vpn") || strings.Contains(text, "/ui/tasks/dns") {
		t.Errorf("the page leads to tasks that the viewer may not view:\n%s", text)
	}
	b.Click("web-2")
	b.Until("Comes after", "web-1")
	b.Open(s.url + "/ui/tasks/vpn")
	b.Until("token:viewer needs the role view for task vpn, and has none")
}
