package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// view is what one page shows.
type view struct {
	title    string
	template string  // of its content
	data     any     // also the answer to a request for JSON
	topic    string  // task that the page is about; "" if it shows them all
	still    bool    // the page never changes
	again    string  // how often the page is asked for again, such as "1s", until nothing more happens on it; "" for when its topic changes
	quiet    bool    // some of what it shows changes without news
	shown    digests // of the overview that the page shows; nil if it shows none
	seen     string  // digest of the topic in shown
}

// frame is what the layout shows around a view.
type frame struct {
	Title, Section, Stack, Version, Build, Nonce string

	URL     string // of this page with its query
	JSON    string // of the same as JSON
	Events  string // stream that sends news to the page; "" if it never changes
	Trigger string // when htmx reads the content of the page again
	Icon    string
	Viewer  viewer
	Notice  string // what the viewer has just done
	Now     time.Time
	Data    any

	Attention attention
}

// viewer is who looks at a page.
type viewer struct {
	Name   string
	MayAct bool
	// Administers is set if the viewer may do what concerns all tasks.
	Administers bool
	// Operates is set if the viewer may ask what would happen to all tasks.
	Operates bool
	// Roles are those of the viewer, in words.
	Roles string
	// Session is set if the viewer has signed in, and can sign out.
	Session bool
	SignIn  string // where the viewer can sign in; "" if that is not possible or done
}

var templates = parse()

func parse() *template.Template {
	t := template.New("").Funcs(functions)
	t.Funcs(template.FuncMap{"content": func(f frame) (template.HTML, error) {
		var b bytes.Buffer
		err := t.ExecuteTemplate(&b, f.Section, f)
		return template.HTML(b.String()), err // its own template has escaped it
	}})
	return template.Must(t.ParseFS(files, "templates/*.html"))
}

// page shows a view as HTML, or as JSON if the path ends with .json.
func (p *pages) page(show func(*http.Request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		before := p.source.seen()
		v, err := show(r)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		if v.shown == nil {
			v.shown = before
		}
		v.seen = v.shown[v.topic]
		p.render(w, r, http.StatusOK, v)
	}
}

func (p *pages) render(w http.ResponseWriter, r *http.Request, status int, v view) {
	h := w.Header()
	if asJSON(r) {
		h.Set("Content-Type", "application/json")
		w.WriteHeader(status)
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(v.data) // an error means that the client has gone
		return
	}
	nonce := rand.Text()
	h.Set("Content-Security-Policy", policy(nonce))
	h.Set("Vary", "HX-Request")
	needs := attention{} // strangers, who may only sign in, learn nothing
	if access.Of(r.Context()).Rights.MayAny(roles.View) {
		needs = p.attention()
	}
	by := p.Viewer(r)
	f := frame{
		Attention: needs, Icon: needs.icon(p.version), Now: p.Now(),
		Title: v.title, Section: v.template, Stack: p.Stack, Version: p.version, Build: p.build, Nonce: nonce, JSON: jsonURL(r),
		Viewer: viewer{Name: by.Name, MayAct: by.Rights.Acts(), Administers: by.Rights.MayAll(roles.Administer), Operates: by.Rights.MayAll(roles.Operate), Roles: by.Rights.String(), Session: access.Of(r.Context()).Session},
		Data:   v.data,
	}
	if p.Provider != "" && !f.Viewer.Session && v.template != "sign-in" {
		f.Viewer.SignIn = pageURL("sign-in?") + url.Values{"next": {r.URL.RequestURI()}}.Encode()
	}
	f.Notice, f.URL = notice(r, f.Now)
	switch {
	case v.still:
	case v.again != "":
		f.Trigger = "every " + v.again
	default:
		f.Trigger = "changed from:#news"
		if v.quiet {
			f.Trigger += ", every 30s"
		}
		if f.Notice != "" {
			f.Trigger += fmt.Sprintf(", every %ds", int(noticeTime.Seconds())+1) // then the page is shown without it
		}
		f.Events = pageURL("news?") + url.Values{"topic": {v.topic}, "seen": {v.seen}}.Encode()
	}
	name := "layout"
	if r.Header.Get("HX-Request") == "true" {
		name = "update" // the page is there already and brings itself up to date
	}
	p.execute(w, r, status, name, f)
}

