package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// evil is what each text of the API is in these tests: all that may break out of an
// element, an attribute, a script, a style, an address or a template.
const evil = `"'></title></textarea></style></script></svg><script>window.pwned=1</script><img id=pwned src=x onerror="window.pwned=1"><svg onload=window.pwned=1>` +
	`<b id=pwned hx-get=/ui/tasks hx-trigger=load hx-on:load=window.pwned=1 onmouseover='window.pwned=1' autofocus onfocus=window.pwned=1 style=color:red>` +
	"<base href=//evil.example/><meta http-equiv=refresh content=0;//evil.example/>{{.}} ${pwned} --><!-- ]]> \u202e\u2066\x1b]8;;javascript:window.pwned=1\x07\x1b[31mred\r\n\x00 &lt;b&gt; %3Cb%3E"

// evils are the texts, with which addresses begin in other ways, too.
var evils = []string{evil, "javascript:window.pwned=1//" + evil, "//evil.example/" + evil, "data:text/html,<script>window.pwned=1</script>" + evil, "/../../v1/tasks#" + evil}

// words are the values of texts that decide what a page shows. The last one is hostile.
var words = map[reflect.Type][]string{
	reflect.TypeFor[apispec.Phase](): {"new", "applied", "pending", "running", "waiting", "failing", "interrupted", "cancelled", "held", "unreadable", "blocked", "corrupt",
		"drifted", "unverified", "disabled", "removed", evil},
	reflect.TypeFor[apispec.RunState]():    {"running", "waiting", "succeeded", "failed", "lost", "cancelled", "intended", "superseded", evil},
	reflect.TypeFor[apispec.WaitFor]():     {"approval"},
	reflect.TypeFor[apispec.RunKind]():     {"apply", "destroy", "drift", evil},
	reflect.TypeFor[apispec.EntryAction](): {"added", "removed", "changed", evil},
}

// filler makes values whose texts are all hostile.
type filler struct{ texts, words int }

func (f *filler) fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 9 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now().Add(-time.Hour).UTC()))
			return
		}
		for i := range v.NumField() {
			f.fill(v.Field(i), depth+1)
		}
	case reflect.Slice:
		if depth < 9 {
			v.Set(reflect.MakeSlice(v.Type(), 3, 3))
			for i := range v.Len() {
				f.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		f.fill(element, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(f.text()).Convert(v.Type().Key()), element)
	case reflect.Interface:
		v.Set(reflect.ValueOf(f.text()))
	case reflect.String:
		text := f.text()
		if some := words[v.Type()]; some != nil {
			text = some[f.words%len(some)]
			f.words++
		}
		v.SetString(text)
	case reflect.Bool:
		f.words++
		v.SetBool(f.words%2 == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(3.5)
	}
}

func (f *filler) text() string {
	f.texts++
	return evils[f.texts%len(evils)]
}

// answer has an API answer requests with a value whose texts are all hostile.
func answer[T any](t *testing.T, api *http.ServeMux, variant int, pattern string, tune func(*filler, *T)) {
	api.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
		v, f := new(T), &filler{texts: variant, words: variant}
		f.fill(reflect.ValueOf(v).Elem(), 0)
		if tune != nil {
			tune(f, v)
		}
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	})
}

