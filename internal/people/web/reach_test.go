package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// everyPage are the paths of all pages in all states, with words that they show.
func (n *network) everyPage() map[string][]string {
	return map[string][]string{
		"/ui/tasks":                      {"edge-firewall", "load-balancer", "tenant-blue", "waiting", "failing", "stopped", "drifted"},
		"/ui/tasks?q=firewall":           {"edge-firewall"},
		"/ui/tasks?q=nothing+matches":    {"No task"},
		"/ui/runs":                       {"monitoring", "dns-internal"},
		"/ui/map":                        {"service web", "edge-firewall", "waiting", "Resources"},
		"/ui/order":                      {"edge-firewall", "load-balancer", "failing", "Comes after"},
		"/ui/health":                     {"net-1.example", "net-3.example", "no path to datacenter dc2", "services", "mia@example.com"},
		"/ui/events":                     {"Events", "mia@example.com", "connection refused", "Export as CSV"},
		"/ui/events?level=error&q=none":  {"No event matches"},
		"/ui/approvals":                  {"Approve several plans", "edge-firewall", "2 to destroy", "Approve the chosen plans"},
		"/ui/approvals?q=nothing":        {"No plan waits for an approval here"},
		"/ui/audit":                      {"Audit", "No entry matches"},
		"/ui/audit?by=nobody&range=365d": {"No entry matches"},
		"/ui/sign-in":                    {"Sign in", "Token"},
		"/ui/nothing":                    {"no such page"},
		"/ui/tasks/edge-firewall":        {"waiting", "web-3", "2 to destroy", "api-5", "Approve"},
		"/ui/tasks/load-balancer":        {"running", "shop-2", "10.20.1.21:9090"},
		"/ui/tasks/dns-internal":         {"failing", "connection refused"},
		"/ui/tasks/vpn-routes":           {"stopped", "until the new tunnel is up", "Release"},
		"/ui/tasks/switch-acls":          {"drifted", "junos_firewall_filter"},
		"/ui/tasks/nat-gateway":          {"applied", "0 4 * * *"},
		"/ui/tasks/legacy-proxy":         {"stopped", "Enable"},
		"/ui/tasks/tenant-blue":          {"soon", "was never applied"},
		"/ui/what-if/" + n.whatIf:        {"What if, without node node-3, without node n7", "no task reads node n7 or an instance on it", "would be held: 2 of 3", "destroys module.firewall", "being planned", "+1 ~0 -2"},

		"/ui/tasks/edge-firewall/runs/" + n.waiting: {"waiting", "web-3"},
		"/ui/tasks/load-balancer/runs/" + n.running: {"running", "Creating..."},
		"/ui/tasks/dns-internal/runs/" + n.failed:   {"failed", "connection refused", "Error: updating record"},
	}
}

func TestPages_EachIsAccessibleInLightAndDarkOnDesksAndPhones(t *testing.T) {
	n := newNetwork(t)
	b := browsertest.New(t)
	for path, words := range n.everyPage() {
		reaches(t, b, n.url+path, words...)
	}
}

