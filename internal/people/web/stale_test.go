package web_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// behind returns the address of a proxy before the site, and a function that says
// whether it drops all connections. What answers returns true for gets no other answer.
func (s *site) behind(answers ...func(http.ResponseWriter, *http.Request) bool) (address string, drop func(bool)) {
	target, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	var dropping atomic.Bool
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if dropping.Load() {
			panic(http.ErrAbortHandler)
		}
		if slices.ContainsFunc(answers, func(answer func(http.ResponseWriter, *http.Request) bool) bool { return answer(w, r) }) {
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	server.Config.ConnState = func(c net.Conn, how http.ConnState) {
		if how == http.StateNew && dropping.Load() {
			c.Close()
		}
	}
	server.Start()
	s.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL, func(now bool) {
		dropping.Store(now)
		if now {
			server.CloseClientConnections()
		}
	}
}

// shows waits until a script returns true.
func shows(b *browsertest.Browser, t *testing.T, what, script string) {
	t.Helper()
	if !browsertest.Eval[bool](b, `new Promise(done => {
		const end = Date.now() + 30000;
		const look = () => (`+script+`) ? done(true) : Date.now() > end ? done(false) : setTimeout(look, 20);
		look();
	})`) {
		t.Fatalf("the page never shows %s", what)
	}
}

func TestPages_SaySinceWhenTheyAreNotUpToDate(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
	address, drop := s.behind()
	b := browsertest.New(t)
	b.Open(address + "/ui/tasks")
	b.Until("applied")
	const stale = `document.getElementById('stale').checkVisibility()`
	if browsertest.Eval[bool](b, stale) {
		t.Error("a page that is up to date says that it is not")
	}
	since := time.Now()
	drop(true)
	shows(b, t, "that it is not up to date", stale)
	says := func(text string, day time.Time) bool {
		return strings.Contains(text, "Not up to date since "+day.UTC().Format("2 Jan"))
	}
	if text := b.Text("#stale"); !says(text, since) && !says(text, time.Now()) { // at midnight
		t.Error(text)
	}
	if text := b.Text("main"); !strings.Contains(text, "applied") {
		t.Errorf("what was read last is gone: %s", text)
	}
	b.Accessible()
	s.write("web", s.ran("web", state.RunFailed, "no route to the firewall"))
	drop(false)
	b.Until("failing")
	if browsertest.Eval[bool](b, stale) {
		t.Error("a page that is up to date again says that it is not")
	}
}

// The server answers with the page, but not yet with its events, when the connection is cut.
func TestPages_SayThatTheyAreNotUpToDateBeforeTheFirstEvent(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
	asked := make(chan struct{}, 100)
	address, drop := s.behind(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/ui/news" {
			return false
		}
		asked <- struct{}{}
		<-r.Context().Done()
		return true
	})
	b := browsertest.New(t)
	b.Open(address + "/ui/tasks")
	b.Until("applied")
	<-asked
	drop(true)
	shows(b, t, "that it is not up to date", `document.getElementById('stale').checkVisibility()`)
}

// A proxy answers in place of the server when the page asks for its events first.
func TestPages_AskAgainForEventsThatWereRefused(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
	var asked atomic.Int32
	address, _ := s.behind(func(w http.ResponseWriter, r *http.Request) bool {
		refuse := r.URL.Path == "/ui/news" && asked.Add(1) <= 2
		if refuse {
			w.WriteHeader(http.StatusBadGateway)
		}
		return refuse
	})
	b := browsertest.New(t)
	b.Open(address + "/ui/tasks")
	shows(b, t, "that events arrive", `document.getElementById('news')._htmx.sse`)
	s.write("web", s.ran("web", state.RunFailed, "no route to the firewall"))
	b.Until("failing")
	if n := asked.Load(); n != 3 {
		t.Errorf("the page asked %d times for events", n)
	}
}

