package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestPages_HostileTextsStayTexts(t *testing.T) {
	s := newSite(t, "web")
	const hostile = `<script>alert(1)</script><img src=x onerror=alert(2)>" onmouseover="alert(3)' {{.}} javascript:alert(4)`
	task := s.ran("web", state.RunFailed, hostile)
	task.Reason = state.Reason{Code: state.ReasonBackoff, Text: hostile}
	s.write("web", task)
	run := task.Ended.Last.Run
	for _, path := range []string{"/ui/tasks", "/ui/tasks?q=" + url.QueryEscape(hostile), "/ui/tasks?phase=" + url.QueryEscape(hostile), "/ui/tasks?sort=%3Cscript%3E",
		"/ui/tasks/web", "/ui/tasks/web/runs/" + run, "/ui/runs", "/ui/health", "/ui/tasks/" + url.PathEscape(hostile), "/ui/sign-in?next=" + url.QueryEscape(hostile), "/ui/nothing"} {
		page, header := s.page(path)
		for _, bad := range []string{"<script>alert", "<img src=x", `" onmouseover="alert`} {
			if strings.Contains(page, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		policy := header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'nonce-", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, want)
			}
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("X-Frame-Options") != "DENY" || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, header)
		}
	}
}

func TestPages_EachHasItsOwnNonce(t *testing.T) {
	s := newSite(t, "web")
	_, one := s.page("/ui/tasks")
	_, other := s.page("/ui/tasks")
	if one.Get("Content-Security-Policy") == other.Get("Content-Security-Policy") {
		t.Error("two pages have the same nonce")
	}
}

