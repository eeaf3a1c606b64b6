package serve

import (
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/openid"
	"github.com/terrapulse/terrapulse/internal/people/openid/openidtest"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// withProvider serves pages to which people sign in at a provider: the group network may operate, and
// everybody whom it signs in may view.
func withProvider(t *testing.T, p *openidtest.Provider, tune func(*Options)) *served {
	t.Helper()
	provider, err := openid.New(openid.Options{Issuer: p.URL, ClientID: "terrapulse", ClientSecret: "a secret of some length", CLIClientID: "terrapulse-cli",
		UsernameClaim: "email", GroupsClaim: "groups"})
	if err != nil {
		t.Fatal(err)
	}
	o := pagesOptions()
	o.OpenID, o.Credentials = &OpenID{Provider: provider, Session: 8 * time.Hour}, credentials.New(statetest.NewMemory(), time.Now)
	o.Policy = func() roles.Policy {
		return roles.Policy{Grants: []roles.Grant{{Roles: []roles.Role{roles.Operate}, To: []string{"group:network"}}, {Roles: []roles.Role{roles.View}, To: []string{"user:*"}}},
			Groups: map[string][]string{"admins": {"token:nobody"}}}
	}
	if tune != nil {
		tune(&o)
	}
	return start(t, o, nil)
}

// unavailable is what a provider answers that is down.
func unavailable(w http.ResponseWriter, _ *http.Request) bool {
	w.WriteHeader(http.StatusServiceUnavailable)
	return true
}

var leads = regexp.MustCompile(`content="0;url=([^"]+)"`)

// follow reads a page, and those to which it leads a browser.
func (v visitor) follow(address string) string {
	v.t.Helper()
	for range 5 {
		text := v.read(v.Get(address))
		to := leads.FindStringSubmatch(text)
		if to == nil {
			return text
		}
		address = v.page(html.UnescapeString(to[1]))
	}
	v.t.Fatal("the pages lead around in a circle")
	return ""
}

func TestOpenID_PeopleSignInAndOut(t *testing.T) {
	p := openidtest.New(t)
	s := withProvider(t, p, nil)
	v := visit(t, s)
	if got := v.get("/ui/tasks"); !strings.HasPrefix(got, "/ui/sign-in 0") {
		t.Errorf("without a session: %s", got)
	}
	if got := v.follow(v.page("/ui/session/provider?next=%2Fui%2Ftasks%2Fweb%3Fx%3D1")); got != "/ui/tasks/web 2 user:alice@example.com" {
		t.Errorf("after signing in: %s", got)
	}
	if got := v.get("/ui/runs"); got != "/ui/runs 2 user:alice@example.com" {
		t.Errorf("another page: %s", got)
	}
	cookies := v.Jar.Cookies(mustParse(t, v.page("/ui/")))
	if len(cookies) != 1 {
		t.Errorf("cookies: %v", cookies)
	}
	v.read(v.Post(v.page("/ui/session/end"), "", nil))
	if got := v.get("/ui/tasks"); !strings.HasPrefix(got, "/ui/sign-in 0") {
		t.Errorf("after signing out: %s", got)
	}
	// The cookie is worth nothing any more, in any browser.
	v.Jar.SetCookies(mustParse(t, v.page("/ui/")), cookies)
	if got := v.get("/ui/tasks"); !strings.HasPrefix(got, "/ui/sign-in 0") {
		t.Errorf("with the cookie of a session that has ended: %s", got)
	}
	wantLogged(t, s.log, "a viewer signed in to the pages", "by=user:alice@example.com")
}

// signedInAtProvider is a browser in which a person has signed in, and which follows no redirection.
func signedInAtProvider(t *testing.T, s *served) visitor {
	t.Helper()
	v := visit(t, s)
	if got := v.follow(v.page("/ui/session/provider")); got != "/ui/ 2 user:alice@example.com" {
		t.Fatalf("after signing in: %s", got)
	}
	return v.stay()
}

// leadsTo is where a request leads a browser.
func (v visitor) leadsTo(resp *http.Response, err error) string {
	v.t.Helper()
	v.read(resp, err)
	return resp.Header.Get("Location")
}

func TestOpenID_SigningOutOffersToEndTheSessionAtTheProvider(t *testing.T) {
	p := openidtest.New(t)
	p.Offer("end_session_endpoint", p.URL+"/end?realm=net")
	v := signedInAtProvider(t, withProvider(t, p, nil))
	if got := v.leadsTo(v.Post(v.page("/ui/session/end"), "", nil)); got != "/ui/sign-in?leave=1&remains=1" {
		t.Errorf("signing out leads to %s", got)
	}
	if got := v.leadsTo(v.Get(v.page("/ui/session/provider/end"))); got != p.URL+"/end?client_id=terrapulse&realm=net" {
		t.Errorf("signing out at the provider leads to %s", got)
	}
	// Other sites cannot end anybody's session there.
	r, _ := http.NewRequest(http.MethodGet, v.page("/ui/session/provider/end"), nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if got := v.leadsTo(v.Do(r)); got != "/ui/sign-in" {
		t.Errorf("a link of another site leads to %s", got)
	}
	// A token has no session elsewhere.
	v = visit(t, withProvider(t, p, nil))
	v.signIn(actToken, "/ui/tasks")
	v.stay()
	if got := v.leadsTo(v.Post(v.page("/ui/session/end"), "", nil)); got != "/ui/sign-in" {
		t.Errorf("signing out with a token leads to %s", got)
	}
}

func TestOpenID_SigningOutSaysThatTheSessionAtTheProviderRemains(t *testing.T) {
	for name, offered := range map[string]any{"no address": nil, "a script": "javascript:alert(1)", "no text": 7, "a path": "/end"} {
		p := openidtest.New(t)
		p.Offer("end_session_endpoint", offered)
		v := signedInAtProvider(t, withProvider(t, p, nil))
		got := v.leadsTo(v.Post(v.page("/ui/session/end"), "", nil))
		if strings.Contains(got, "leave=1") {
			got = v.leadsTo(v.Get(v.page("/ui/session/provider/end")))
		}
		if got != "/ui/sign-in?remains=1" {
			t.Errorf("%s: signing out leads to %s", name, got)
		}
	}
}

func TestOpenID_SigningOutDoesNotWaitForTheProvider(t *testing.T) {
	p := openidtest.New(t)
	p.Answer(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
	kept := credentials.New(statetest.NewMemory(), time.Now)
	s := withProvider(t, p, func(o *Options) { o.Credentials = kept })
	secret, err := kept.Begin(t.Context(), credentials.Session{Identity: identity.Identity{Name: "user:alice@example.com", Proof: identity.OIDC}, Expires: time.Now().Add(time.Hour),
		Provider: s.guard.people.name()})
	if err != nil {
		t.Fatal(err)
	}
	v := visit(t, s).stay()
	v.carry(sessionStart + secret)
	if got := v.get("/ui/tasks"); got != "/ui/tasks 1 user:alice@example.com" {
		t.Fatalf("before signing out: %s", got)
	}
	// Nobody has read what the provider offers: the link finds out.
	if got := v.leadsTo(v.Post(v.page("/ui/session/end"), "", nil)); got != "/ui/sign-in?leave=1&remains=1" {
		t.Errorf("signing out leads to %s", got)
	}
	if n := p.Reads("/.well-known/openid-configuration"); n != 0 {
		t.Errorf("signing out sent the provider %d requests", n)
	}
	if _, err := kept.Session(t.Context(), secret); !errors.Is(err, credentials.ErrUnknown) {
		t.Errorf("the session is still valid: %v", err)
	}
	if got := v.leadsTo(v.Get(v.page("/ui/session/provider/end"))); got != "/ui/sign-in?remains=1" {
		t.Errorf("signing out at a provider that answers with an error leads to %s", got)
	}
}

func TestOpenID_SessionsAreValidOnEveryInstanceOfTheStoreAndProvider(t *testing.T) {
	p := openidtest.New(t)
	kept := credentials.New(statetest.NewMemory(), time.Now)
	with := func(tune func(*Options)) visitor {
		return visit(t, withProvider(t, p, func(o *Options) {
			o.Credentials = kept
			if tune != nil {
				tune(o)
			}
		}))
	}
	v := with(nil)
	v.follow(v.page("/ui/session/provider"))
	session := v.Jar.Cookies(mustParse(t, v.page("/ui/")))[0].Value
	p.Answer(unavailable) // sessions do not need the provider
	for name, tt := range map[string]struct {
		tune func(*Options)
		want string
	}{
		"another instance":   {nil, "/ui/tasks 2 user:alice@example.com"},
		"another claim":      {func(o *Options) { o.OpenID.Provider.Options.UsernameClaim = "sub" }, "/ui/sign-in 0"},
		"another issuer":     {func(o *Options) { o.OpenID.Provider.Options.Issuer = "https://dex.example.com" }, "/ui/sign-in 0"},
		"without a provider": {func(o *Options) { o.OpenID = nil }, "/ui/sign-in 0"},
		"another store":      {func(o *Options) { o.Credentials = credentials.New(statetest.NewMemory(), time.Now) }, "/ui/sign-in 0"},
	} {
		v := with(tt.tune)
		v.carry(session)
		if got := v.get("/ui/tasks"); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// carry gives a browser the cookie of a session.
func (v visitor) carry(session string) {
	at := mustParse(v.t, v.page("/ui/"))
	_, cookie := sessionCookies(&http.Request{Host: at.Host})
	v.Jar.SetCookies(at, []*http.Cookie{{Name: cookie, Value: session, Path: "/ui/"}})
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestOpenID_AnswersBeginASessionOnlyInTheBrowserThatAskedAndOnce(t *testing.T) {
	p := openidtest.New(t)
	s := withProvider(t, p, nil)
	v := visit(t, s).stay()
	resp, err := v.Get(v.page("/ui/session/provider"))
	v.read(resp, err)
	cookie := resp.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/ui/session/callback" || cookie.MaxAge != 600 {
		t.Errorf("the cookie of the sign-in: %v", cookie)
	}
	at, err := v.Get(resp.Header.Get("Location"))
	v.read(at, err)
	answer := at.Header.Get("Location")

	stranger := visit(t, s)
	const over = "/ui/sign-in 0 this sign-in has ended"
	if got := stranger.read(stranger.Get(answer)); !strings.Contains(got, over) {
		t.Errorf("in another browser: %s", got)
	}
	if got := v.read(v.Get(strings.Replace(answer, "state=", "state=x", 1))); !strings.Contains(got, over) {
		t.Errorf("with another state: %s", got)
	}
	first, err := v.Get(answer)
	if got := v.read(first, err); !strings.Contains(got, `content="0;url=/ui/"`) || len(first.Cookies()) != 2 {
		t.Errorf("the first time: %s, %v", got, first.Cookies())
	}
	session := first.Cookies()[1]
	if !session.HttpOnly || session.SameSite != http.SameSiteStrictMode || session.MaxAge != 8*3600 {
		t.Errorf("the session: %v", session)
	}
	// With the same cookie, as if the browser had not removed it.
	r, _ := http.NewRequest(http.MethodGet, answer, nil)
	r.AddCookie(cookie)
	if got := stranger.read(stranger.Do(r)); !strings.Contains(got, over) {
		t.Errorf("the second time: %s", got)
	}
}

// Another server of the domain can set cookies without the beginning __Host- for this one, and so the sign-in of
// an attacker, who wants a viewer to work as them.
func TestOpenID_TheSignInOfAnAttackerIsNotTaken(t *testing.T) {
	p := openidtest.New(t)
	s := withProvider(t, p, func(o *Options) { o.OpenID.Redirect = "https://terrapulse.example.com/ui/session/callback" })
	attacker, victim := visit(t, s).stay(), visit(t, s)
	resp, err := attacker.Get(attacker.page("/ui/session/provider"))
	attacker.read(resp, err)
	flow := resp.Cookies()[0]
	at, err := attacker.Get(resp.Header.Get("Location"))
	attacker.read(at, err)
	back := strings.Replace(at.Header.Get("Location"), "https://terrapulse.example.com", victim.page(""), 1)
	for _, name := range []string{strings.TrimPrefix(flow.Name, "__Host-"), flow.Name} {
		r, _ := http.NewRequest(http.MethodGet, back, nil)
		r.AddCookie(&http.Cookie{Name: name, Value: flow.Value})
		resp, err := victim.Do(r)
		victim.read(resp, err)
		if signed := slices.ContainsFunc(resp.Cookies(), func(c *http.Cookie) bool { return strings.HasPrefix(c.Value, sessionStart) }); signed != (name == flow.Name) {
			t.Errorf("with the cookie %s: %v", name, resp.Cookies())
		}
	}
}

func TestOpenID_WhoHasNoRoleGetsNoSession(t *testing.T) {
	p, store := openidtest.New(t), statetest.NewMemory()
	s := withProvider(t, p, func(o *Options) {
		o.Credentials = credentials.New(store, time.Now)
		o.Policy = func() roles.Policy {
			return roles.Policy{Grants: []roles.Grant{{Roles: []roles.Role{roles.View}, To: []string{"group:network"}}}}
		}
	})
	for groups, want := range map[string]int{"network": 1, "strangers": 0} {
		p.Claim("groups", []string{groups})
		v := visit(t, s)
		got := v.follow(v.page("/ui/session/provider?next=/ui/tasks"))
		if signedIn := got == "/ui/tasks 1 user:alice@example.com"; signedIn != (want == 1) {
			t.Errorf("in %s: %s", groups, got)
		}
		all, err := store.List(t.Context(), "session/")
		if err != nil || len(all) != want {
			t.Errorf("in %s: %d sessions, %v", groups, len(all), err)
		}
		for _, rec := range all {
			if _, err := store.Apply(t.Context(), state.Delete(rec)); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantLogged(t, s.log, "user:alice@example.com needs the role view, and has none")
}

func TestOpenID_SaysWhyNobodyCanSignIn(t *testing.T) {
	p := openidtest.New(t)
	s := withProvider(t, p, nil)
	p.Answer(unavailable)
	v := visit(t, s)
	if got := v.read(v.Get(v.page("/ui/session/provider?next=/ui/runs"))); !strings.HasPrefix(got, "/ui/sign-in 0 the OpenID provider "+p.URL+" cannot be used now") {
		t.Errorf("while the provider is down: %s", got)
	}
	if got := v.signIn(actToken, "/ui/tasks"); got != "/ui/tasks 2 token:api.token" {
		t.Errorf("with a token, meanwhile: %s", got)
	}
}

func TestOpenID_ComesBackAtTheAddressOfThePages(t *testing.T) {
	p := openidtest.New(t)
	for _, tt := range []struct{ configured, want string }{
		{"", "http://127.0.0.1:%/ui/session/callback"},
		{"https://terrapulse.example.com/ui/session/callback", "https://terrapulse.example.com/ui/session/callback"},
	} {
		s := withProvider(t, p, func(o *Options) { o.OpenID.Redirect = tt.configured })
		v := visit(t, s).stay()
		resp, err := v.Get(v.page("/ui/session/provider"))
		v.read(resp, err)
		got := mustParse(t, resp.Header.Get("Location")).Query().Get("redirect_uri")
		if want := strings.Replace(tt.want, "%", mustParse(t, v.page("/")).Port(), 1); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		cookie := resp.Cookies()[0]
		if secure := strings.HasPrefix(got, "https"); cookie.Secure != secure || strings.HasPrefix(cookie.Name, "__Host-") != secure || secure && (cookie.Path != "/" || cookie.Domain != "") {
			t.Errorf("the cookie at %s: %v", got, cookie)
		}
		r, _ := http.NewRequest(http.MethodGet, v.page("/ui/session/provider"), nil)
		r.Host = "evil.example.com"
		if resp, err = v.Do(r); err != nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("at another host: %v, %v", resp, err)
		}
		resp.Body.Close()
	}
}

func TestOpenID_BearerTokens(t *testing.T) {
	p, other := openidtest.New(t), openidtest.New(t)
	s := withProvider(t, p, nil)
	ask := func(method, token string) *http.Response {
		r, _ := http.NewRequest(method, s.url("http"), nil)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := client(t, nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	v := visit(t, s)
	for _, tt := range []struct {
		claims map[string]any
		want   string
	}{
		{nil, "/v1/x 2 user:alice@example.com"},
		{map[string]any{"groups": nil}, "/v1/x 1 user:alice@example.com"},
		{map[string]any{"groups": []string{"admins"}}, "/v1/x 1 user:alice@example.com"}, // the configuration says who is in it
	} {
		if got := v.read(ask(http.MethodGet, p.Token(t, "terrapulse-cli", tt.claims)), nil); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.claims, got, tt.want)
		}
	}
	viewer := ask(http.MethodPost, p.Token(t, "terrapulse-cli", map[string]any{"groups": nil}))
	wantError(t, viewer, http.StatusForbidden, "user:alice@example.com may view, but needs the role operate")
	wantError(t, ask(http.MethodGet, other.Token(t, "terrapulse", nil)), http.StatusUnauthorized, "the ID token is not accepted")
	wantError(t, ask(http.MethodGet, "x"), http.StatusUnauthorized, "not valid here")
	for _, why := range []string{"the ID token is not accepted", "not valid here"} {
		if lines := regexp.MustCompile(`had a wrong token.* error="[^"]*`+why).FindAllString(s.log.String(), -1); len(lines) != 1 {
			t.Errorf("the log has %d lines of a wrong token with the error %q", len(lines), why)
		}
	}

	// A provider that is down is nobody's fault.
	down := withProvider(t, other, nil)
	other.Answer(unavailable)
	s = down
	wantError(t, ask(http.MethodGet, other.Token(t, "terrapulse", nil)), http.StatusServiceUnavailable, "cannot be used now")
	wantNoGuess(s)
	if got := v.read(ask(http.MethodGet, actToken), nil); got != "/v1/x 2 token:api.token" {
		t.Errorf("a token, meanwhile: %s", got)
	}
}
