package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// whoAndWhat answers with who sends the request, and what they may do.
var whoAndWhat = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	c := access.Of(r.Context())
	fmt.Fprintf(w, "%s (%s): %s", c.Name, c.Proof, c.Rights)
})

// grant is a grant of one role.
func grant(role roles.Role, to string, tasks ...string) roles.Grant {
	return roles.Grant{Roles: []roles.Role{role}, To: []string{to}, Tasks: tasks}
}

// granted is a server with grants and named tokens, of which there is one for each grant to a token.
type granted struct {
	*served
	keeper *credentials.Keeper
	policy atomic.Pointer[roles.Policy]
	tokens map[string]string
	now    atomic.Pointer[time.Time]
	broken atomic.Bool
}

// breaking is a store that does not answer while it is broken.
type breaking struct {
	state.Store
	broken *atomic.Bool
}

func (b breaking) Get(ctx context.Context, key string) (state.Record, error) {
	if b.broken.Load() {
		return state.Record{}, errors.New("no answer")
	}
	return b.Store.Get(ctx, key)
}

func (b breaking) List(ctx context.Context, prefix string) ([]state.Record, error) {
	if b.broken.Load() {
		return nil, errors.New("no answer")
	}
	return b.Store.List(ctx, prefix)
}

func startGranted(t *testing.T, o Options, grants ...roles.Grant) *granted {
	t.Helper()
	g := &granted{tokens: map[string]string{}}
	g.policy.Store(&roles.Policy{Grants: grants})
	g.now.Store(new(time.Now()))
	g.keeper = credentials.New(breaking{statetest.NewMemory(), &g.broken}, func() time.Time { return *g.now.Load() })
	for _, one := range grants {
		if name, ok := strings.CutPrefix(one.To[0], "token:"); ok {
			token, _, err := g.keeper.Create(t.Context(), name, "jo", time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			g.tokens[name] = token
		}
	}
	o.Policy, o.Credentials, o.Public, o.Pages = func() roles.Policy { return *g.policy.Load() }, g.keeper, "/v1/health", "/ui/"
	if o.Handler == nil {
		o.Handler = whoAndWhat
	}
	g.served = start(t, o, func(s *Server) { s.guard.tokens.now = func() time.Time { return *g.now.Load() } })
	return g
}

// pass lets time pass.
func (g *granted) pass(d time.Duration) { g.now.Store(new(g.now.Load().Add(d))) }

func TestGrants_DecideWhatEachTokenMayDo(t *testing.T) {
	g := startGranted(t, Options{Token: Token{Key: "api.token", Value: actToken}, ReadToken: Token{Key: "api.read_token", Value: readToken}},
		grant(roles.Operate, "token:ci", "web-*"), grant(roles.View, "token:dash"))
	other, _, err := g.keeper.Create(t.Context(), "other", "jo", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, token string
		status              int
		says                string
	}{
		{"GET", "/v1/tasks", g.tokens["ci"], 200, "token:ci (token): view (web-*), operate (web-*)"},
		{"POST", "/v1/tasks/web-1/run", g.tokens["ci"], 200, "token:ci (token)"},
		{"GET", "/v1/tasks", g.tokens["dash"], 200, "token:dash (token): view"},
		{"POST", "/v1/tasks/web-1/run", g.tokens["dash"], 403, "token:dash may view, but needs the role operate: an administrator can give it with a grant in api.access"},
		{"GET", "/v1/tasks", other, 403, "token:other needs the role view, and has none"},
		{"GET", "/v1/health", other, 200, "(): no role"},
		{"GET", "/v1/health", "", 200, "(): no role"},
		{"GET", "/v1/tasks", "", 401, "needs a token"},
		{"GET", "/v1/tasks", g.tokens["ci"] + "0", 401, "not valid"},
		{"GET", "/v1/tasks", actToken, 200, "token:api.token (token): " + everything}, // whatever the grants say
		{"GET", "/v1/tasks", readToken, 200, "token:api.read_token (token): view"},
	} {
		if resp, body := g.ask(tt.method, tt.path, "", tt.token); resp.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s %s with %.12s: %d %s, want %d %s", tt.method, tt.path, tt.token, resp.StatusCode, body, tt.status, tt.says)
		}
	}
	for name, token := range g.tokens {
		if strings.Contains(g.log.String(), token) {
			t.Errorf("the token %s is in the log", name)
		}
	}
	g.policy.Store(&roles.Policy{}) // the grants are removed: named tokens have no effect
	if resp, body := g.ask("GET", "/v1/tasks", "", g.tokens["ci"]); resp.StatusCode != 401 {
		t.Errorf("without grants: %d %s", resp.StatusCode, body)
	}
}

