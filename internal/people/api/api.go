// Package api serves the HTTP API: the requests of Consul-Terraform-Sync's API in
// its shapes, and those that only Terrapulse has. It reads the store and writes
// requests to it through control.Control, so that any process can serve it: the
// leader, an instance that stands by, or a function.
//
// Package apispec describes all of it. Requests are validated against that
// description.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Cluster returns which instances there are.
type Cluster interface {
	Status(context.Context) (apispec.ClusterStatus, error)
}

// Options are what the API works on.
type Options struct {
	Control *control.Control
	// Cluster, where several instances share the work; else nil.
	Cluster Cluster
	// Began is when this process began to tick, or to stand by for that: it is
	// healthy before its first tick. It is zero if other processes tick.
	Began time.Time
	// Version is that of the program.
	Version string
	// Instance is the one that answers, for people; nil where a function does.
	Instance *apispec.Instance
	// Store is where the records are, for people.
	Store apispec.Store
	// Links returns pages that show the runner of a run; nil if there are none. May be
	// nil itself.
	Links func(state.Run) *apispec.RunLinks
	// Console are the pages of the AWS console about a deployment in AWS; else nil.
	Console *apispec.ConsoleLinks
	// Gates are what this process has seen of Consul's gates; may be nil.
	Gates func() map[string]state.Gate
	// Metrics answers GET /v1/metrics; nil where metrics go elsewhere.
	Metrics http.Handler
	// Tokens are the named tokens; nil where there are none.
	Tokens *credentials.Keeper
	// Sensitive says which variables the task's module declares sensitive. If it is
	// nil, all of them are treated as sensitive.
	Sensitive func(*config.Task) func(name string) bool
	// HintKey returns the key with which HCP Terraform signs its notifications, "" if there is
	// none. It is nil if no run goes on there.
	HintKey func(context.Context) (string, error)
	// Login is where people sign in on the command line; nil if they cannot.
	Login *Login
	// Failed, if set, is called for each request that cannot be answered, except where the
	// sender is at fault.
	Failed func()
	Log    *slog.Logger
}

// api is the handler of all requests.
type api struct {
	Options
	*http.ServeMux

	allStatuses shared[[]*status]
	statuses    map[string]*status // by task, as they were read last; only read uses it
	lists       shared[*overview.List]
	known       overview.Known
	refusals    audit.Refusals
	needs       *http.ServeMux // which role each operation needs
}

// Handler is the handler of all requests.
type Handler struct{ *api }

// New returns the handler. It takes whole paths, which begin with /v1.
func New(o Options) *Handler {
	a := &api{Options: o, ServeMux: http.NewServeMux(), needs: http.NewServeMux()}
	a.allStatuses.log, a.lists.log = o.Log, o.Log
	for pattern, route := range a.routes() {
		a.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { a.answer(w, a.acting(r), route.allowed) })
		a.needs.HandleFunc(pattern, noteNeed(route.need))
	}
	return &Handler{a}
}

// A handler returns the body of the answer, or why there is none. A body is sent
// as JSON with the status 200, unless it is an answer, a text ([]byte), or a
// http.HandlerFunc that sends it.
type handler func(*http.Request) (body any, err error)

// answer is a body with a status and a header.
type answer struct {
	status        int
	header, value string // header is "" if there is none
	body          any
}

// answer sends what a handler returns.
func (a *api) answer(w http.ResponseWriter, r *http.Request, handle handler) {
	body, err := handle(r)
	if err != nil {
		a.noteRefused(r, err)
		a.fail(w, r, err)
		return
	}
	switch body := body.(type) {
	case http.HandlerFunc:
		body(w, r)
	case []byte:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(body) // an error means that the client has gone
	case answer:
		if body.header != "" {
			w.Header().Set(body.header, body.value)
		}
		write(w, body.status, body.body)
	default:
		write(w, http.StatusOK, body)
	}
}

// ServeHTTP answers one request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		return // 200, whatever is asked about
	}
	r = middleware.WithID(r)
	a.ServeMux.ServeHTTP(w, r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.URL.Path != NotificationPath {
		a.Log.Info("asked through the API", "request_id", middleware.ID(r), "method", r.Method, "path", r.URL.Path, "by", by(r).Name)
	}
}

// by returns the sender of a request.
func by(r *http.Request) access.Caller { return access.Sender(r) }

// unfinished reports whether an error only means that the time is over or that the
// client has gone.
func unfinished(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// write answers in JSON.
func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has gone
}
