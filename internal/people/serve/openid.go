package serve

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/openid"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// Paths below Options.Pages with which people sign in at an OpenID provider.
const (
	providerPath = "session/provider"     // sends the browser to the provider
	callbackPath = "session/callback"     // where the provider sends it back
	leavePath    = "session/provider/end" // sends the browser to where it signs out at the provider
)

// CallbackPath is where a provider sends browsers back, below the path of the pages.
const CallbackPath = callbackPath

// flowTime is how long a person may take to sign in at the provider.
const flowTime = 10 * time.Minute

// maxFlow is the length of a cookie that every browser takes, with its attributes.
const maxFlow = 3800

// OpenID is an OpenID provider at which people sign in.
type OpenID struct {
	Provider *openid.Provider
	// Redirect is the address of CallbackPath; "" to make it from each request.
	Redirect string
	// Session is how long a person is signed in.
	Session time.Duration
}

// people are those whom an OpenID provider signs in. Their sessions are kept with those of named tokens.
type people struct {
	OpenID
	now func() time.Time

	mu   sync.Mutex
	over map[string]time.Time // states of sign-ins that have ended, until their cookie expires
}

// newPeople returns nil if there is no provider.
func newPeople(o *OpenID) *people {
	if o == nil {
		return nil
	}
	return &people{OpenID: *o, now: time.Now, over: map[string]time.Time{}}
}

// name is the provider with what decides the names that it gives: a session of another one is not valid.
func (p *people) name() string {
	if p == nil {
		return ""
	}
	o := p.Provider.Options
	return strings.Join([]string{o.Issuer, o.ClientID, o.UsernameClaim, o.GroupsClaim}, " ")
}

// end ends a sign-in on this instance. It reports false if it had ended already.
func (p *people) end(state string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.over, func(_ string, until time.Time) bool { return !p.now().Before(until) })
	if _, ended := p.over[state]; ended {
		return false
	}
	if len(p.over) < maxEnded {
		p.over[state] = p.now().Add(flowTime)
	}
	return true
}

// begun is a sign-in that has begun, as its cookie keeps it: on any instance, the provider's answer then fits the
// browser. It needs no signature: anybody can get a cookie of their own sign-in.
type begun struct {
	openid.Flow
	Next  string `json:"t"` // the page to which it leads
	Until int64  `json:"u"` // Unix time
}

func (b begun) seal() string {
	text, _ := json.Marshal(b) // texts and a number
	return base64.RawURLEncoding.EncodeToString(text)
}

// flow returns the sign-in of a request with a state, and ends it.
func (p *people) flow(r *http.Request, state string, secure bool) (flow begun, ok bool) {
	for _, cookie := range r.CookiesNamed(flowCookie(r, state, secure)) {
		var one begun
		text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
		if err == nil && json.Unmarshal(text, &one) == nil && one.State == state && state != "" && p.now().Before(time.Unix(one.Until, 0)) && p.end(state) {
			return one, true
		}
	}
	return begun{}, false
}

// flowCookie is the name of the cookie of a sign-in. Several can be under way in a browser. With TLS, no other
// server of the domain can set it: it could sign the viewer in as somebody else.
func flowCookie(r *http.Request, state string, secure bool) string {
	overTLS, name := sessionCookies(r)
	if secure {
		name = overTLS
	}
	return name + "-" + state[:min(len(state), 8)]
}

