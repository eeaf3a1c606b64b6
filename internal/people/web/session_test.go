package web_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/serve"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	actToken  = "a token that may act, for tests"
	readToken = "a token that may read, for tests"
)

// served has a site require a token, which it reads from the file that is returned.
func (s *site) served() (tokenFile string) {
	s.t.Helper()
	tokenFile = filepath.Join(s.t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(actToken), 0o600); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	server, err := serve.Listen(ctx, serve.Options{Address: "127.0.0.1", Handler: s.pages, Pages: outbox.PagesPath, Log: slog.New(slog.DiscardHandler),
		Token: serve.Token{Key: "api.token_file", File: tokenFile}, ReadToken: serve.Token{Key: "api.read_token", Value: readToken}})
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	s.url = "http://" + server.Addr().String()
	return tokenFile
}

func signIn(b *browsertest.Browser, token string) {
	b.Fill("Token", token)
	b.Click("Sign in")
}

func TestSession_StoryInTheBrowser(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
	tokenFile := s.served()
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<!doctype html><main><a href="%s/ui/tasks/web">the link in the chat</a></main>`, s.url)
	}))
	defer chat.Close()
	b := browsertest.New(t)

	b.Open(s.url + "/ui/tasks/web")
	b.Until("Sign in")
	b.Accessible()
	signIn(b, "a wrong token, for tests")
	b.Until("This token is not valid here")
	signIn(b, readToken)
	b.Until("service web")
	if text := b.Text("body"); !strings.Contains(text, "read only") || strings.Contains(text, "Run now") {
		t.Errorf("with the token to read: %s", text)
	}
	b.Click("Sign out")
	b.Until("Sign in")
	signIn(b, actToken)
	b.Until("All tasks")
	b.Open(s.url + "/ui/tasks/web")
	b.Until("Run now")
	b.Accessible()

	// A browser sends the session only with requests of its own pages, and a link of
	// another site works all the same.
	b.Open(strings.Replace(chat.URL, "127.0.0.1", "localhost", 1))
	b.Click("the link in the chat")
	b.Until("service web")
	b.Quiet()

	// An open page whose token is changed leads to the form, and back.
	if err := os.WriteFile(tokenFile, []byte(strings.ToUpper(actToken)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-2"))
	b.Until("Sign in")
	signIn(b, strings.ToUpper(actToken))
	b.Until("+web-2", "Run now")

	// After signing out, the way back in the browser shows nothing.
	b.Click("Sign out")
	b.Until("Sign in")
	browsertest.Eval[bool](b, "window.after = true; setTimeout(() => history.back()); true")
	b.Holds("!window.after && document.readyState === 'complete'")
	b.Until("Sign in")
	if text := b.Text("body"); strings.Contains(text, "service web") {
		t.Errorf("after signing out: %s", text)
	}
}

func TestSignIn_TellsStrangersNothing(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunFailed, "no route"))
	s.served()
	res, _ := s.ask(http.MethodGet, "/ui/tasks", http.Header{"Authorization": {"Bearer " + readToken}}) // the overview is kept
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	for _, path := range []string{"/ui/sign-in", "/ui/static/none.js"} {
		_, page := s.ask(http.MethodGet, path, nil)
		if !strings.Contains(page, "– Terrapulse</title>") || strings.Contains(page, "<title>(") || strings.Contains(page, "attention") || strings.Contains(page, "icon.svg?n=") {
			t.Errorf("%s tells strangers how much is wrong:\n%s", path, page)
		}
	}
}

// attacks is a page that does what it can with the pages of another origin, with the
// session of the viewer. It counts what works.
const attacks = `<!doctype html><main id="main">attacks: <output></output></main>
<iframe name="frame" src="%[1]s/ui/tasks/web"></iframe><iframe name="sink"></iframe>
<form method="post" target="sink" action="%[1]s/ui/tasks/web/hold"><input name="comment" value="attacked"></form>
<form method="post" target="sink" action="%[1]s/ui/session/end" enctype="text/plain"></form>
<script>(async () => {
	const works = [], pages = '%[1]s', wait = (e, name) => new Promise((done) => {
		e.onload = e.onopen = () => { works.push(name); done(); };
		e.onerror = () => done();
	});
	for (const form of document.forms) form.submit();
	for (const [name, init] of [['read', { credentials: 'include' }], ['post', { method: 'POST', mode: 'no-cors', credentials: 'include', body: 'comment=attacked',
			headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }]]) {
		await fetch(pages + '/ui/tasks' + (name === 'post' ? '/web/hold' : ''), init).then((r) => { if (r.type !== 'opaque') works.push(name); }, () => {});
	}
	const script = document.createElement('script'), image = new Image();
	script.src = pages + '/ui/tasks.json';
	image.src = pages + '/ui/icon.svg';
	document.body.append(script, image);
	await Promise.all([wait(script, 'script'), wait(image, 'image'), wait(new EventSource(pages + '/ui/news', { withCredentials: true }), 'stream')]);
	try { if (frames.frame.document.body) works.push('frame'); } catch { /* as it should be */ }
	const other = open(pages + '/ui/tasks');
	for (let n = 0; n < 300 && !other.closed; n++) await new Promise((done) => setTimeout(done, 20)); // the browser cuts the connection
	if (!other.closed) works.push('window');
	document.querySelector('output').textContent = 'over: ' + works.join();
})()</script>`

// The second origin is another port of the same host: the browser counts it as the same
// site, and sends it the session.
func TestProtected_PagesOfOtherOriginsCanDoNothing(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
	s.served()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, attacks, s.url)
	}))
	defer evil.Close()
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks/web")
	signIn(b, actToken)
	b.Until("Run now")
	for _, origin := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		b.Open(origin)
		b.Until("over:")
		if text := b.Text("main"); strings.TrimSpace(text) != "attacks: over:" {
			t.Errorf("from %s: %s", origin, text)
		}
		task, err := state.Read[state.Task](t.Context(), s.store, state.TaskKey("web"))
		if err != nil || task.Data.OnHold != nil {
			t.Errorf("%s put the task on hold: %+v, %v", origin, task.Data.OnHold, err)
		}
		b.Open(s.url + "/ui/tasks/web")
		b.Until("Run now") // the session goes on
	}
}

func TestSignIn_OffersTheProviderAndSaysWhyItDidNotWork(t *testing.T) {
	pages := web.New(t.Context(), web.Options{Provider: "dex.example.com", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	for _, site := range []string{"same-origin", "", "cross-site", "none"} {
		for why, want := range map[string]bool{"not today": true, "": false} { // a link puts no words there
			r := httptest.NewRequestWithContext(access.With(t.Context(), access.Caller{NotSignedIn: why}), http.MethodGet, "/ui/sign-in?next=%2Fui%2Fruns&why=not+today", nil)
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "document")
			answer := httptest.NewRecorder()
			pages.ServeHTTP(answer, r)
			page := answer.Body.String()
			if !strings.Contains(page, `href="/ui/session/provider?next=%2Fui%2Fruns">Sign in at dex.example.com</a>`) || strings.Contains(page, "You are not signed in: not today") != want {
				t.Errorf("a request from %q says why: %v\n%s", site, !want, page)
			}
		}
	}
}