// Only the operation says which role it needs. It is not reached by somebody who may change nothing.
func TestGrants_WhoMayChangeNothingHearsWhichRoleTheOperationNeeds(t *testing.T) {
	var asked []string
	reached := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if !access.Reads(r.Method) && !access.Of(r.Context()).Rights.Acts() {
			t.Errorf("the handler gets %s %s of %s", r.Method, r.URL, access.Of(r.Context()).Name)
		}
	})
	g := startGranted(t, Options{Handler: reached, Refuse: func(r *http.Request) error {
		c := access.Of(r.Context())
		asked = append(asked, c.Name+" "+r.Method+" "+r.URL.Path)
		if r.URL.Path == "/v1/nothing" {
			return nil
		}
		return c.Need(roles.Administer, "web")
	}}, grant(roles.View, "token:dash"), grant(roles.Operate, "token:ci"))
	other, _, err := g.keeper.Create(t.Context(), "other", "jo", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, token string
		status              int
		says                string
	}{
		{"DELETE", "/v1/tasks/web", g.tokens["dash"], 403, "token:dash may view, but needs the role administer for task web: "},
		{"POST", "/ui/tasks/web/disable", g.tokens["dash"], 403, "token:dash may view, but needs the role administer for task web: "},
		{"DELETE", "/v1/tasks/web", other, 403, "token:other needs the role administer for task web, and has none"},
		{"POST", "/v1/nothing", g.tokens["dash"], 403, "token:dash may view, but needs the role operate: "},
		{"DELETE", "/v1/tasks/web", g.tokens["ci"], 200, ""}, // the handler refuses it
		{"GET", "/v1/tasks", g.tokens["dash"], 200, ""},
		{"GET", "/v1/tasks", other, 403, "token:other needs the role view, and has none"},
		{"DELETE", "/v1/tasks/web", "none", 401, "not valid"},
	} {
		if resp, body := g.ask(tt.method, tt.path, "", tt.token); resp.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, resp.StatusCode, body, tt.status, tt.says)
		}
	}
	want := []string{"token:dash DELETE /v1/tasks/web", "token:dash POST /ui/tasks/web/disable", "token:other DELETE /v1/tasks/web", "token:dash POST /v1/nothing"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for a reason were %q, want %q", asked, want)
	}
}

func TestGrants_WithoutATokenOfTheConfiguration(t *testing.T) {
	lan := testtools.LANAddress(t)
	for _, tt := range []struct {
		name, host, method, token string
		also                      []roles.Grant
		status                    int
		says                      string
	}{
		{"this machine", "", "POST", "", nil, 200, "(local): " + everything},
		{"this machine with a token", "", "POST", "dash", nil, 403, "token:dash may view"},
		{"another machine", lan, "GET", "", nil, 401, "needs a token"},
		{"another machine, and everyone may view", lan, "GET", "", []roles.Grant{grant(roles.View, roles.Everyone)}, 200, "(none): view"},
		{"another machine, and everyone may view some tasks", lan, "GET", "", []roles.Grant{grant(roles.View, roles.Everyone, "web-*")}, 200, "(none): view (web-*)"},
		{"another machine changes something", lan, "POST", "", []roles.Grant{grant(roles.View, roles.Everyone)}, 401, "needs a token"},
		{"another machine with a token", lan, "GET", "dash", nil, 200, "token:dash (token): view"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := startGranted(t, Options{}, append(tt.also, grant(roles.View, "token:dash"))...)
			g.host = tt.host
			if resp, body := g.ask(tt.method, "/v1/tasks", "", g.tokens[tt.token]); resp.StatusCode != tt.status || !strings.Contains(body, tt.says) {
				t.Errorf("%d %s, want %d %s", resp.StatusCode, body, tt.status, tt.says)
			}
		})
	}
}

func TestGrants_ToTheNamesOfClientCertificates(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	g := startGranted(t, Options{Address: "127.0.0.1", TLS: config.APITLS{Enabled: true, Cert: cert, Key: key, VerifyIncoming: true, CACert: ca.CA}},
		grant(roles.Approve, "cert:noc.example.com", "firewall-*"), grant(roles.View, "token:ci"))
	for name, tt := range map[string]struct {
		token  string
		status int
		says   string
	}{
		"noc.example.com": {"", 200, "cert:noc.example.com (certificate): view (firewall-*), approve (firewall-*)"},
		"bob":             {"", 403, "cert:bob needs the role view, and has none"}, // also on this machine
		"carl":            {"ci", 200, "token:ci (token): view"},                   // a token says more
	} {
		own, ownKey := ca.Client(name)
		req, _ := http.NewRequestWithContext(t.Context(), "GET", g.url("https"), nil)
		if tt.token != "" {
			req.Header.Set("Authorization", "Bearer "+g.tokens[tt.token])
		}
		resp, err := client(t, trusting(t, ca.CA, own, ownKey)).Do(req)
		if body := visit(t, g.served).read(resp, err); resp.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
}

// An approval counts as long as its token is not revoked, also if another token has the name then.
func TestNamedToken_RequestsAndSessionsSayWhichTokenItIs(t *testing.T) {
	g := startGranted(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := access.Of(r.Context())
		fmt.Fprint(w, c.Name, " ", c.Account, " ", c.Made)
	})}, grant(roles.Operate, "token:ci"))
	g.host = testtools.LANAddress(t)
	said := func() [2]string {
		v := visit(t, g.served)
		_, direct := g.ask("GET", "/v1/tasks", "", g.tokens["ci"])
		return [2]string{direct, v.read(v.PostForm(fmt.Sprintf("http://%s:%d/ui/session", g.host, g.port()), url.Values{"token": {g.tokens["ci"]}, "next": {"/ui/tasks"}}))}
	}
	first := said()
	if err := g.keeper.Revoke(t.Context(), "ci", "ann"); err != nil {
		t.Fatal(err)
	}
	again, made, err := g.keeper.Create(t.Context(), "ci", "ann", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	g.tokens["ci"] = again
	who := made.Identity()
	if want := fmt.Sprint("token:ci ", who.Account, " ", who.Made); who.Account == "" || said() != [2]string{want, want} || first[0] != first[1] || first[0] == want {
		t.Errorf("the first token is %q, the second %q, want %q", first, said(), want)
	}
}

