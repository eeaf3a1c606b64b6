package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// visitor is a browser that keeps cookies and follows redirections.
type visitor struct {
	*served
	*http.Client
}

// pagesOptions serves pages that say what their viewer may do.
func pagesOptions() Options {
	return Options{
		Address: "127.0.0.1", Pages: "/ui/", Public: "/v1/health", Token: Token{Key: "api.token", Value: actToken}, ReadToken: Token{Key: "api.read_token", Value: readToken},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, level := access.Of(r.Context()), 0
			switch {
			case c.Rights.Acts():
				level = 2
			case c.Rights.MayAny(roles.View):
				level = 1
			}
			fmt.Fprintf(w, "%s %d %s%s", r.URL.Path, level, c.Name, c.NotSignedIn)
		}),
	}
}

func visit(t *testing.T, s *served) visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, nil)
	c.Jar = jar
	return visitor{s, c}
}

// stay has a visitor follow no redirection.
func (v visitor) stay() visitor {
	v.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return v
}

func (v visitor) page(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", v.port(), path)
}

func (v visitor) read(resp *http.Response, err error) string {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return string(raw)
}

func (v visitor) get(path string) string {
	v.t.Helper()
	return v.read(v.Get(v.page(path)))
}

func (v visitor) signIn(token, next string) string {
	v.t.Helper()
	return v.read(v.PostForm(v.page("/ui/session"), url.Values{"token": {token}, "next": {next}}))
}

func TestSession_TokenIsEnteredOnce(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	if got := v.get("/ui/tasks"); got != "/ui/sign-in 0 " {
		t.Errorf("without a session: %s", got)
	}
	if got := v.get("/ui/session?code=&token=" + actToken); got != "/ui/sign-in 0 " {
		t.Errorf("with a token in the address, and a code where there are none: %s", got)
	}
	if got := v.signIn(strings.Repeat("x", 32), "/ui/tasks"); got != "/ui/sign-in 0 " {
		t.Errorf("with a wrong token: %s", got)
	}
	if got := v.signIn(readToken, "/ui/tasks"); got != "/ui/tasks 1 token:api.read_token" {
		t.Errorf("with the token to read: %s", got)
	}
	if got := v.read(v.PostForm(v.page("/ui/tasks/web/approve"), nil)); !strings.Contains(got, "needs the role operate") {
		t.Errorf("a reader acts: %s", got)
	}
	if got := v.signIn(actToken, "/ui/tasks"); got != "/ui/tasks 2 token:api.token" {
		t.Errorf("with the token to act: %s", got)
	}
	if got := v.get("/v1/tasks"); !strings.Contains(got, "needs a token") {
		t.Errorf("the session counts for the API: %s", got)
	}
	if got := v.read(v.PostForm(v.page("/ui/session/end"), nil)); got != "/ui/sign-in 0 " {
		t.Errorf("after signing out: %s", got)
	}
	if got := v.get("/ui/tasks"); got != "/ui/sign-in 0 " {
		t.Errorf("after signing out: %s", got)
	}
}

func TestSession_LeadsOnlyToPagesOfThisServer(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	for _, next := range []string{"https://evil.example/ui/", "//evil.example/ui/", "/v1/tasks", `/\evil.example`, `/ui/\..\..`, "javascript:alert(1)", "", "/ui/../v1/tasks", "/ui/%2e%2e/v1/tasks", "/ui/session/end", "/ui/session?code=x", "/uix", "/ui/\t//evil.example"} {
		if got := v.signIn(actToken, next); got != "/ui/ 2 token:api.token" {
			t.Errorf("next %q leads to %s", next, got)
		}
	}
}

