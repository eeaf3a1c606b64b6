package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// ask sends a request to the pages and returns the answer with its body, without following
// redirections.
func (s *site) ask(method, path string, header http.Header) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	req.Host = header.Get("Host")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(body)
}

func TestProtected_EveryAnswerHasTheHeaders(t *testing.T) {
	s := newSite(t, "web")
	task := s.ran("web", state.RunSucceeded, "service web: +web-1")
	s.write("web", task)
	run := "/ui/tasks/web/runs/" + task.Ended.Last.Run
	for _, ask := range []string{
		"GET /ui/", "GET /ui/tasks", "GET /ui/tasks.json", "HEAD /ui/tasks", "OPTIONS /ui/tasks", "GET /ui/tasks/web", "GET " + run, "GET " + run + ".json",
		"GET " + run + "/output", "GET /ui/runs", "GET /ui/health", "GET /ui/sign-in", "GET /ui/nothing", "GET /ui/nothing.json", "GET /ui/static/page.js", "GET /ui/static/none.js",
		"GET /ui/static/..%2ftasks", "HEAD /ui/news", "PUT /ui/tasks", "DELETE /ui/tasks/web", "POST /ui/tasks/web/nothing", "POST /ui/tasks/none/hold", "POST /ui/what-if", "GET /ui/what-if/none", "TRACE /ui/tasks",
	} {
		method, path, _ := strings.Cut(ask, " ")
		for _, fetch := range []string{"", "same-origin", "cross-site"} {
			res, body := s.ask(method, path, http.Header{"Sec-Fetch-Site": {fetch}})
			h := res.Header
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
				"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin"} {
				if h.Get(name) != want {
					t.Errorf("%s: %s is %q", ask, name, h.Get(name))
				}
			}
			for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'"} {
				if !strings.Contains(h.Get("Content-Security-Policy"), want) {
					t.Errorf("%s: the policy %q lacks %s", ask, h.Get("Content-Security-Policy"), want)
				}
			}
			kept := res.StatusCode == http.StatusOK && strings.HasPrefix(path, "/ui/static/")
			if want := map[bool]string{false: "no-store", true: "public, max-age=31536000, immutable"}[kept]; h.Get("Cache-Control") != want {
				t.Errorf("%s: caches may keep it: %q", ask, h.Get("Cache-Control"))
			}
			if h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: other origins may read it", ask)
			}
			if (method == http.MethodHead) != (body == "") && res.StatusCode == http.StatusOK {
				t.Errorf("%s has a body of %d bytes", ask, len(body))
			}
			if fetch == "cross-site" && res.StatusCode != http.StatusForbidden {
				t.Errorf("%s: a page of another site gets %s", ask, res.Status)
			}
		}
	}
}

func TestProtected_OtherPagesCanOnlyLinkHere(t *testing.T) {
	s := newSite(t, "web")
	for name, c := range map[string]struct {
		header  http.Header
		refused bool
	}{
		"a link":                     {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, false},
		"a link of another port":     {http.Header{"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, false},
		"an address that is entered": {http.Header{"Sec-Fetch-Site": {"none"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, false},
		"a program":                  {http.Header{}, false},
		"a frame":                    {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"iframe"}}, true},
		"a script of another port":   {http.Header{"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"no-cors"}, "Sec-Fetch-Dest": {"script"}}, true},
		"a picture":                  {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}, "Sec-Fetch-Dest": {"image"}}, true},
	} {
		if res, _ := s.ask(http.MethodGet, "/ui/tasks", c.header); (res.StatusCode == http.StatusForbidden) != c.refused {
			t.Errorf("%s: %s", name, res.Status)
		}
	}
}

func TestPages_ShowCharactersThatHideOthers(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunFailed, "web\u202egpj.exe \x1b[31mred \u200bno\u2066width \x7f\u0085 end"))
	s.page("/ui/tasks/web", "web⟨U+202E⟩gpj.exe ␛[31mred ⟨U+200B⟩no⟨U+2066⟩width ␡⟨U+0085⟩ end")
}

