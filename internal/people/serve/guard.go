package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// guard checks requests before the handler. A request that reaches the handler has its complete
// body.
type guard struct {
	next        http.Handler
	origin      string
	foreign     *http.CrossOriginProtection // nil if web pages of any origin may use the API
	own         *http.CrossOriginProtection // for the pages of this server
	hosts       *hosts
	certs       *certificates // nil without TLS
	tokens      *tokens
	people      *people      // nil if there is no OpenID provider
	invitations *invitations // nil if there are none
	public      string       // path that is answered for any host and without a token
	login       string       // path that is answered without a token
	signed      string       // path whose requests the handler checks itself; "" if there is none
	pagesAt     string       // path below which the pages are; "" if there are none
	log         *slog.Logger
	policy      func() roles.Policy
	refuse      func(*http.Request) error // as in Options
	credentials *credentials.Keeper       // nil if there are no named tokens
	body        time.Duration             // time limit for a body
	piece       time.Duration             // time limit for each piece of an answer
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = middleware.WithID(r)
	answer := &answer{ResponseWriter: w, control: http.NewResponseController(w), piece: g.piece}
	defer g.recover(answer, r)
	if r.Body != nil && r.Body != http.NoBody {
		// This also limits a refused body, of which net/http reads a part. An error means that the
		// connection has no deadlines, as in tests. net/http removes the deadline when the body is
		// complete; after an error it reads on until the deadline.
		_ = answer.control.SetReadDeadline(time.Now().Add(g.body))
	}
	if g.certs != nil && !g.certs.accepts(r.TLS, time.Now()) {
		answer.refuse(r, http.StatusUnauthorized, "the client certificate of this connection has expired, or its authority is not accepted any more: connect again with a valid one")
		return
	}
	local := g.hosts.allows(r)
	if !local && r.URL.Path != g.public && !g.isSigned(r) {
		answer.refuse(r, http.StatusForbidden, fmt.Sprintf("this API does not answer to the host %q: if clients use that name, add it to api.hosts in the configuration, or use an IP address", r.Host))
		return
	}
	_, page := g.onPage(r)
	protection := g.foreign
	if page {
		protection = g.own
	} else if g.origin != "" && g.cors(answer, r) {
		return
	}
	// A browser sends a page's POST without a body without a preflight request.
	if protection != nil && protection.Check(r) != nil {
		answer.refuse(r, http.StatusForbidden, "web pages of other origins may not use this API: -allow-origin lets them")
		return
	}
	if g.session(answer, r) {
		return
	}
	caller, ok := g.admit(answer, r)
	if !ok || !g.readBody(answer, r) {
		return
	}
	if !local {
		caller = access.Caller{}
	}
	g.next.ServeHTTP(answer, r.WithContext(access.With(r.Context(), caller)))
}

// isSigned reports whether the handler checks the sender of a request itself.
func (g *guard) isSigned(r *http.Request) bool { return g.signed != "" && r.URL.Path == g.signed }

// readBody reads the body, so that a slow client waits here and not in the handler. It reports
// whether the request may continue.
func (g *guard) readBody(w *answer, r *http.Request) bool {
	if r.Body == nil || r.Body == http.NoBody {
		return true
	}
	if r.ContentLength > middleware.MaxBody {
		g.tooLarge(w, r)
		return false
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, middleware.MaxBody+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.refuse(r, http.StatusRequestTimeout, fmt.Sprintf("the request body did not arrive within %s", g.body))
	case err != nil:
		w.refuse(r, http.StatusBadRequest, "the request body did not arrive whole: "+err.Error())
	case len(body) > middleware.MaxBody:
		g.tooLarge(w, r)
	default:
		r.Body = io.NopCloser(bytes.NewReader(body))
		return true
	}
	return false
}

// tooLarge refuses a body. It reads the rest within the time limit of a body: many clients read the
// answer only after they have sent everything.
func (g *guard) tooLarge(w *answer, r *http.Request) {
	w.refuse(r, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request body is too large: at most %d bytes are read", middleware.MaxBody))
	_ = w.control.Flush()
	_, _ = io.Copy(io.Discard, r.Body)
}

// cors answers the questions of a browser, and reports whether the request is complete.
func (g *guard) cors(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", g.origin)
	if g.origin != "*" {
		h.Set("Vary", "Origin")
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// recover answers if a handler panics. It aborts an answer that has begun, so that no client takes
// it for complete.
func (g *guard) recover(w *answer, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	g.log.Error("a request caused a panic: please report this bug in Terrapulse", "method", r.Method, "path", r.URL.Path,
		"request_id", middleware.ID(r), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	middleware.Fail(w, r, http.StatusInternalServerError, "internal error, see the log for the request id")
}

// answer writes in pieces with a time limit each: a client may be slow, but must not block an
// answer forever.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	piece   time.Duration
	begun   bool
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	written := 0
	for {
		piece := p[written:min(written+pieceSize, len(p))]
		_ = a.control.SetWriteDeadline(time.Now().Add(a.piece)) // as above
		n, err := a.ResponseWriter.Write(piece)
		written += n
		if err != nil || written >= len(p) {
			return written, err
		}
	}
}

// refuse answers a request that does not reach the handler, and closes the
// connection.
func (a *answer) refuse(r *http.Request, status int, message string) {
	a.Header().Set("Connection", "close")
	middleware.Fail(a, r, status, message)
}