func TestSession_EndsWithTheTokenAndAfterHours(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(actToken)
	o := pagesOptions()
	o.Token = Token{Key: "api.token", File: file}
	now := time.Now()
	v := visit(t, start(t, o, func(s *Server) { s.guard.tokens.now = func() time.Time { return now } }))
	if got := v.signIn(actToken, "/ui/tasks"); got != "/ui/tasks 2 token:api.token" {
		t.Fatal(got)
	}
	write(strings.Repeat("n", 32))
	if got := v.get("/ui/tasks"); got != "/ui/sign-in 0 " {
		t.Errorf("with another token now: %s", got)
	}
	write(actToken)
	if got := v.get("/ui/tasks"); got != "/ui/tasks 2 token:api.token" {
		t.Errorf("with the same token again: %s", got)
	}
	now = now.Add(sessionTime)
	if got := v.get("/ui/tasks"); got != "/ui/sign-in 0 " {
		t.Errorf("after %s: %s", sessionTime, got)
	}
}

func TestSession_CannotBeForged(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	v.signIn(readToken, "/ui/")
	valid := v.cookie()
	parts := strings.Split(valid.Value, ".") // api.read_token, id, end, signature
	if len(parts) != 5 || parts[1] != "read_token" {
		t.Fatal(valid.Value)
	}
	forge := func(i int, text string) string {
		other := slices.Clone(parts)
		other[i] = text
		return strings.Join(other, ".")
	}
	for _, forged := range []string{forge(1, "token"), forge(2, "x"), forge(3, "99999999999"), forge(3, "-1"), forge(4, parts[4]+"x"), forge(4, ""), "", "...", "api.token.x.y.z"} {
		if got := v.with(forged); got != "/ui/sign-in 0 " {
			t.Errorf("%q: %s", forged, got)
		}
	}
	if got := v.with(valid.Value); got != "/ui/tasks 1 token:api.read_token" {
		t.Errorf("the valid one: %s", got)
	}
}

// cookie returns the session of a visitor.
func (v visitor) cookie() *http.Cookie {
	v.t.Helper()
	at, err := url.Parse(v.page("/ui/"))
	if err != nil || len(v.Jar.Cookies(at)) != 1 {
		v.t.Fatal(v.Jar.Cookies(at), err)
	}
	return v.Jar.Cookies(at)[0]
}

// with requests a page with a session.
func (v visitor) with(session string) string {
	v.t.Helper()
	return v.send(http.MethodGet, "/ui/tasks", http.Header{"Cookie": {fmt.Sprintf("terrapulse-%d=%s", v.port(), session)}})
}

// send sends a request without the visitor's own cookies.
func (v visitor) send(method, path string, header http.Header) string {
	v.t.Helper()
	return v.read(v.ask(method, path, header))
}

