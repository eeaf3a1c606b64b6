package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/access"
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
			fmt.Fprintf(w, "%s %d %s", r.URL.Path, access.Of(r.Context()), access.Token(r.Context()))
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
	if got := v.signIn(strings.Repeat("x", 32), "/ui/tasks"); got != "/ui/sign-in 0 " {
		t.Errorf("with a wrong token: %s", got)
	}
	if got := v.signIn(readToken, "/ui/tasks"); got != "/ui/tasks 1 api.read_token" {
		t.Errorf("with the token to read: %s", got)
	}
	if got := v.read(v.PostForm(v.page("/ui/tasks/web/approve"), nil)); !strings.Contains(got, "change nothing") {
		t.Errorf("a reader acts: %s", got)
	}
	if got := v.signIn(actToken, "/ui/tasks"); got != "/ui/tasks 2 api.token" {
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
	for _, next := range []string{"https://evil.example/ui/", "//evil.example/ui/", "/v1/tasks", `/\evil.example`, `/ui/\..\..`, "javascript:alert(1)", ""} {
		if got := v.signIn(actToken, next); got != "/ui/ 2 api.token" {
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
	if got := v.signIn(actToken, "/ui/tasks"); got != "/ui/tasks 2 api.token" {
		t.Fatal(got)
	}
	write(strings.Repeat("n", 32))
	if got := v.get("/ui/tasks"); got != "/ui/sign-in 0 " {
		t.Errorf("with another token now: %s", got)
	}
	write(actToken)
	if got := v.get("/ui/tasks"); got != "/ui/tasks 2 api.token" {
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
	at, _ := url.Parse(v.page("/ui/"))
	value := v.Jar.Cookies(at)[0].Value
	key, rest, _ := strings.Cut(value, "_token.")
	if key != "api.read" {
		t.Fatal(value)
	}
	for _, forged := range []string{"api.token." + rest, value + "x", "api.read_token.99999999999." + rest[strings.LastIndex(rest, ".")+1:], "", "...", "api.token.x.y"} {
		req, err := http.NewRequest(http.MethodGet, v.page("/ui/tasks"), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(&http.Cookie{Name: "terrapulse", Value: forged})
		if got := v.read(client(t, nil).Do(req)); got != "/ui/sign-in 0 " {
			t.Errorf("%q: %s", forged, got)
		}
	}
}

func TestSession_OpenPageGoesToTheFormWhenItsSessionEnds(t *testing.T) {
	v := visit(t, start(t, pagesOptions(), nil))
	req, err := http.NewRequest(http.MethodGet, v.page("/ui/tasks?page=2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("HX-Request", "true")
	resp, err := v.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("HX-Redirect"); got != "/ui/sign-in?next=%2Fui%2Ftasks%3Fpage%3D2" {
		t.Errorf("it is sent to %q", got)
	}
}