// hostile is pages over an API all of whose texts are hostile, with a task of each phase.
func hostile(t *testing.T, variant int) *site {
	t.Helper()
	api := http.NewServeMux()
	answer(t, api, variant, "GET /v1/overview", func(f *filler, o *apispec.Overview) {
		phases := words[reflect.TypeFor[apispec.Phase]()]
		o.Tasks = make([]apispec.TaskOverview, len(phases))
		for i := range o.Tasks {
			f.fill(reflect.ValueOf(&o.Tasks[i]).Elem(), 0)
			o.Tasks[i].Name, o.Tasks[i].Phase = hostileTask(i, variant), apispec.Phase(phases[i])
			o.Tasks[i].Run.State = apispec.RunStateWaiting
		}
	})
	answer[apispec.RunsResponse](t, api, variant, "GET /v1/runs", nil)
	answer[apispec.RunsResponse](t, api, variant, "GET /v1/tasks/{name}/runs", nil)
	answer[apispec.RunResponse](t, api, variant, "GET /v1/tasks/{name}/runs/{id}", nil)
	answer(t, api, variant, "GET /v1/tasks/{name}/runs/{id}/output", func(_ *filler, o *apispec.RunOutputResponse) {
		o.Offset, o.NextOffset, o.Ended = 0, len(o.Output), true
	})
	answer(t, api, variant, "GET /v1/tasks/{name}/plan", func(_ *filler, p *apispec.WaitingPlanResponse) {
		for i, action := range []string{"delete", "replace", "update"} {
			p.Waiting.Plan.Resources[i].Action = action
		}
	})
	answer[apispec.TaskResponse](t, api, variant, "GET /v1/tasks/{name}", nil)
	answer[apispec.VersionResponse](t, api, variant, "GET /v1/version", nil)
	answer[apispec.ClusterStatus](t, api, variant, "GET /v1/status/cluster", nil)
	answer(t, api, variant, "GET /v1/events", func(_ *filler, e *apispec.EventsResponse) { e.Next = nil }) // else an export never ends
	answer[apispec.OrderResponse](t, api, variant, "GET /v1/order", nil)
	answer[apispec.MapResponse](t, api, variant, "GET /v1/map", nil)
	answer(t, api, variant, "GET /v1/audit", func(_ *filler, a *apispec.AuditResponse) { a.Next = nil })
	answer[apispec.WhatIfResponse](t, api, variant, "GET /v1/what-if/{id}", nil)
	api.HandleFunc("GET /", func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the pages read %s, for which there is no hostile answer: add it above", r.URL.Path)
	})
	for _, method := range []string{"POST", "PATCH", "DELETE"} {
		api.HandleFunc(method+" /", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(apispec.ErrorResponse{Error: apispec.ErrorObject{Message: evil}, RequestID: evil})
		})
	}
	return handled(t, io.Discard, api.ServeHTTP)
}

// hostileTask is the name of the task with a phase.
func hostileTask(phase, variant int) string {
	return fmt.Sprintf("%d%s", phase, evils[(phase+variant)%len(evils)])
}

// findings says what is wrong with the document, and which addresses it links to.
const findings = `(() => {
	const bad = [], own = location.origin;
	if (window.pwned !== undefined || document.getElementById('pwned')) bad.push('a script has run or an element was made');
	for (const e of document.querySelectorAll('*')) {
		for (const { name, value } of e.attributes) {
			if (/^on|^hx-on|^style$|^srcdoc$/.test(name)) bad.push(e.outerHTML.slice(0, 200));
			if (/^(href|src|action|formaction|hx-get|hx-post|hx-sse:connect|poster|data|xlink:href|target)$/.test(name) && name !== 'target') {
				const u = new URL(value, location.href);
				if (u.origin !== own || !u.pathname.startsWith('/ui/')) bad.push(name + ' leads to ' + u);
			}
		}
		if (['BASE', 'IFRAME', 'OBJECT', 'EMBED', 'STYLE'].includes(e.tagName) || e.tagName === 'SCRIPT' && !e.src.startsWith(own + '/ui/static/')) bad.push(e.outerHTML.slice(0, 200));
		if (e.tagName === 'META' && e.httpEquiv) bad.push(e.outerHTML);
	}
	return JSON.stringify({ bad, links: [...document.querySelectorAll('a[href]')].map((a) => new URL(a.getAttribute('href'), location.href).href) });
})()`

// refreshed refreshes the page as a change does, and waits until the new one is there.
const refreshed = `new Promise((done) => {
	document.addEventListener('htmx:after:swap', () => setTimeout(done, 50), { once: true });
	const news = document.getElementById('news');
	if (!news) done();
	else htmx.trigger(news, 'changed');
})`

// shape is the kind of page that an address leads to.
func shape(path string) string {
	return regexp.MustCompile(`(/tasks/|/runs/)[^/]+`).ReplaceAllString(path, "$1…")
}

