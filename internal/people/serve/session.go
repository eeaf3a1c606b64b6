package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
)

// Paths below Options.Pages.
const (
	signInPath  = "sign-in" // shows the form for a token
	sessionPath = "session" // takes the token or the code of an invitation, and sets the cookie
	signOutPath = "session/end"
	newsPath    = "news"    // the stream of an open page
	staticPath  = "static/" // files that are the same for everybody
)

// sessionTime is how long a session lasts. It ends earlier if its token is changed.
const sessionTime = 12 * time.Hour

// maxEnded is how many sessions that were signed out are remembered.
const maxEnded = 10_000

// sessionCookies are the names of the cookie: one over TLS, which browsers accept from this very host
// only, and one without TLS. Browsers send a cookie to every port of a host, so that the name has
// the port: two servers on one machine keep their sessions apart.
func sessionCookies(r *http.Request) (secure, plain string) {
	name := "terrapulse"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			name = fmt.Sprintf("terrapulse-%d", n)
		}
	}
	return "__Host-" + name, name
}

// onPage reports whether a request is for a page, which has a path below Options.Pages.
func (g *guard) onPage(r *http.Request) (path string, ok bool) {
	if g.pagesAt == "" {
		return "", false
	}
	return strings.CutPrefix(r.URL.Path, g.pagesAt)
}

// session answers the requests that begin and end a session, and reports whether it did. A session of
// a token of the configuration is a cookie that the token signs: nothing is kept, so that it is valid on
// every instance with the same token. Other sessions are kept in the store.
func (g *guard) session(w *answer, r *http.Request) bool {
	path, ok := g.onPage(r)
	switch {
	case ok && path == sessionPath && r.Method == http.MethodGet && g.invitations != nil:
		g.accept(w, r)
	case ok && path == sessionPath && r.Method == http.MethodPost:
		if !g.readBody(w, r) {
			return true
		}
		next := g.destination(r.PostFormValue("next"))
		caller, token, err := g.byToken(r, strings.TrimSpace(r.PostFormValue("token")), g.policy())
		switch {
		case errors.As(err, new(storeError)):
			w.refuse(r, http.StatusServiceUnavailable, err.Error()+": try again")
		case err != nil:
			w.redirect(r, g.form(next)+"&wrong=1")
		default:
			g.begin(w, r, caller, token, next)
		}
	case ok && path == providerPath && r.Method == http.MethodGet && g.people != nil:
		g.toProvider(w, r)
	case ok && path == callbackPath && r.Method == http.MethodGet && g.people != nil:
		g.fromProvider(w, r)
	case ok && path == leavePath && r.Method == http.MethodGet && g.people != nil:
		g.leaveProvider(w, r)
	case ok && path == signOutPath && r.Method == http.MethodPost:
		g.signOut(w, r)
	default:
		return false
	}
	return true
}

// begin begins a session of who has sent a token, which is nil if the configuration has it.
func (g *guard) begin(w *answer, r *http.Request, c access.Caller, token *credentials.Token, next string) {
	cookie, lasts, err := g.newSession(r.Context(), c, token)
	if err != nil {
		w.refuse(r, http.StatusServiceUnavailable, "sign in: "+err.Error()+": try again")
		return
	}
	g.log.Info("a viewer signed in to the pages", "client", r.RemoteAddr, "by", c.Name)
	_, _ = g.endSessions(r) // the previous one, whose cookie is replaced
	g.setCookie(w, r, cookie, int(lasts/time.Second))
	w.redirect(r, next)
}

// signOut ends the session of a viewer. If the OpenID provider began it, the form says that the session there
// remains.
func (g *guard) signOut(w *answer, r *http.Request) {
	atProvider, err := g.endSessions(r)
	if err != nil { // it would stay valid
		w.refuse(r, http.StatusServiceUnavailable, err.Error()+": try again")
		return
	}
	g.setCookie(w, r, "", -1)
	to := g.pagesAt + signInPath
	if atProvider {
		to = g.signedOut(g.people.Provider.SignsOut())
	}
	w.redirect(r, to)
}

// setCookie sets the cookie of a session; with a negative age it removes it. A browser behind a proxy
// that ends TLS says so in the header Origin, which it sends with a form.
func (g *guard) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	g.writeCookie(w, r, value, age, strings.HasPrefix(r.Header.Get("Origin"), "https://"))
}