func TestPages_AreAccessibleInTrouble(t *testing.T) {
	b := browsertest.New(t)
	reaches(t, b, newSiteOf(t, "port = 8558\n").url+"/ui/tasks", "No task")

	s := newSite(t, "web", "dns", "blocked")
	began := time.Now().UTC()
	for key, value := range map[string]any{
		state.ReconcileKey: state.Reconcile{LastSuccess: began.Add(-20 * time.Minute), Sight: state.Sight{ConsulUnreachable: true, Since: began.Add(-15 * time.Minute), ConsulError: "consul.example:8500: connection refused"},
			Paused:  &state.Paused{By: "mia@example.com", Since: began.Add(-time.Hour), Reason: "new firewalls"},
			Refused: &state.Refused{Error: "tasks.hcl:7: no module is given", Since: began.Add(-time.Hour)}},
		state.TaskKey("dns"):     state.Task{Reason: state.Reason{Code: state.ReasonUnreadable, Text: "Consul does not show the condition: permission denied"}},
		state.TaskKey("blocked"): state.Task{Reason: state.Reason{Code: state.ReasonBlocked, Text: "another process holds the state lock"}},
	} {
		s.put(key, value)
	}
	if _, err := s.store.Apply(t.Context(), state.Create(state.TaskKey("web"), []byte("{"))); err != nil { // corrupt
		t.Fatal(err)
	}
	reaches(t, b, s.url+"/ui/tasks", "connection refused", "no module is given", "Paused by mia@example.com: new firewalls", "Resume", "leads", "failing", "unreadable", "another process holds the state lock")
	reaches(t, b, s.url+"/ui/health", "unhealthy", "connection refused")
	reaches(t, b, s.url+"/ui/tasks/dns", "permission denied", "Paused by mia@example.com")
	reaches(t, b, s.url+"/ui/tasks/web", "failing")
}

// narrow is the width of a phone, and of a desk's window for people who see it four times
// as large.
const narrow = 320

// reaches fails the test for what keeps people from reading a page, wherever they read it.
func reaches(t *testing.T, b *browsertest.Browser, url string, words ...string) {
	t.Helper()
	check := func(where string) {
		b.Accessible()
		if wide := b.Wide(); len(wide) > 0 {
			t.Errorf("%s is wider than %s: %s", url, where, strings.Join(wide, "; "))
		}
	}
	b.Prefers("light")
	b.Window(1200, 900)
	b.Open(url)
	b.Until(words...)
	b.Unfold()
	check("a desk's window")
	b.Prefers("dark")
	b.Window(narrow, 640)
	check("a phone")
	if strings.HasSuffix(url, "/nothing") {
		b.Complaints() // the browser reports the status 404
	}
	b.Quiet()
}

func TestPages_CanBeReadAndActWithoutScripts(t *testing.T) {
	n := newNetwork(t)
	b := browsertest.New(t)
	b.WithoutScripts()
	for path, words := range n.everyPage() {
		b.Open(n.url + path)
		b.Until(words...)
	}
	b.Open(n.url + "/ui/tasks")
	b.Fill("Search", "cdn"+kb.Enter)
	b.Comes("q=cdn")
	b.Until("cdn-origins")
	if text := b.Text("main"); strings.Contains(text, "nat-gateway") {
		t.Errorf("the search shows other tasks: %s", text)
	}
	b.Open(n.url + "/ui/tasks/cdn-origins")
	b.Click("Hold")
	b.Click("Put on hold")
	b.Until("stopped")
	b.Click("Release")
	b.Click("Release the task")
	b.Until("released")
	b.Open(n.url + "/ui/tasks/dns-internal/runs/" + n.failed)
	b.Until("Error: updating record")
}

func TestPages_WorkWithTheKeyboardAlone(t *testing.T) {
	n := newNetwork(t)
	b := browsertest.New(t)
	b.Open(n.url + "/ui/tasks")
	b.Until("edge-firewall")
	b.Press(kb.Tab)
	if got := b.Focused(); !strings.Contains(got, "Skip") {
		t.Errorf("the first key leads to %q, not past the navigation", got)
	}
	b.Press(kb.Enter)
	b.TabTo("cdn-origins")
	b.Press(kb.Enter)
	b.Comes("tasks/cdn-origins")
	b.TabTo("Hold")
	b.Press(kb.Enter)
	b.TabTo("Put on hold")
	b.Press(kb.Enter)
	b.Comes("done=hold")
	b.Until("stopped")
	b.TabTo("Release")
	b.Press(" ")
	b.TabTo("Release the task")
	b.Press(" ")
	b.Until("released")
}

func TestPages_KeyboardReachesEverything(t *testing.T) {
	n := newNetwork(t)
	b := browsertest.New(t)
	for path, words := range n.everyPage() {
		b.Open(n.url + path)
		b.Until(words...)
		if missed := b.Missed(); len(missed) > 0 {
			t.Errorf("%s: the keyboard does not reach, or does not show where it is: %s", path, strings.Join(missed, "; "))
		}
	}
}