func TestNamedToken_SessionEndsWithIt(t *testing.T) {
	g := startGranted(t, Options{}, grant(roles.Operate, "token:ci"))
	g.host = testtools.LANAddress(t)
	v := visit(t, g.served)
	page := func(path string) string { return fmt.Sprintf("http://%s:%d%s", g.host, g.port(), path) }
	signIn := func() string {
		return v.read(v.PostForm(page("/ui/session"), url.Values{"token": {" " + g.tokens["ci"] + "\n"}, "next": {"/ui/tasks"}}))
	}
	const signedIn = "token:ci (token): view, operate"
	if got := signIn(); got != signedIn {
		t.Fatal(got)
	}
	g.pass(time.Hour)
	if got := v.read(v.Get(page("/ui/tasks"))); got != signedIn {
		t.Errorf("an hour later: %s", got)
	}
	old := v.Jar
	if got := v.read(v.PostForm(page("/ui/session/end"), nil)); got != " (): no role" { // the form
		t.Errorf("signed out: %s", got)
	}
	v.Jar = old
	signIn()
	if err := g.keeper.Revoke(t.Context(), "ci", "ann"); err != nil {
		t.Fatal(err)
	}
	g.pass(credentials.Fresh)
	if got := v.read(v.Get(page("/ui/tasks"))); got != " (): no role" {
		t.Errorf("after the token was revoked: %s", got)
	}
	if got := v.read(v.Get(page("/v1/tasks"))); !strings.Contains(got, "needs a token") {
		t.Errorf("the cookie is no credential of the API: %s", got)
	}
	if got := signIn(); got != " (): no role" {
		t.Errorf("sign in with the revoked token: %s", got)
	}
}

func TestNamedToken_CookieIsNoUseOfAnotherViewer(t *testing.T) {
	g := startGranted(t, Options{}, grant(roles.Operate, "token:ci"))
	g.host = testtools.LANAddress(t)
	for _, cookie := range []string{"s.", "s." + strings.Repeat("0", 64), "s." + g.tokens["ci"], "token:ci", g.tokens["ci"]} {
		resp, body := g.send("GET", "/ui/tasks", http.Header{"Cookie": {fmt.Sprintf("terrapulse-%d=%s", g.port(), cookie)}})
		if body != " (): no role" {
			t.Errorf("%.12s: %s %s", cookie, resp.Status, body)
		}
	}
}

func TestNamedToken_StoreThatDoesNotAnswerLetsNobodyIn(t *testing.T) {
	g := startGranted(t, Options{Token: Token{Key: "api.token", Value: actToken}}, grant(roles.Operate, "token:ci"))
	g.broken.Store(true)
	if resp, body := g.ask("GET", "/v1/tasks", "", g.tokens["ci"]); resp.StatusCode != 503 || !strings.Contains(body, "check the token: read the records token/*: no answer: try again") {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	wantNoGuess(g.served)
	if resp, _ := g.ask("GET", "/v1/tasks", "", actToken); resp.StatusCode != 200 {
		t.Errorf("the token of the configuration: %s", resp.Status)
	}
	g.broken.Store(false)
	if resp, body := g.ask("GET", "/v1/tasks", "", g.tokens["ci"]); resp.StatusCode != 200 {
		t.Errorf("%s: %s", resp.Status, body)
	}
}

func TestNamedToken_ParallelGuessesDelayNoRightOne(t *testing.T) {
	g := startGranted(t, Options{}, grant(roles.Operate, "token:ci"))
	var group sync.WaitGroup
	for n := range 3 * wrongAtOnce {
		group.Go(func() {
			if resp, _ := g.ask("GET", "/v1/tasks", "", fmt.Sprintf("tp_ci_%064d", n)); resp.StatusCode != 401 {
				t.Errorf("a guess: %s", resp.Status)
			}
			if resp, _ := g.ask("GET", "/v1/tasks", "", g.tokens["ci"]); resp.StatusCode != 200 {
				t.Errorf("the right token meanwhile: %s", resp.Status)
			}
		})
	}
	group.Wait()
	if n := strings.Count(g.log.String(), "had a wrong token"); n != wrongAtOnce {
		t.Errorf("%d guesses are logged, want %d", n, wrongAtOnce)
	}
}