func (g *guard) writeCookie(w http.ResponseWriter, r *http.Request, value string, age int, overTLS bool) {
	secure, plain := sessionCookies(r)
	cookie := http.Cookie{Value: value, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if overTLS || r.TLS != nil {
		cookie.Name, cookie.Path, cookie.Secure = secure, "/", true
	} else {
		cookie.Name, cookie.Path = plain, g.pagesAt
	}
	http.SetCookie(w, &cookie)
}

// destination returns where a viewer goes after signing in: to a page of this server only.
func (g *guard) destination(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Host != "" || u.Scheme != "" || strings.Contains(to, `\`) || !strings.HasPrefix(path.Clean(u.Path)+"/", g.pagesAt) ||
		strings.HasPrefix(path.Clean(u.Path), g.pagesAt+sessionPath) {
		return g.pagesAt
	}
	return to
}

// form is the address of the form for a token, which leads to a page.
func (g *guard) form(next string) string {
	return g.pagesAt + signInPath + "?" + url.Values{"next": {next}}.Encode()
}

// signIn sends a viewer without a session to the form, and reports whether it did.
func (g *guard) signIn(w *answer, r *http.Request) bool {
	path, ok := g.onPage(r)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case !ok || path == newsPath: // a script would take the form for events
		return false
	case !reads && r.Method != http.MethodPost:
		return false
	case !reads: // a button whose page was open when the session ended
		from, _ := url.Parse(r.Referer())
		if from == nil || from.Host != r.Host {
			return false
		}
		w.redirect(r, g.form(g.destination(from.RequestURI())))
	case r.Header.Get("HX-Request") != "": // an open page whose session has ended
		w.Header().Set("HX-Redirect", g.form(r.URL.RequestURI()))
		w.WriteHeader(http.StatusNoContent)
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate":
		w.again()
	default:
		w.redirect(r, g.form(r.URL.RequestURI()))
	}
	return true
}

// again lets the browser request the same page once more. A browser keeps the cookie back when a
// page of another site, for example a chat, links here. It sends it when this server's own page leads
// there.
func (a *answer) again() {
	a.page("0")
}

// redirect sends a browser to a path of this server.
func (a *answer) redirect(r *http.Request, to string) {
	a.Header().Set("Cache-Control", "no-store")
	http.Redirect(a, r, to, http.StatusSeeOther)
}

// open reports whether a request needs no token.
func (g *guard) open(r *http.Request) bool {
	path, ok := g.onPage(r)
	leads := g.pagesAt != "" && (r.URL.Path == "/" || r.URL.Path+"/" == g.pagesAt) // to the pages
	return ok && (path == signInPath || strings.HasPrefix(path, staticPath)) || leads || r.URL.Path == g.public || g.login != "" && r.URL.Path == g.login
}

// session returns the cookie of a new session.
func (t *tokens) session(c access.Caller) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.all {
		if one.caller().Name == c.Name {
			signed := fmt.Sprintf("%s.%s.%d", one.Key, rand.Text(), t.now().Add(sessionTime).Unix())
			return signed + "." + one.sign(signed)
		}
	}
	return ""
}

// ofSession returns who has begun the session of a request; errNoToken if it has no valid session.
func (t *tokens) ofSession(r *http.Request) (access.Caller, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cookie := range cookiesOf(r) {
		if one, _ := t.valid(cookie.Value); one != nil {
			c := one.caller()
			c.Session = true
			return c, nil
		}
	}
	return access.Caller{}, errNoToken
}

// end ends the sessions of a request on this instance.
func (t *tokens) end(r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.ended, func(_ string, until time.Time) bool { return !t.now().Before(until) })
	for _, cookie := range cookiesOf(r) {
		if one, until := t.valid(cookie.Value); one != nil && len(t.ended) < maxEnded {
			t.ended[cookie.Value] = until
		}
	}
}

// valid returns the token of a session and when the session expires; nil if it is not valid.
func (t *tokens) valid(session string) (*token, time.Time) {
	signed, mac := cutLast(session)
	rest, expires := cutLast(signed)
	key, _ := cutLast(rest)
	seconds, err := strconv.ParseInt(expires, 10, 64)
	until := time.Unix(seconds, 0)
	if _, ended := t.ended[session]; ended || err != nil || !t.now().Before(until) {
		return nil, time.Time{}
	}
	for _, one := range t.all {
		one.current(t.log)
		if one.Key == key && hmac.Equal([]byte(mac), []byte(one.sign(signed))) {
			return one, until
		}
	}
	return nil, time.Time{}
}

// cookiesOf returns the cookies of a request that may be sessions. Another server of the same domain
// can add cookies of the same name.
func cookiesOf(r *http.Request) []*http.Cookie {
	secure, plain := sessionCookies(r)
	return append(r.CookiesNamed(secure), r.CookiesNamed(plain)...)
}

// sign signs a text with the token.
func (t *token) sign(text string) string {
	mac := hmac.New(sha256.New, t.sum[:])
	fmt.Fprintf(mac, "terrapulse session\x00%t\x00%s", t.acts, text)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// cutLast cuts a text at its last dot.
func cutLast(text string) (before, after string) {
	i := strings.LastIndexByte(text, '.')
	return text[:max(i, 0)], text[i+1:]
}

// invitations are addresses that begin a session without the form, each once. Addresses remain in
// the history of a browser and in lists of processes: there, one that was used is worth nothing.
type invitations struct {
	send func(path string)

	mu   sync.Mutex
	code string // of the one that is valid
}

// next sends a new invitation, which replaces the previous one.
func (i *invitations) next(pagesAt string) {
	i.mu.Lock()
	i.code = rand.Text()
	path := pagesAt + sessionPath + "?" + url.Values{"code": {i.code}}.Encode()
	i.mu.Unlock()
	i.send(path)
}

// take reports whether a code is that of the invitation, which is void then.
func (i *invitations) take(code string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.code == "" || subtle.ConstantTimeCompare([]byte(code), []byte(i.code)) != 1 {
		return false
	}
	i.code = ""
	return true
}

// accept begins the session of an invitation, with the rights of the token that may act.
func (g *guard) accept(w *answer, r *http.Request) {
	_, err := g.tokens.ofSession(r)
	switch {
	case g.invitations.take(r.URL.Query().Get("code")):
		g.begin(w, r, access.Caller{Identity: identity.OfToken(g.tokens.act)}, nil, g.pagesAt)
		g.invitations.next(g.pagesAt)
	case err == nil:
		w.redirect(r, g.pagesAt) // the address was opened again
	default:
		w.redirect(r, g.form(g.pagesAt)+"&wrong=1")
	}
}