// fragment sends a part of a page.
func (p *pages) fragment(w http.ResponseWriter, r *http.Request, name string, data func(nonce string) any) {
	nonce := rand.Text()
	w.Header().Set("Content-Security-Policy", policy(nonce))
	p.execute(w, r, http.StatusOK, name, data(nonce))
}

func (p *pages) execute(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, data); err != nil {
		p.Log.Error("a page cannot be shown: please report this bug in Terrapulse", "path", r.URL.Path, "error", err)
		http.Error(w, "internal error, see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(revealed(page.Bytes())) // an error means that the client has gone
}

// jsonSuffix of a path asks for what a page shows as JSON.
const jsonSuffix = ".json"

type jsonKey struct{}

// suffixed serves a path with the suffix as the path without it.
func suffixed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutSuffix(r.URL.Path, jsonSuffix); ok && !strings.HasPrefix(path, pageURL("static/")) {
			r = r.WithContext(context.WithValue(r.Context(), jsonKey{}, true))
			u := *r.URL
			u.Path, u.RawPath = path, strings.TrimSuffix(u.EscapedPath(), jsonSuffix)
			r.URL = &u
		}
		next.ServeHTTP(w, r)
	})
}

func asJSON(r *http.Request) bool { return r.Context().Value(jsonKey{}) != nil }

// jsonURL is the address of a page as JSON.
func jsonURL(r *http.Request) string {
	u := *r.URL
	u.Path, u.RawPath = u.Path+jsonSuffix, u.EscapedPath()+jsonSuffix
	return u.RequestURI()
}

var errNoPage = errors.New("there is no such page")

// fail shows why there is no page.
func (p *pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	p.render(w, middleware.WithID(r), statusOf(err), view{title: "Error", template: "error", still: r.Method != http.MethodGet || statusOf(err) == http.StatusNotFound || statusOf(err) == http.StatusForbidden, again: "5s", data: map[string]any{"error": err.Error()}})
}

// statusOf is the status of an answer that says why something was not done.
func statusOf(err error) int {
	var refused *apiclient.Error
	var denied *access.Refused
	switch {
	case errors.Is(err, errNoPage):
		return http.StatusNotFound
	case errors.As(err, &denied):
		return http.StatusForbidden
	case errors.Is(err, errNoPlan), errors.Is(err, errNoRun), errors.Is(err, errNoComment), errors.Is(err, errNothingGone):
		return http.StatusBadRequest
	case errors.Is(err, errRunChanged), errors.Is(err, errNotAll), errors.Is(err, errReplacedChanged):
		return http.StatusConflict
	case errors.As(err, &refused) && refused.Status >= http.StatusBadRequest:
		return refused.Status
	}
	return http.StatusBadGateway
}

// noticeTime is how long a page says what the viewer has done. Later, another plan may
// wait on the open page, which nobody has approved.
const noticeTime = time.Minute

// notice is what a page says after the viewer has acted, and the address of the page. A
// link from elsewhere must not say that a plan was approved.
func notice(r *http.Request, now time.Time) (text, address string) {
	query := r.URL.Query()
	at, _ := strconv.ParseInt(query.Get("at"), 10, 64)
	site, age := r.Header.Get("Sec-Fetch-Site"), now.Sub(time.Unix(at, 0)).Abs()
	if !query.Has("done") || age < noticeTime && (site == "same-origin" || site == "") {
		return notices[query.Get("done")], r.URL.RequestURI()
	}
	query.Del("done")
	query.Del("at")
	u := *r.URL
	u.RawQuery = query.Encode()
	return "", u.RequestURI()
}