func TestPages_ArePrintedDarkOnWhite(t *testing.T) {
	n := newNetwork(t)
	b := browsertest.New(t)
	b.Prefers("dark")
	b.Open(n.url + "/ui/tasks/edge-firewall")
	b.Until("web-3")
	b.Prints()
	if color := browsertest.Eval[string](b, `getComputedStyle(document.body).backgroundColor`); color != "rgb(255, 255, 255)" && color != "rgba(0, 0, 0, 0)" {
		t.Errorf("the paper is %s", color)
	}
	text := b.Text("body")
	for _, words := range []string{"edge-firewall", "waiting", "2 to destroy"} {
		if !strings.Contains(text, words) {
			t.Errorf("the print lacks %q", words)
		}
	}
	for _, words := range []string{"Approve", "Run now", "Skip to"} {
		if strings.Contains(text, words) {
			t.Errorf("the print has %q, which nobody can press", words)
		}
	}
	if pdf := browsertest.Do(b, chromedp.PrintToPDF()); len(pdf) == 0 {
		t.Error("the page cannot be printed")
	}
}

// maxFirstLoad is how many bytes a browser may load to show the first page.
const maxFirstLoad = 30_000

func TestPages_FirstLoadIsSmallAndFromHere(t *testing.T) {
	n := newNetwork(t)
	b := browsertest.New(t)
	b.Open(n.url + "/ui/tasks")
	b.Until("edge-firewall")
	type file struct {
		Name string
		Size int
	}
	files := browsertest.Eval[[]file](b, `performance.getEntries().filter(e => e.transferSize !== undefined)
		.map(e => ({name: e.name, size: e.transferSize}))`)
	total := 0
	for _, f := range files {
		total += f.Size
		if !strings.HasPrefix(f.Name, n.url+"/") {
			t.Errorf("the page loads %s", f.Name)
		}
	}
	if total > maxFirstLoad || total < 10<<10 || len(files) < 3 {
		t.Errorf("the first page loads %d bytes, more than %d: %v", total, maxFirstLoad, files)
	}
	b.Open(n.url + "/ui/health")
	b.Until("net-1.example")
	again := browsertest.Eval[[]file](b, `performance.getEntriesByType('resource').map(e => ({name: e.name, size: e.transferSize}))`)
	for _, f := range slices.DeleteFunc(again, func(f file) bool { return strings.Contains(f.Name, "/news") }) {
		if f.Size > 0 {
			t.Errorf("the second page loads %s again", f.Name)
		}
	}
	t.Logf("%d bytes in %d files", total, len(files))
}

func TestPages_ShowAThousandTasksPageByPage(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("task-%04d", i))
	}
	s := newSite(t, names...)
	fail := func(name, text string) {
		task := s.ran(name, state.RunFailed, text)
		task.Reason = state.Reason{Code: state.ReasonBackoff, Text: text}
		s.write(name, task)
	}
	fail("task-0777", "no route to the firewall")
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks")
	b.Until("1,000", "task-0000", "task-0777", "no route") // which is not on the first page, but needs attention
	if text := b.Text("main"); strings.Contains(text, "task-0500") {
		t.Error("the first page has half of all tasks")
	}
	b.Click("Next")
	b.Comes("after=task-0049")
	b.Until("task-0099", "51–100 of 1,000")
	b.Click("Next")
	b.Until("task-0149")
	b.Click("Previous")
	b.Comes("before=task-0100")
	b.Until("task-0050", "51–100 of 1,000")
	b.Fill("Search", "task-099"+kb.Enter)
	b.Comes("q=task-099")
	b.Until("task-0990", "task-0999")
	fail("task-0995", "the disk is full")
	b.Until("the disk is full")
	b.Accessible()
	b.Quiet()
}
