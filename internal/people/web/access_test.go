package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/serve"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// granted has a site require identities: those on other machines have the roles of the grants. It returns
// a token for each name that a grant names.
func (s *site) granted(grants ...roles.Grant) (keeper *credentials.Keeper, tokens map[string]string) {
	s.t.Helper()
	keeper, tokens = credentials.New(s.store, time.Now), map[string]string{}
	for _, g := range grants {
		name, ok := strings.CutPrefix(g.To[0], "token:")
		if !ok || tokens[name] != "" {
			continue
		}
		token, _, err := keeper.Create(s.t.Context(), name, "jo", time.Time{})
		if err != nil {
			s.t.Fatal(err)
		}
		tokens[name] = token
	}
	server, err := serve.Listen(s.t.Context(), serve.Options{Handler: s.pages, Pages: outbox.PagesPath, Log: slog.New(slog.DiscardHandler), Credentials: keeper,
		Policy: func() roles.Policy { return roles.Policy{Grants: grants} }})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(background.Run(s.t.Context(), func(ctx context.Context) { _ = server.Serve(ctx) }))
	_, port, _ := strings.Cut(strings.TrimPrefix(server.Addr().String(), "[::]"), ":")
	s.url = fmt.Sprintf("http://%s:%s", testtools.LANAddress(s.t), port)
	return keeper, tokens
}

func grant(role roles.Role, to string, tasks ...string) roles.Grant {
	return roles.Grant{Roles: []roles.Role{role}, To: []string{to}, Tasks: tasks}
}

