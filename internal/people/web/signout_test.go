package web_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/openid"
	"github.com/terrapulse/terrapulse/internal/people/openid/openidtest"
	"github.com/terrapulse/terrapulse/internal/people/serve"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// signedInAt serves pages to which people sign in at a provider, and returns their address.
func signedInAt(t *testing.T, p *openidtest.Provider) string {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	provider, err := openid.New(openid.Options{Issuer: p.URL, ClientID: "terrapulse", UsernameClaim: "email", GroupsClaim: "groups"})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	pages := web.New(t.Context(), web.Options{API: apiclient.Local(apiOn(t, store, tasksOnWeb("web"))), Provider: "sso.example.com", Now: time.Now, Log: log})
	server, err := serve.Listen(t.Context(), serve.Options{Address: "127.0.0.1", Handler: pages, Pages: outbox.PagesPath, Log: log, Credentials: credentials.New(store, time.Now),
		Token:  serve.Token{Key: "api.token", Value: actToken},
		OpenID: &serve.OpenID{Provider: provider, Session: time.Hour},
		Policy: func() roles.Policy { return roles.Policy{Grants: []roles.Grant{grant(roles.View, "user:*")}} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(background.Run(t.Context(), func(ctx context.Context) { _ = server.Serve(ctx) }))
	return "http://" + server.Addr().String()
}

func TestSignOut_OffersToEndTheSessionAtTheProviderToo(t *testing.T) {
	p := openidtest.New(t)
	p.Offer("end_session_endpoint", p.URL+"/end")
	address := signedInAt(t, p)
	b := browsertest.New(t)
	b.Open(address + "/ui/tasks")
	b.Until("Sign in at sso.example.com")
	b.Click("Sign in at sso.example.com")
	b.Until("All tasks")
	b.Click("Sign out")
	b.Until("You have signed out of Terrapulse.", "You may still be signed in at sso.example.com in this browser", "Sign out at sso.example.com, too")
	b.Accessible()
	b.Click("Sign out at sso.example.com, too")
	deadline := time.Now().Add(time.Minute)
	for len(p.Ended()) == 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if all := p.Ended(); len(all) != 1 || all[0].Get("client_id") != "terrapulse" || len(all[0]) != 1 {
		t.Errorf("the provider was asked to end the session with %v", all)
	}
}

func TestSignOut_SaysThatOnlyTheProviderEndsItsSession(t *testing.T) {
	b := browsertest.New(t)
	b.Open(signedInAt(t, openidtest.New(t)) + "/ui/tasks")
	b.Until("Sign in at sso.example.com")
	b.Click("Sign in at sso.example.com")
	b.Until("All tasks")
	b.Click("Sign out")
	b.Until("You may still be signed in at sso.example.com in this browser", "Terrapulse cannot end that session: sign out at sso.example.com.")
	if text := b.Text("main"); strings.Contains(text, "too") {
		t.Errorf("it offers what the provider does not: %s", text)
	}
}

func TestSignOut_ALinkOfAnotherSiteSaysNothing(t *testing.T) {
	pages := web.New(t.Context(), web.Options{Provider: "sso.example.com", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	for site, says := range map[string]bool{"same-origin": true, "": true, "cross-site": false, "same-site": false} {
		r := httptest.NewRequestWithContext(access.With(t.Context(), access.Caller{}), http.MethodGet, "/ui/sign-in?remains=1&leave=1", nil)
		r.Header.Set("Sec-Fetch-Site", site)
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		r.Header.Set("Sec-Fetch-Dest", "document")
		answer := httptest.NewRecorder()
		pages.ServeHTTP(answer, r)
		if page := answer.Body.String(); strings.Contains(page, "You have signed out") != says || strings.Contains(page, `href="/ui/session/provider/end"`) != says {
			t.Errorf("a link from %q says that the viewer has signed out: %v\n%s", site, !says, page)
		}
	}
}