func TestPages_OnlyTheirOwnButtonsSayWhatWasDone(t *testing.T) {
	s := newSite(t, "web")
	for site, says := range map[string]bool{"same-origin": true, "": true, "none": false, "cross-site": false} {
		for age, recent := range map[time.Duration]bool{0: true, 2 * time.Minute: false} {
			path := fmt.Sprintf("/ui/tasks/web?done=approve&at=%d", time.Now().Add(-age).Unix())
			res, page := s.ask(http.MethodGet, path, http.Header{"Sec-Fetch-Site": {site}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}})
			if got := strings.Contains(page, "You have approved the plan"); got != (says && recent) || strings.Contains(page, ", every 61s") != got || strings.Contains(page, `hx-get="/ui/tasks/web?done=approve`) != got {
				t.Errorf("%q, %s later: %s, the page says so: %v", site, age, res.Status, got)
			}
		}
	}
}

func TestPages_DecideOnThePlanThatTheyShow(t *testing.T) {
	s := newSite(t, "web")
	for _, action := range []string{"approve", "reject"} {
		res, page := s.ask(http.MethodPost, "/ui/tasks/web/"+action, nil)
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(page, "names no plan") {
			t.Errorf("%s: %s", action, res.Status)
		}
	}
}

// handled is pages over an API of a test.
func handled(t testing.TB, log io.Writer, api http.HandlerFunc) *site {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	pages := web.New(ctx, web.Options{API: apiclient.Local(api), Version: "1.2.3", Now: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)),
		Viewer: func(*http.Request) access.Caller {
			return access.Caller{Identity: access.Identity{Name: "jo"}, Rights: roles.Everything()}
		}})
	server := httptest.NewServer(pages)
	t.Cleanup(func() { stop(); server.Close() })
	return &site{t: t, url: server.URL}
}

func TestPages_PanicInTheAPIEndsNothing(t *testing.T) {
	log := new(testtools.Output)
	s := handled(t, log, func(http.ResponseWriter, *http.Request) { panic("no\nnew line\x1b") })
	for range 2 {
		if res, body := s.ask(http.MethodGet, "/ui/tasks", nil); res.StatusCode != http.StatusBadGateway || !strings.Contains(body, "internal error, see the log") {
			t.Errorf("%s: %s", res.Status, body)
		}
	}
	if !strings.Contains(log.String(), `panic="no\nnew line\x1b"`) {
		t.Errorf("the log: %s", log)
	}
}

func TestPages_StrangeStatusOfTheAPIIsAnError(t *testing.T) {
	for _, status := range []int{http.StatusNotModified, http.StatusFound, http.StatusTooManyRequests} {
		s := handled(t, io.Discard, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		want := http.StatusBadGateway
		if status >= http.StatusBadRequest {
			want = status
		}
		if res, body := s.ask(http.MethodGet, "/ui/tasks", nil); res.StatusCode != want || !strings.Contains(body, "This page cannot be shown") {
			t.Errorf("%d: %s %s", status, res.Status, body)
		}
	}
}

func TestEvents_OneClientLeavesRoomForOthers(t *testing.T) {
	s := newSite(t, "web")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var refused, open atomic.Int32
	done := make(chan struct{})
	const asked = 110
	for range asked {
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/ui/news", nil)
			res, err := http.DefaultTransport.RoundTrip(req)
			if err == nil {
				defer res.Body.Close()
				if res.StatusCode == http.StatusOK {
					open.Add(1)
				} else {
					refused.Add(1)
				}
			}
			done <- struct{}{}
			<-ctx.Done()
		}()
	}
	for range asked {
		<-done
	}
	if open.Load() != 100 || refused.Load() != 10 {
		t.Errorf("%d streams are open, %d refused", open.Load(), refused.Load())
	}
}

// An answer that somebody waits for behind a proxy with HTTP/1.0 has no chunks.
func TestEvents_FlowThroughAProxyWithHTTP10(t *testing.T) {
	s := newSite(t, "web")
	conn := dial(t, s.url)
	if _, err := io.WriteString(conn, "GET /ui/news HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	var got []string
	lines := bufio.NewScanner(conn)
	for len(got) == 0 || got[len(got)-1] != ": open" {
		if !lines.Scan() {
			t.Fatalf("%v %q", lines.Err(), got)
		}
		got = append(got, lines.Text())
	}
	if slices.Contains(got, "Transfer-Encoding: chunked") || !slices.Contains(got, "X-Accel-Buffering: no") {
		t.Errorf("%q", got)
	}
}

// dial connects to a server, for requests that no client sends.
func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: browsertest.Patience}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(browsertest.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}