func TestPages_HostileAPIRunsNothingInTheBrowser(t *testing.T) {
	b := browsertest.New(t)
	seen := map[string]int{}
	for variant := range len(evils) {
		s := hostile(t, variant)
		again := map[string]int{} // how many pages of each kind were opened
		todo, known := []string{s.url + "/ui/tasks"}, map[string]bool{}
		for len(todo) > 0 {
			page := todo[0]
			todo = todo[1:]
			u, err := url.Parse(page)
			if err != nil {
				t.Fatal(err)
			}
			u.Fragment = ""
			kind := shape(u.EscapedPath())
			if known[u.String()] || again[kind] > 1 {
				continue
			}
			known[u.String()] = true
			again[kind]++
			seen[kind]++
			todo = append(todo, s.walk(b, u)...)
		}
		b.Quiet()
		s.refused(b, hostileTask(8, variant))
	}
	for _, kind := range []string{"/ui/tasks", "/ui/tasks/…", "/ui/tasks/…/runs/…", "/ui/runs", "/ui/order", "/ui/map", "/ui/audit", "/ui/events", "/ui/health"} {
		if seen[kind] == 0 {
			t.Errorf("no link leads to %s: %v", kind, seen)
		}
	}
}

// walk looks at one page in all its forms, and returns where it links to.
func (s *site) walk(b *browsertest.Browser, u *url.URL) []string {
	s.t.Helper()
	res, body := s.ask(http.MethodGet, u.RequestURI(), nil)
	kind := res.Header.Get("Content-Type")
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusSeeOther || res.Header.Get("X-Content-Type-Options") != "nosniff" {
		s.t.Errorf("%.100s…: %s %.200s", u, res.Status, body)
	}
	switch {
	case strings.HasPrefix(kind, "application/jsonl"):
		for line := range strings.Lines(body) {
			if strings.Contains(line, "<") || !json.Valid([]byte(line)) {
				s.t.Errorf("%.60s… is read as HTML or no JSON: %.200s", u, line)
			}
		}
		return nil
	case strings.HasPrefix(kind, "application/json"):
		if strings.Contains(body, "<") || !json.Valid([]byte(body)) {
			s.t.Errorf("%.60s… is read as HTML or no JSON: %.200s", u, body)
		}
		return nil
	case !strings.HasPrefix(kind, "text/html"):
		if kind != "text/plain; charset=utf-8" && !strings.HasPrefix(kind, "text/csv; charset=utf-8") || strings.Contains(body, "\x1b") {
			s.t.Errorf("%.60s… is %s: %.200s", u, kind, body)
		}
		return nil
	}
	b.Open(u.String())
	var found struct{ Bad, Links []string }
	for _, form := range []string{"", "refreshed"} {
		if form != "" {
			browsertest.Eval[chromedp.Void](b, refreshed)
		}
		if err := json.Unmarshal([]byte(browsertest.Eval[string](b, findings)), &found); err != nil {
			s.t.Fatal(err)
		}
		for _, bad := range found.Bad {
			s.t.Errorf("%.60s… %s: %.400s", u, form, bad)
		}
	}
	return found.Links
}

// refused presses the first button of a task, which the API refuses in hostile words.
func (s *site) refused(b *browsertest.Browser, task string) {
	s.t.Helper()
	b.Open(s.url + "/ui/tasks/" + url.PathEscape(task))
	browsertest.Eval[chromedp.Void](b, `(() => {
		const form = document.createElement('form');
		form.method = 'post';
		form.action = location.pathname + '/hold';
		document.body.append(form);
		form.submit();
	})()`)
	b.Until("Not done", "window.pwned=1")
	if got := browsertest.Eval[string](b, findings); !strings.Contains(got, `"bad":[]`) {
		s.t.Errorf("the page of an error: %s", got)
	}
	for _, line := range b.Complaints() {
		if !strings.Contains(line, "409 (Conflict)") {
			s.t.Errorf("the browser says: %s", line)
		}
	}
}
