package serve

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/access"
)

// Paths below Options.Pages.
const (
	signInPath  = "sign-in" // shows the form for a token
	sessionPath = "session" // takes the token, and sets the cookie
	signOutPath = "session/end"
	staticPath  = "static/" // files that are the same for everybody
)

// sessionTime is how long a session lasts. It ends earlier if its token is changed.
const sessionTime = 12 * time.Hour

// sessionCookie is the name of the cookie. Browsers accept the prefix only for cookies
// that are sent over TLS.
func sessionCookie(r *http.Request) string {
	if r.TLS != nil {
		return "__Secure-terrapulse"
	}
	return "terrapulse"
}

// onPage reports whether a request is for a page, which has a path below Options.Pages.
func (g *guard) onPage(r *http.Request) (path string, ok bool) {
	if g.pagesAt == "" {
		return "", false
	}
	return strings.CutPrefix(r.URL.Path, g.pagesAt)
}

// session answers the requests that begin and end a session, and reports whether it
// did. A session is a cookie, which a page's token signs: nothing is kept, so that it
// holds on every instance with the same token.
func (g *guard) session(w *answer, r *http.Request) bool {
	path, ok := g.onPage(r)
	if !ok || path != sessionPath && path != signOutPath || r.Method != http.MethodPost && r.Method != http.MethodGet {
		return false
	}
	if !g.readBody(w, r) {
		return true
	}
	cookie := &http.Cookie{Name: sessionCookie(r), Path: g.pagesAt, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode, MaxAge: -1}
	next := g.pagesAt + signInPath
	if path == sessionPath {
		next = g.destination(r.FormValue("next"))
		value, err := g.tokens.begin(r, r.FormValue("token"))
		if err != nil {
			http.Redirect(w, r, g.pagesAt+signInPath+"?"+url.Values{"wrong": {"1"}, "next": {next}}.Encode(), http.StatusSeeOther)
			return true
		}
		cookie.Value, cookie.MaxAge = value, int(sessionTime/time.Second)
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, next, http.StatusSeeOther)
	return true
}

// destination returns where a viewer goes after signing in: to a page of this server only.
func (g *guard) destination(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, g.pagesAt) || strings.Contains(path, `\`) {
		return g.pagesAt
	}
	return path
}

// signIn sends a viewer without a session to the form, and reports whether it did.
func (g *guard) signIn(w http.ResponseWriter, r *http.Request) bool {
	if _, ok := g.onPage(r); !ok || r.Method != http.MethodGet {
		return false
	}
	form := g.pagesAt + signInPath + "?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
	if r.Header.Get("HX-Request") != "" { // an open page whose session has ended
		w.Header().Set("HX-Redirect", form)
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	http.Redirect(w, r, form, http.StatusSeeOther)
	return true
}

// open reports whether a request needs no token.
func (g *guard) open(r *http.Request) bool {
	path, ok := g.onPage(r)
	return ok && (path == signInPath || strings.HasPrefix(path, staticPath)) || r.URL.Path == g.public
}

// begin returns the cookie of a session for a viewer with this token.
func (t *tokens) begin(r *http.Request, value string) (string, error) {
	check := r.Clone(r.Context())
	check.Header.Set("Authorization", "Bearer "+value)
	_, key, err := t.level(check)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.all {
		if one.Key == key {
			until := strconv.FormatInt(t.now().Add(sessionTime).Unix(), 10)
			return key + "." + until + "." + one.sign(key+"."+until), nil
		}
	}
	return "", errWrongToken
}

// ofSession returns the level of a request by its session, and the configuration key
// of the session's token; errNoToken if it has no valid session.
func (t *tokens) ofSession(r *http.Request) (level access.Level, key string, err error) {
	cookie, err := r.Cookie(sessionCookie(r))
	if err != nil {
		return access.None, "", errNoToken
	}
	signed, mac := cutLast(cookie.Value)
	key, until := cutLast(signed)
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil || t.now().Unix() >= end {
		return access.None, "", errNoToken
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.all {
		one.current(t.log)
		if one.Key == key && hmac.Equal([]byte(mac), []byte(one.sign(signed))) {
			return one.level, key, nil
		}
	}
	return access.None, "", errNoToken
}

// sign signs a text with the token.
func (t *token) sign(text string) string {
	mac := hmac.New(sha256.New, t.sum[:])
	fmt.Fprintf(mac, "terrapulse session\x00%d\x00%s", t.level, text)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// cutLast cuts a text at its last dot.
func cutLast(text string) (before, after string) {
	i := strings.LastIndexByte(text, '.')
	return text[:max(i, 0)], text[i+1:]
}