func TestPages_SelectTasksByTheirAddress(t *testing.T) {
	var names []string
	for i := range 120 {
		names = append(names, "task-"+string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	s := newSite(t, names...)
	s.write("task-ab", s.ran("task-ab", state.RunFailed, "no route"))
	type answer struct {
		Tasks          []struct{ Name, Phase string }
		Total, Matches int
	}
	for path, want := range map[string]struct {
		shown, matches int
		first          string
	}{
		"/ui/tasks.json":                    {50, 120, "task-aa"},
		"/ui/tasks.json?after=task-dv":      {20, 120, "task-dw"},
		"/ui/tasks.json?after=task-dvv":     {20, 120, "task-dw"}, // which was there a moment ago
		"/ui/tasks.json?after=zzz":          {0, 120, ""},
		"/ui/tasks.json?before=task-ac":     {50, 120, "task-aa"},
		"/ui/tasks.json?before=task-dw":     {50, 120, "task-by"},
		"/ui/tasks.json?q=task-b":           {26, 26, "task-ba"},
		"/ui/tasks.json?phase=failing":      {1, 1, "task-ab"},
		"/ui/tasks.json?phase=nonsense":     {50, 120, "task-aa"},
		"/ui/tasks.json?sort=nonsense":      {50, 120, "task-aa"},
		"/ui/tasks.json?q=nothing+has+this": {0, 0, ""},
	} {
		page, header := s.page(path)
		var got answer
		if err := json.Unmarshal([]byte(page), &got); err != nil || header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %v: %s", path, err, page)
		}
		if len(got.Tasks) != want.shown || got.Matches != want.matches || got.Total != 120 || want.shown > 0 && got.Tasks[0].Name != want.first {
			t.Errorf("%s shows %d of %d tasks, from %v on: want %+v", path, len(got.Tasks), got.Matches, got.Tasks[:min(1, len(got.Tasks))], want)
		}
	}
	page, _ := s.page("/ui/tasks?sort=last")
	if first := strings.Index(page, `id="task-`); !strings.HasPrefix(page[first:], `id="task-task-ab"`) {
		t.Error("the task that ran last is not the first")
	}
}

func TestPages_ActOnlyForTheirOwnPages(t *testing.T) {
	s := newSite(t, "web")
	post := func(header, value string) int {
		req, err := http.NewRequest(http.MethodPost, s.url+"/ui/tasks/web/hold", strings.NewReader("comment=x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set(header, value)
		res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} { // the server checks the host
		if got := post(header, value); got != http.StatusForbidden {
			t.Errorf("a page with %s: %s may act: %d", header, value, got)
		}
	}
	if got := post("Sec-Fetch-Site", "same-origin"); got != http.StatusSeeOther {
		t.Errorf("its own page may not act: %d", got)
	}
	task, err := state.Read[state.Task](t.Context(), s.store, state.TaskKey("web"))
	if err != nil || task.Data.OnHold == nil || task.Data.OnHold.Comment != "x" {
		t.Errorf("the task is not on hold: %+v, %v", task.Data, err)
	}
}

// vendored are the files that others have written: of the npm packages htmx.org 4.0.1,
// without the last line, which names a source map.
var vendored = map[string]string{
	"htmx-4.0.1.min.js":   "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
	"hx-csp-4.0.1.min.js": "a7e1e6711ae6c3e50ad300fba7936cbe8d07599cdae313414a179ddd6b26e143",
	"hx-sse-4.0.1.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}

// htmx begins soon after it is loaded, with the extensions that are there then.
func TestStatic_ScriptsAreLoadedTogether(t *testing.T) {
	s := newSite(t, "web")
	page, _ := s.page("/ui/tasks")
	found := regexp.MustCompile(`<script [^>]*src="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(found) != 1 {
		t.Fatalf("the page loads %d scripts", len(found))
	}
	all, header := s.page(found[0][1])
	for _, name := range []string{"htmx-4.0.1.min.js", "hx-csp-4.0.1.min.js", "hx-sse-4.0.1.min.js"} {
		raw, err := os.ReadFile(filepath.Join("static", name))
		if err != nil {
			t.Fatal(err)
		}
		raw = regexp.MustCompile(`(?m)^ *// .*\n`).ReplaceAll(raw, nil) // what only people read
		_, rest, ok := strings.Cut(all, string(raw))
		if all = rest; !ok {
			t.Errorf("%s is not among the scripts, or not in its place", name)
		}
	}
	if !strings.Contains(all, "new Intl.RelativeTimeFormat(") || strings.Contains(all, "\n//") || strings.Contains(all, "\n ") {
		t.Errorf("page.js is not the last of the scripts, or has comments and indentation:\n%s", all)
	}
	if !strings.HasPrefix(header.Get("Content-Type"), "text/javascript") {
		t.Errorf("%v", header)
	}
}

func TestStatic_VendoredFilesAreThoseThatArePinned(t *testing.T) {
	for name, want := range vendored {
		raw, err := os.ReadFile(filepath.Join("static", name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s has the checksum %s, but %s is pinned", name, got, want)
		}
	}
}

func TestStatic_VendoredFilesAreThoseThatTheirAuthorsPublished(t *testing.T) {
	published := testtools.Htmx(t) // its archive has the checksum in tools/browser/packages.json
	for name, from := range map[string]string{"htmx-4.0.1.min.js": "htmx.min.js", "hx-csp-4.0.1.min.js": "ext/hx-csp.min.js", "hx-sse-4.0.1.min.js": "ext/hx-sse.min.js"} {
		got, err := os.ReadFile(filepath.Join("static", name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(published, filepath.FromSlash(from)))
		if err != nil {
			t.Fatal(err)
		}
		code, _, _ := strings.Cut(string(want), "\n//# sourceMappingURL=")
		if string(got) != code {
			t.Errorf("%s is not the published %s", name, from)
		}
	}
}

// However long reasons are, a list has a line for each task. The page of the task has the whole reason.
func TestTasksPage_HasALineForEachTask(t *testing.T) {
	name := "a-task-with-" + strings.Repeat("long-", 6) + "name"
	s := newSite(t, "web", name, "checked")
	wrong := "terraform apply: exit status 1: " + strings.Repeat("the firewall fw-7.example.com does not answer. ", 12)
	for _, task := range []string{"web", name} {
		next, _ := s.ended(task, state.Task{}, time.Minute, state.RunFailed, "", wrong)
		next.Failing.Error = wrong
		s.write(task, next)
	}
	checked, _ := s.ended("checked", state.Task{}, time.Minute, state.RunSucceeded, state.VerifyFailed, "service web: +web-1")
	s.write("checked", checked)

	b := browsertest.New(t)
	reaches(t, b, s.url+"/ui/tasks", name, "not verified")
	b.Window(1440, 1000)
	for _, row := range browsertest.Eval[[]string](b, `[...document.querySelectorAll("table.tasks tbody tr")].filter(r => r.offsetHeight > 44).map(r => r.id + " " + r.offsetHeight + " px: " + r.innerText)`) {
		t.Errorf("a row has more than one line: %s", row)
	}
	if green := browsertest.Eval[string](b, `document.querySelector("#task-checked .good, #task-checked path.good")?.outerHTML || ""`); green != "" {
		t.Errorf("a run that was not verified is green: %s", green)
	}
	page, _ := s.page("/ui/tasks")
	if strings.Contains(page, ">intended<") {
		t.Error("the last run is intended")
	}
	b.Accessible()
	b.Window(390, 800)
	if broken := browsertest.Eval[bool](b, `(() => { const a = document.querySelector("#task-web th a"), r = document.createRange(); r.selectNodeContents(a); return r.getClientRects().length > 1 })()`); broken {
		t.Error("the name web is broken")
	}
	if wide := b.Wide(); len(wide) > 0 {
		t.Errorf("on a narrow screen, these are too wide: %q", wide)
	}

	reaches(t, b, s.url+"/ui/tasks/web", strings.TrimSpace(wrong[len(wrong)-60:]))
}