func TestPages_TitleAndIconShowHowMuchNeedsAttention(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks")
	shows(b, t, "that nobody leads", `document.title === '(1) Tasks – Terrapulse' && document.getElementById('icon').href.includes('n=1&')`)
	s.write("web", s.ran("web", state.RunFailed, "no route to the firewall"))
	shows(b, t, "that a task fails, too", `document.title === '(2) Tasks – Terrapulse' && document.getElementById('icon').href.includes('n=2&') &&
		document.getElementById('spoken').textContent === '1 alert and 1 task need attention.'`)
	for n, want := range map[string]string{"0": "", "3": ">3<", "12": ">9+<", "x": ""} {
		icon, header := s.page("/ui/icon.svg?n=" + n)
		if !strings.HasPrefix(header.Get("Content-Type"), "image/svg+xml") || !strings.Contains(icon, want) || strings.Contains(icon, "<text") != (want != "") {
			t.Errorf("the icon for %s is %s", n, icon)
		}
	}
	b.Quiet()
}

func TestPages_SearchWhileTyping(t *testing.T) {
	s := newSite(t, "web", "dns", "dns-internal")
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks?phase=soon")
	b.Until("web")
	browsertest.Do(b, chromedp.SendKeys(chromedp.CSS("#search"), "dns"))
	shows(b, t, "only what is searched", `!document.getElementById('task-web') && location.search === '?phase=soon&q=dns&sort=name'`)
	b.Until("dns-internal")
	b.Press("-" + kb.End)
	shows(b, t, "only what is searched", `!document.getElementById('task-dns') && document.activeElement.id === 'search' && document.activeElement.value === 'dns-'`)
	b.Quiet()
}

// Something changes while the answer to a search is under way: the page is refreshed after it.
func TestPages_ARefreshDuringASearchKeepsTheSearch(t *testing.T) {
	s := newSite(t, "web", "dns")
	release, searched, refreshed := make(chan struct{}), make(chan struct{}, 1), make(chan string, 100)
	address, _ := s.behind(func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Header.Get("HX-Source") == "main#main":
			refreshed <- r.URL.RawQuery
		case r.URL.Query().Get("q") != "":
			searched <- struct{}{}
			<-release
		}
		return false
	})
	b := browsertest.New(t)
	b.Open(address + "/ui/tasks?phase=soon")
	b.Until("web")
	shows(b, t, "that events arrive", `document.getElementById('news')._htmx.sse`)
	browsertest.Do(b, chromedp.SetValue(chromedp.CSS("#search"), "dns"))
	browsertest.Eval[bool](b, `document.getElementById('search').dispatchEvent(new Event('input', {bubbles: true}))`)
	<-searched
	for len(refreshed) > 0 {
		<-refreshed
	}
	browsertest.Eval[bool](b, `(htmx.trigger(document.getElementById('news'), 'changed'), true)`)
	close(release)
	if query := <-refreshed; query != "phase=soon&q=dns&sort=name" {
		t.Errorf("the page is refreshed with %s", query)
	}
	b.Quiet()
}

func TestPages_SaySinceWhenTheStoreIsAway(t *testing.T) {
	var away atomic.Bool
	s := handled(t, io.Discard, func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(apispec.ErrorResponse{Error: apispec.ErrorObject{Message: "read the store: connection refused"}})
			return
		}
		_ = json.NewEncoder(w).Encode(apispec.Overview{Healthy: true, Tasks: []apispec.TaskOverview{{Name: "web", Phase: apispec.PhaseApplied}}})
	})
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks")
	b.Until("web", "applied")
	away.Store(true)
	shows(b, t, "that it is not up to date", `document.getElementById('stale').checkVisibility()`)
	b.Until("web", "applied")
	away.Store(false)
	shows(b, t, "that it is up to date", `!document.getElementById('stale').checkVisibility()`)
	away.Store(true)
	b.Complaints() // the browser reports the status 500
	b.Open(s.url + "/ui/runs")
	b.Until("read the store: connection refused", "tries again")
	away.Store(false)
	b.Until("No run yet")
}

func TestPages_ThatBeganWithAnErrorAreKeptUpToDate(t *testing.T) {
	var phase atomic.Value
	phase.Store(apispec.Phase(""))
	s := handled(t, io.Discard, func(w http.ResponseWriter, _ *http.Request) {
		if phase.Load() == apispec.Phase("") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(apispec.Overview{Healthy: true, Tasks: []apispec.TaskOverview{{Name: "web", Phase: phase.Load().(apispec.Phase)}}})
	})
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks")
	b.Until("This page cannot be shown", "tries again")
	phase.Store(apispec.PhaseApplied)
	b.Until("web", "applied")
	phase.Store(apispec.PhaseFailing)
	b.Until("web", "failing")
}