func (v visitor) ask(method, path string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequest(method, v.page(path), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	return client(v.t, nil).Do(req)
}

func TestSession_IsOverOnceItIsSignedOut(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	v.signIn(actToken, "/ui/")
	first := v.cookie().Value
	v.signIn(actToken, "/ui/")
	second := v.cookie().Value
	if first == second {
		t.Fatal("two sessions are the same")
	}
	if got := v.with(first); got != "/ui/sign-in 0 " {
		t.Errorf("a session is valid that another one has replaced: %s", got)
	}
	if got := v.get("/ui/session/end"); strings.HasPrefix(got, "/ui/sign-in") {
		t.Error("a link signs out")
	}
	if got := v.with(second); got != "/ui/tasks 2 token:api.token" {
		t.Fatal(got)
	}
	v.read(v.PostForm(v.page("/ui/session/end"), nil))
	if got := v.with(second); got != "/ui/sign-in 0 " {
		t.Errorf("a copy of the cookie is valid after signing out: %s", got)
	}
}

func TestSession_HoldsOnEveryInstanceWithTheSameToken(t *testing.T) {
	const behind = "cluster.localhost:8558" // the load balancer, which both instances get as the host
	var session string
	for range 2 {
		t.Run("instance", func(t *testing.T) {
			v := visit(t, start(t, pagesOptions(), nil))
			if session == "" {
				v.signIn(actToken, "/ui/")
				session = v.cookie().Value
			}
			if _, got := v.served.send(http.MethodGet, "/ui/tasks", http.Header{"Host": {behind}, "Cookie": {"terrapulse-8558=" + session}}); got != "/ui/tasks 2 token:api.token" {
				t.Error(got)
			}
		})
	}
}

func TestSession_ServersOnOneHostKeepTheirsApart(t *testing.T) {
	var names []string
	for range 2 {
		t.Run("server", func(t *testing.T) {
			v := visit(t, start(t, pagesOptions(), nil))
			v.signIn(actToken, "/ui/")
			names = append(names, v.cookie().Name)
		})
	}
	if names[0] == names[1] {
		t.Errorf("both have the cookie %s, and browsers send it to each port of a host", names[0])
	}
}

func TestSession_CookieIsForThisHostAndNoScript(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	for origin, want := range map[string]string{
		fmt.Sprintf("http://127.0.0.1:%d", v.port()):  fmt.Sprintf("terrapulse-%d=… Path=/ui/; Max-Age=43200; HttpOnly; SameSite=Strict", v.port()),
		fmt.Sprintf("https://127.0.0.1:%d", v.port()): fmt.Sprintf("__Host-terrapulse-%d=… Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict", v.port()), // behind a proxy
	} {
		req, _ := http.NewRequest(http.MethodPost, v.page("/ui/session"), strings.NewReader(url.Values{"token": {actToken}}.Encode()))
		req.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {origin}}
		resp, err := visit(t, v.served).stay().Do(req)
		v.read(resp, err)
		set := resp.Header.Get("Set-Cookie")
		name, _, _ := strings.Cut(set, "=")
		_, attributes, _ := strings.Cut(set, "; ")
		if got := name + "=… " + attributes; got != want {
			t.Errorf("%s: %s\nwant %s", origin, got, want)
		}
		if resp.Header.Get("Cache-Control") != "no-store" {
			t.Error("a cache may keep the cookie")
		}
	}
}

func TestSession_PasswordOfAProxyIsNoToken(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	header := http.Header{"Authorization": {"Basic am86c2VjcmV0"}}
	if got := v.send(http.MethodGet, "/ui/tasks", header); got != "/ui/sign-in 0 " {
		t.Fatal(got)
	}
	wantNoGuess(v.served)
	v.signIn(actToken, "/ui/")
	header.Set("Cookie", v.cookie().String())
	if got := v.send(http.MethodGet, "/ui/tasks", header); got != "/ui/tasks 2 token:api.token" {
		t.Error(got)
	}
}

func TestSession_WrongTokensOfTheFormDelayNobody(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	for range wrongAtOnce {
		v.signIn(strings.Repeat("x", 32), "/ui/")
	}
	if got := v.signIn(actToken, "/ui/tasks"); got != "/ui/tasks 2 token:api.token" {
		t.Errorf("the right token: %s", got)
	}
}