// setFlow sets the cookie of a sign-in; with a negative age it removes it. The provider is another site: its
// answer comes without cookies that are SameSite=Strict.
func (g *guard) setFlow(w http.ResponseWriter, r *http.Request, state, value string, age int) {
	secure := g.comesBackOverTLS(r)
	cookie := http.Cookie{Name: flowCookie(r, state, secure), Value: value, Path: g.pagesAt + callbackPath, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if secure {
		cookie.Path, cookie.Secure = "/", true // as the beginning of the name demands
	}
	http.SetCookie(w, &cookie)
}

// comesBackOverTLS reports whether browsers come back from the provider over TLS, perhaps through a proxy.
func (g *guard) comesBackOverTLS(r *http.Request) bool {
	return strings.HasPrefix(g.callback(r), "https:")
}

// callback is the address at which the browser comes back.
func (g *guard) callback(r *http.Request) string {
	if g.people.Redirect != "" {
		return g.people.Redirect
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + g.pagesAt + callbackPath
}

// toProvider sends the browser to the OpenID provider.
func (g *guard) toProvider(w *answer, r *http.Request) {
	next := g.destination(r.URL.Query().Get("next"))
	address, flow, err := g.people.Provider.Begin(r.Context(), g.callback(r))
	if err != nil {
		g.notSignedIn(w, r, next, err)
		return
	}
	sealed := begun{flow, next, g.people.now().Add(flowTime).Unix()}.seal()
	if len(sealed) > maxFlow {
		sealed = begun{flow, g.pagesAt, g.people.now().Add(flowTime).Unix()}.seal()
	}
	g.setFlow(w, r, flow.State, sealed, int(flowTime/time.Second))
	w.redirect(r, address)
}

// fromProvider begins the session of a person whom the OpenID provider sends back.
func (g *guard) fromProvider(w *answer, r *http.Request) {
	query := r.URL.Query()
	secure := g.comesBackOverTLS(r)
	flow, valid := g.people.flow(r, query.Get("state"), secure)
	if !valid { // the browser has loaded the page again, or the link is from elsewhere
		g.notSignedIn(w, r, g.pagesAt, errors.New("this sign-in has ended, took longer than 10 minutes, or began in another browser: sign in again"))
		return
	}
	g.setFlow(w, r, flow.State, "", -1)
	who, err := g.people.Provider.Finish(r.Context(), flow.Flow, query)
	var session string
	if err == nil { // a provider may sign in anybody: those without a role need no session
		err = callerOf(who, g.policy()).NeedAny(roles.View)
	}
	if err == nil {
		now := g.people.now()
		session, err = g.credentials.Begin(r.Context(), credentials.Session{Identity: who, Began: now, Expires: now.Add(g.people.Session), Provider: g.people.name()})
	}
	if err != nil {
		g.log.Warn("somebody could not sign in with the OpenID provider", "client", r.RemoteAddr, "error", err)
		g.notSignedIn(w, r, flow.Next, err)
		return
	}
	g.log.Info("a viewer signed in to the pages", "client", r.RemoteAddr, "by", who.Name)
	_, _ = g.endSessions(r) // the previous one, whose cookie is replaced
	g.writeCookie(w, r, sessionStart+session, int(g.people.Session/time.Second), secure)
	w.lead(g.destination(flow.Next))
}

// signedOut is the address of the form after a sign-out, which says that the session at the provider may
// remain. It leads to where that one ends, if the provider has such an address.
func (g *guard) signedOut(ends bool) string {
	query := url.Values{"remains": {"1"}}
	if ends {
		query.Set("leave", "1")
	}
	return g.pagesAt + signInPath + "?" + query.Encode()
}

// leaveProvider sends the browser to where it ends its session at the OpenID provider. Only a page of this
// server may do that.
func (g *guard) leaveProvider(w *answer, r *http.Request) {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		w.redirect(r, g.pagesAt+signInPath)
		return
	}
	address, err := g.people.Provider.SignOut(r.Context())
	if err != nil {
		g.log.Warn("the OpenID provider cannot be used to sign out", "client", r.RemoteAddr, "error", err)
	}
	if address == "" {
		w.redirect(r, g.signedOut(false))
		return
	}
	w.redirect(r, address)
}

// notSignedIn shows the form again, with why somebody was not signed in. The text is in no address: a link
// from elsewhere could put other words there.
func (g *guard) notSignedIn(w *answer, r *http.Request, next string, err error) {
	form := r.WithContext(access.With(r.Context(), access.Caller{NotSignedIn: err.Error()}))
	form.URL = &url.URL{Path: g.pagesAt + signInPath, RawQuery: url.Values{"next": {next}}.Encode()}
	g.next.ServeHTTP(w, form)
}

// lead lets the browser request a path of this server: after an answer of another site, it sends the
// cookie of the session only with a request that a page of this server makes.
func (a *answer) lead(to string) {
	a.page(fmt.Sprintf("0;url=%s", to))
}

// page is a page that only leads to another one.
func (a *answer) page(refresh string) {
	h := a.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer") // the address may have a code
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(a, "<!doctype html><meta http-equiv=\"refresh\" content=\"%s\"><title>Terrapulse</title>\n", html.EscapeString(refresh)) // an error means that the client has gone
}

// verify returns who sends an ID token. Wrong ones are logged.
func (g *guard) verify(r *http.Request, token string) (identity.Identity, error) {
	who, err := g.people.Provider.Verify(r.Context(), token)
	if errors.As(err, new(*openid.TokenError)) {
		err = g.tokens.wrong(r, err)
	}
	return who, err
}