func TestRoles_StoryInTheBrowser(t *testing.T) {
	s := newSite(t, "web-1", "web-2", "vpn")
	plan, text := poolPlan()
	s.write("web-1", s.waits("web-1", plan, text))
	s.write("web-2", s.ran("web-2", state.RunSucceeded, "service web: +web-1"))
	s.write("vpn", s.ran("vpn", state.RunFailed, "the secret of the VPN"))
	keeper, tokens := s.granted(grant(roles.Operate, "token:ops", "web-*"), grant(roles.Approve, "token:boss"))
	b := browsertest.New(t)

	// Who may view some tasks sees nothing of the others.
	b.Open(s.url + "/ui/tasks")
	b.Until("Sign in")
	signIn(b, tokens["ops"])
	b.Until("All tasks", "web-1", "web-2")
	for path, shows := range map[string]string{"/ui/tasks": "All tasks", "/ui/runs": "web-2", "/ui/health": "token:ops view (web-*), operate (web-*)",
		"/ui/tasks?q=vpn": "No task matches", "/ui/tasks?phase=failing": "No task matches"} {
		b.Open(s.url + path)
		b.Until(shows)
		if text := b.Text("body"); strings.Contains(text, "vpn") || strings.Contains(text, "VPN") || strings.Contains(text, "Pause") {
			t.Errorf("%s tells of a task that the viewer may not view, or offers too much: %s", path, text)
		}
	}
	b.Open(s.url + "/ui/tasks/vpn")
	b.Until("token:ops needs the role view for task vpn, and has none")
	b.Accessible()

	// A page has the buttons of the viewer's roles, and says which roles the others need.
	b.Open(s.url + "/ui/tasks/web-1")
	b.Until("The plan that waits for approval", "Hold", "You may view and operate this task. Approve or Reject needs the role approve; Disable needs the role administer.")
	b.Accessible()
	b.Open(s.url + "/ui/tasks/web-2")
	b.Click("Hold")
	b.Click("Put on hold")
	b.Until("You have put the task on hold.", "on hold by token:ops since")

	// Another viewer, who may approve and view all tasks.
	b.Click("Sign out")
	b.Until("Sign in")
	signIn(b, tokens["boss"])
	b.Until("vpn", "web-1")
	b.Open(s.url + "/ui/tasks/web-1")
	b.Until("Approve", "You may view and approve this task. Hold or Cancel the run or Plan needs the role operate; Disable needs the role administer.")

	// Whose token is revoked is led to the form.
	if err := keeper.Revoke(t.Context(), "boss", "ann"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(credentials.Fresh)
	b.Open(s.url + "/ui/tasks/web-1")
	b.Until("Sign in")
}

func TestRoles_ViewersOfDifferentTasksShareNothing(t *testing.T) {
	s := newSite(t, "web-1", "vpn")
	s.write("web-1", s.ran("web-1", state.RunSucceeded, "service web: +web-1"))
	s.write("vpn", s.ran("vpn", state.RunFailed, "the secret of the VPN"))
	vpn := s.task("vpn").Ended.Last.Run
	get := func(path string, given map[roles.Role][]string) (int, string) {
		return s.as(access.Caller{Identity: identity.OfToken("ci"), Rights: roles.Given(given)}, http.MethodGet, path, nil)
	}
	all, some := map[roles.Role][]string{roles.View: {"*"}}, map[roles.Role][]string{roles.Administer: {"web-*"}}
	for _, path := range []string{"/ui/tasks", "/ui/tasks.json", "/ui/runs", "/ui/runs.json", "/ui/health", "/ui/health.json", "/ui/tasks.json?q=vpn", "/ui/tasks.json?phase=failing"} {
		for range 2 { // also from what is kept
			if code, text := get(path, all); code != http.StatusOK || !strings.Contains(text, "vpn") && !strings.Contains(path, "health") {
				t.Errorf("%s for all tasks: %d %s", path, code, text)
			}
			code, text := get(path, some)
			if text = strings.ReplaceAll(text, "q=vpn", ""); code != http.StatusOK || strings.Contains(strings.ReplaceAll(text, `"search": "vpn"`, ""), "vpn") && !strings.Contains(text, `value="vpn"`) || strings.Contains(text, "VPN") {
				t.Errorf("%s for web-*: %d %s", path, code, text)
			}
		}
	}
	for _, path := range []string{"", ".json", "/plan.txt", "/runs/" + vpn, "/runs/" + vpn + ".json", "/runs/" + vpn + "/output", "/runs/" + vpn + "/output.json", "/runs/" + vpn + "/output.txt"} {
		get("/ui/tasks/vpn"+path, all)
		if code, text := get("/ui/tasks/vpn"+path, some); code != http.StatusForbidden || !strings.Contains(text, "token:ci needs the role view for task vpn") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, text := get("/ui/tasks", map[roles.Role][]string{}); code != http.StatusForbidden || !strings.Contains(text, "needs the role view, and has none") {
		t.Errorf("without a role: %d %s", code, text)
	}
	var page struct {
		Total int
		Tabs  []struct{ Count int } `json:"phases"`
	}
	if _, text := get("/ui/tasks.json", some); json.Unmarshal([]byte(text), &page) != nil || page.Total != 1 || slices.ContainsFunc(page.Tabs, func(tab struct{ Count int }) bool { return tab.Count > 1 }) {
		t.Errorf("the counts are %+v", page)
	}
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

// A page, its JSON and its export name no other task than those that the viewer may view, their changes and who made them.
func TestRoles_WhatConnectsTasksShowsOnlyThoseOfTheViewer(t *testing.T) {
	s := newSiteOf(t, ordered)
	s.write("vpn", s.ran("vpn", state.RunFailed, "the secret of the tunnel"))
	s.write("web-1", s.ran("web-1", state.RunSucceeded, "service web: +web-1"))
	s.write("dns", s.ran("dns", state.RunSucceeded, "service dns: +dns-1"))
	s.did(1, identity.OfToken("ann"), audit.Entry{Action: audit.Approve, Task: "web-1", Comment: "rack 7"})
	s.did(2, identity.OfToken("bob"), audit.Entry{Action: audit.Hold, Task: "vpn", Comment: "the secret of the tunnel"})
	s.did(3, identity.OfToken("cho"), audit.Entry{Action: audit.Pause, Comment: "new firewalls"})
	s.did(4, identity.OfToken("dan"), audit.Entry{Action: audit.Refused, Task: "vpn", Detail: "POST /v1/tasks/{name}/hold: token:dan needs the role operate for task vpn"})
	s.did(5, identity.OfToken("trudy"), audit.Entry{Action: audit.WhatIf, Detail: "without node n7, for vpn"})
	hidden := []string{"vpn", "secret", "bob", "token:cho", "dan", "trudy", "firewalls", "n7"}
	for _, c := range []struct {
		role          roles.Role
		tasks, path   string
		shows, hidden []string
		lines         int // of the drawing
	}{
		{roles.Operate, "web-*", "/ui/audit", []string{"token:ann", "rack 7", "web-1"}, hidden, 0},
		{roles.View, "web-1", "/ui/audit", []string{"token:ann", "rack 7", "web-1"}, hidden, 0},
		{roles.View, "web-1", "/ui/audit?by=bob&range=365d", nil, []string{"secret", "vpn", "token:bob"}, 0},
		{roles.View, "web-1", "/ui/audit?task=vpn", []string{"No entry matches."}, []string{"secret", "bob"}, 0}, // as for a task that is not there
		{roles.View, "web-1", "/ui/audit/export?range=7d", []string{"rack 7"}, hidden, 0},
		{roles.View, "*", "/ui/audit", []string{"the secret of the tunnel", "new firewalls", "needs the role operate for task vpn", "without node n7, for vpn", "rack 7"}, nil, 0},
		{roles.View, "web-*", "/ui/order", []string{"web-1", "web-2"}, []string{"/ui/tasks/vpn", "secret", "dns", ">vpn<"}, 1},
		{roles.Administer, "web-*", "/ui/order", []string{"web-1", "web-2"}, []string{"/ui/tasks/vpn", "secret", "dns", ">vpn<"}, 1},
		{roles.View, "web-2", "/ui/order", []string{"web-2"}, []string{"vpn", "secret", "dns", "/ui/tasks/web-1", ">web-1<"}, 0},
		{roles.View, "vpn", "/ui/order", []string{"vpn", "failing"}, []string{"web-1", "web-2", "dns"}, 0},
		{roles.View, "*", "/ui/order", []string{"vpn", "web-1", "web-2", "dns"}, nil, 4},
		{roles.View, "web-*", "/ui/tasks/web-1", []string{"Comes before", "/ui/tasks/web-2"}, []string{"/ui/tasks/vpn", "/ui/tasks/dns"}, 0},
		{roles.View, "web-*", "/ui/tasks/web-2", []string{"Comes after", "/ui/tasks/web-1"}, nil, 0},
		{roles.View, "web-*", "/ui/map", []string{"web-1", "web-2", "service web"}, []string{"vpn", "dns", "secret"}, 0},
		{roles.View, "web-*", "/ui/map?service=vpn", []string{"No task matches"}, []string{"secret"}, 0},
		{roles.View, "web-*", "/ui/map?task=dns", nil, []string{"service dns", "/ui/tasks/dns"}, 0},
		{roles.View, "*", "/ui/map", []string{"web-1", "vpn", "dns"}, nil, 0},
	} {
		viewer := access.Caller{Identity: identity.OfToken("ci"), Rights: roles.Given(map[roles.Role][]string{c.role: {c.tasks}})}
		at, query, _ := strings.Cut(c.path, "?")
		_, page := s.as(viewer, http.MethodGet, c.path, nil)
		_, data := s.as(viewer, http.MethodGet, at+".json?"+query, nil)
		s.has(c.path+" for "+c.tasks, page, c.shows...)
		all := regexp.MustCompile(`nonce="[^"]*"`).ReplaceAllString(page+data, "") // which is random
		for _, word := range c.hidden {
			if strings.Contains(all, word) {
				t.Errorf("%s for %s tells of %q:\n%s\n%s", c.path, c.tasks, word, page, data)
			}
		}
		if n := strings.Count(page, `<path class="line"`); strings.HasPrefix(at, "/ui/order") && n != c.lines {
			t.Errorf("the drawing for %s has %d lines, want %d", c.tasks, n, c.lines)
		}
	}
}

// A server refuses the forms of who may change nothing in the words of the operation in which they end.
func TestAsRequest_EachFormEndsInAnOperation(t *testing.T) {
	store := statetest.NewMemory()
	defer store.Close()
	handler := api.New(api.Options{Control: &control.Control{Store: store, Now: time.Now, Base: func(context.Context) (*config.Config, error) { return &config.Config{}, nil }}, Log: slog.New(slog.DiscardHandler)})
	refuse := func(path string) error {
		r := httptest.NewRequestWithContext(access.With(t.Context(), access.Caller{Identity: identity.OfToken("ci"), Rights: roles.Viewing()}), http.MethodPost, path, nil)
		return handler.Refuse(web.AsRequest(r))
	}
	for path, want := range map[string]string{
		"/ui/tasks/web/approve": "approve for task web", "/ui/tasks/web/reject": "approve for task web", "/ui/tasks/web/hold": "operate for task web", "/ui/tasks/web/release": "operate for task web",
		"/ui/tasks/web/run": "operate for task web", "/ui/tasks/web/cancel": "operate for task web", "/ui/tasks/web/plan": "operate for task web",
		"/ui/tasks/web/enable": "administer for task web", "/ui/tasks/a%2Fb/disable": "administer for task a/b",
		"/ui/pause": "administer for all tasks", "/ui/resume": "administer for all tasks", "/ui/approve-all": "administer for all tasks", "/ui/approvals": "approve:", "/ui/what-if": "operate for all tasks",
		"/ui/nothing": "operate:", "/ui/tasks/web": "operate:", "/ui/tasks/web/pause": "operate:", "/ui/hold": "operate:", "/v1/pause": "administer for all tasks",
	} {
		if err := refuse(path); err == nil || !strings.Contains(err.Error(), "needs the role "+want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	all, _, err := audit.List(t.Context(), store, audit.Filter{Since: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(time.Hour), Limit: 100}, func(audit.Entry) bool { return true })
	if err != nil || len(all) < 3 || !slices.ContainsFunc(all, func(e audit.Entry) bool { return e.Via == audit.Pages }) {
		t.Errorf("the audit record has %+v: %v", all, err)
	}
	// Each button ends in one of them.
	templates, err := filepath.Glob("templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range templates {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range regexp.MustCompile(`method="post" action="(/ui/[a-z-]+)"`).FindAllStringSubmatch(string(raw), -1) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, form[1], nil)
			if form[1] != "/ui/session" && web.AsRequest(r) == r {
				t.Errorf("%s: the form %s ends in no operation", file, form[1])
			}
		}
	}
}

func TestRoles_ActionsAreRefusedWithoutTheirRole(t *testing.T) {
	s := newSite(t, "web")
	plan, text := poolPlan()
	s.write("web", s.waits("web", plan, text))
	c := access.Caller{Identity: identity.OfToken("ci"), Rights: roles.Given(map[roles.Role][]string{roles.View: {"*"}, roles.Administer: {"other"}, roles.Approve: {"other"}})}
	post := func(path string) (int, string) {
		return s.as(c, http.MethodPost, path, url.Values{"plan": {"p"}, "comment": {"c"}, "run": {"r"}, "state": {"waiting"}})
	}
	for action, role := range map[string]roles.Role{"approve": roles.Approve, "reject": roles.Approve, "hold": roles.Operate, "release": roles.Operate, "run": roles.Operate,
		"enable": roles.Administer, "disable": roles.Administer} {
		if code, said := post("/ui/tasks/web/" + action); code != http.StatusForbidden || !strings.Contains(said, "token:ci may view, but needs the role "+string(role)+" for task web") {
			t.Errorf("%s: %d %s", action, code, said)
		}
	}
	for _, action := range []string{"pause", "resume"} {
		if code, said := post("/ui/" + action); code != http.StatusForbidden || !strings.Contains(said, "may administer only other, but needs the role administer for all tasks") {
			t.Errorf("%s: %d %s", action, code, said)
		}
	}
	if s.task("web").OnHold != nil {
		t.Error("the task is on hold")
	}
}