// ended is what a viewer gets whose session has ended.
func TestSession_ViewerWithoutOneIsSentToTheForm(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	own := fmt.Sprintf("http://127.0.0.1:%d", v.port())
	for name, c := range map[string]struct {
		method, path string
		header       http.Header
		status       int
		key, want    string // of the header
	}{
		"a page":                 {"GET", "/ui/tasks?page=2", http.Header{}, 303, "Location", "/ui/sign-in?next=%2Fui%2Ftasks%3Fpage%3D2"},
		"its header":             {"HEAD", "/ui/tasks", http.Header{}, 303, "Location", "/ui/sign-in?next=%2Fui%2Ftasks"},
		"an open page":           {"GET", "/ui/tasks?page=2", http.Header{"Hx-Request": {"true"}, "Accept": {"text/html, text/event-stream"}}, 204, "HX-Redirect", "/ui/sign-in?next=%2Fui%2Ftasks%3Fpage%3D2"},
		"a stream":               {"GET", "/ui/news", http.Header{"Hx-Request": {"true"}, "Accept": {"text/html, text/event-stream"}}, 401, "Location", ""},
		"a button":               {"POST", "/ui/tasks/web/hold", http.Header{"Origin": {own}, "Referer": {own + "/ui/tasks/web?x=1"}}, 303, "Location", "/ui/sign-in?next=%2Fui%2Ftasks%2Fweb%3Fx%3D1"},
		"a button from anywhere": {"POST", "/ui/tasks/web/hold", http.Header{"Referer": {"https://evil.example/ui/"}}, 401, "Location", ""},
		"another method":         {"DELETE", "/ui/tasks/web", http.Header{}, 401, "Location", ""},
		"the API":                {"GET", "/v1/tasks", http.Header{}, 401, "Location", ""},
		"a link of another site": {"GET", "/ui/tasks", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, 200, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
	} {
		req, _ := http.NewRequest(c.method, v.page(c.path), nil)
		req.Header = c.header
		resp, err := visit(t, v.served).stay().Do(req)
		v.read(resp, err)
		if resp.StatusCode != c.status || resp.Header.Get(c.key) != c.want {
			t.Errorf("%s: %s, %s %q: want %d, %q", name, resp.Status, c.key, resp.Header.Get(c.key), c.status, c.want)
		}
	}
}

func TestSession_PathsAroundTheFormNeedOne(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	for _, path := range []string{"/", "/ui", "/ui/sign-in", "/ui/static/x"} { // everybody may get these
		if got := v.get(path); got != path+" 0 " {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, path := range []string{"/ui/sign-in/x", "/ui/sign-in.json", "/ui/static", "/ui/session/x", "/ui/%73ession/x", "/UI/tasks"} {
		if got := v.get(path); got != "/ui/sign-in 0 " && !strings.Contains(got, "needs a token") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestSession_ForeignPagesMayNotUseThePages(t *testing.T) {
	for _, origin := range []string{"*", "https://ops.example.com"} {
		t.Run(origin, func(t *testing.T) {
			o := pagesOptions()
			o.AllowOrigin = origin
			v := visit(t, start(t, o, nil))
			foreign := http.Header{"Origin": {"https://ops.example.com"}, "Sec-Fetch-Site": {"cross-site"}}
			if got := v.send(http.MethodPost, "/ui/session", foreign); !strings.Contains(got, "other origins") {
				t.Errorf("it signs in: %s", got)
			}
			for path, want := range map[string]string{"/ui/sign-in": "", "/v1/tasks": origin} {
				resp, err := v.ask(http.MethodGet, path, foreign)
				if v.read(resp, err); resp.Header.Get("Access-Control-Allow-Origin") != want {
					t.Errorf("%s: %v", path, resp.Header)
				}
			}
		})
	}
}

func TestInvitation_WorksOnce(t *testing.T) {
	sent := make(chan string, 10)
	o := pagesOptions()
	o.Invite = func(path string) { sent <- path }
	v := visit(t, start(t, o, nil))
	first := <-sent
	if got := v.get("/ui/session?code="); got != "/ui/sign-in 0 " {
		t.Errorf("without a code: %s", got)
	}
	if got := v.get("/ui/session?token=" + actToken); got != "/ui/sign-in 0 " {
		t.Errorf("a token in an address: %s", got)
	}
	if got := v.get(first); got != "/ui/ 2 token:api.token" {
		t.Errorf("the first: %s", got)
	}
	if got := v.get(first); got != "/ui/ 2 token:api.token" {
		t.Errorf("the same browser once more: %s", got)
	}
	other := visit(t, v.served)
	if got := other.get(first); got != "/ui/sign-in 0 " {
		t.Errorf("another browser with the same address: %s", got)
	}
	if got := other.get(<-sent); got != "/ui/ 2 token:api.token" {
		t.Errorf("the next address: %s", got)
	}
	if len(sent) != 1 {
		t.Errorf("%d addresses are left", len(sent))
	}
}
