// Package web serves pages that show what every task does and why, and on which
// people approve, reject, hold and run tasks.
//
// The pages read and act through the HTTP API: in `terrapulse start` by calls inside the
// process, in `terrapulse ui` by requests to a deployment in AWS. They work
// without JavaScript; with it they stay up to date.
package web

import (
	"cmp"
	"context"
	"embed"
	"log/slog"
	"net/http"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// Options are what the pages work on.
type Options struct {
	// API is where the pages read and act. Its requests get the context of the
	// viewer's request, with the sender.
	API *apiclient.Client
	// Poll is how often the API is asked for news while a page is open, by default
	// every 2 seconds: one request, however many pages there are. Pages are told when
	// something has changed.
	Poll time.Duration
	// Rest is the same while nothing has changed for 5 minutes; by default Poll.
	Rest time.Duration
	// Stack is the name of the deployment that the pages show; "" for this instance.
	Stack string
	// Viewer returns who looks at a page, and what they may do; by default, as the server says that
	// has checked the request.
	Viewer func(*http.Request) access.Caller
	// Provider is the name of the OpenID provider at which people sign in; "" if there is none.
	Provider string
	Version  string
	Now      func() time.Time
	Log      *slog.Logger
}

// pages is the handler of all pages for viewers who may view the same tasks.
type pages struct {
	Options
	source  *source
	news    *news
	version string  // of the static files
	build   string  // of these and the templates
	all     *scopes // the handlers for other viewers, too
}

//go:embed templates static
var files embed.FS

// New returns the handler of the pages, all of which are below outbox.PagesPath. Streams to
// pages end with ctx.
func New(ctx context.Context, o Options) http.Handler {
	s := &scopes{ctx: ctx, Options: o, kept: map[string]*scope{}, turn: make(chan struct{}, 1)}
	if o.Viewer == nil {
		s.Viewer = access.Sender
	}
	if s.each = o.Viewer == nil; !s.each {
		return s.of(access.Caller{Rights: roles.Viewing()})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.of(access.Sender(r)).ServeHTTP(w, r) })
}

// newPages returns the pages for viewers who may view the same as this one.
func newPages(ctx context.Context, o Options, viewer access.Caller, all *scopes) *scope {
	o.Poll = cmp.Or(o.Poll, 2*time.Second)
	o.Rest = cmp.Or(o.Rest, o.Poll)
	p := &pages{Options: o, source: newSource(o, viewer), version: versionOf("static/*"), build: versionOf("static/*", "templates/*"), all: all}
	p.news = &news{ctx: ctx, every: o.Poll, rest: o.Rest, lasts: streamTime, read: p.source.latest, counts: &all.counts}
	p.source.open = p.news.tasks
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pageURL("{$}"), func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, pageURL("tasks"), http.StatusFound)
	})
	for pattern, show := range map[string]func(*http.Request) (view, error){
		"tasks":                  p.tasks,
		"tasks/{name}":           p.task,
		"tasks/{name}/runs/{id}": p.run,
		"runs":                   p.runs,
		"order":                  p.order,
		"map":                    p.resourceMap,
		"approvals":              p.approvals,
		"health":                 p.health,
		"audit":                  p.audit,
		"events":                 p.events,
		"what-if/{id}":           p.whatIf,
	} {
		mux.HandleFunc("GET "+pageURL(pattern), p.viewed(p.page(show)))
	}
	mux.HandleFunc("GET "+pageURL("sign-in"), p.page(p.signIn))
	mux.HandleFunc("GET "+pageURL("tasks/{name}/runs/{id}/output"), p.viewed(p.output))
	mux.HandleFunc("GET "+pageURL("tasks/{name}/runs/{id}/output.txt"), p.viewed(p.download))
	mux.HandleFunc("GET "+pageURL("tasks/{name}/plan.txt"), p.viewed(p.planAsText))
	mux.HandleFunc("POST "+pageURL("tasks/{name}/{action}"), p.acting(p.act))
	mux.HandleFunc("POST "+pageURL("tasks/{name}/plan"), p.planNow)
	for _, action := range []string{"pause", "resume", "approve-all"} {
		mux.HandleFunc("POST "+pageURL(action), p.acting(p.actOnAll))
	}
	mux.HandleFunc("GET "+pageURL("audit/export"), p.viewed(p.exportAudit()))
	mux.HandleFunc("GET "+pageURL("events/export"), p.viewed(p.exportEvents()))
	mux.HandleFunc("POST "+pageURL("approvals"), p.acting(p.approvePlans))
	mux.HandleFunc("POST "+pageURL("what-if"), p.askWhatIf)
	mux.HandleFunc("GET "+pageURL("news"), p.stream)
	mux.HandleFunc("GET "+pageURL("static/{file}"), p.static)
	mux.HandleFunc("GET "+pageURL("icon.svg"), p.icon)
	mux.HandleFunc(pageURL(""), func(w http.ResponseWriter, r *http.Request) { p.fail(w, r, errNoPage) })
	return &scope{protected(compressed(suffixed(mux))), p}
}

// viewed shows a page to those who may view what it is about.
func (p *pages) viewed(show http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := p.Viewer(r).NeedAny(roles.View)
		if name := r.PathValue("name"); err == nil && name != "" {
			err = p.Viewer(r).Need(roles.View, name)
		}
		if err != nil {
			p.fail(w, r, err)
			return
		}
		show(w, r)
	}
}
