// Package serve serves an HTTP handler to an untrusted network: with TLS and client certificates if
// configured, with limits on requests, and with a shutdown that waits for answers under way.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Limits of a request. A handler has no time limit: a run can take minutes.
const (
	maxHeader = 64 << 10 // bytes; the longest legitimate header is a list of names in a query

	headerTime = 10 * time.Second // for a TLS handshake, and for a header
	bodyTime   = 30 * time.Second // for a body
	pieceTime  = 30 * time.Second // for a client to read the next piece of an answer
	pieceSize  = 64 << 10         // bytes
	idleTime   = 2 * time.Minute  // for the next request over a connection
	graceTime  = 5 * time.Second  // for answers under way at shutdown
	wordTime   = time.Second      // for handlers to answer after that
)

// Options configure a server.
type Options struct {
	Address string // IP address; "" is every interface
	Port    int    // 0 is any free port
	TLS     config.APITLS
	Handler http.Handler
	// Hosts are the accepted host names, besides localhost, IP addresses and the names in the
	// server's certificate.
	Hosts []string
	// Token may do everything, and ReadToken may view everything. Without grants, Token is required for
	// every request if it is set; if not, requests with a client certificate and those from this machine
	// may do everything, and others may view. The handler gets the sender of a request with access.Of.
	Token, ReadToken Token
	// Policy returns the grants in force; nil if there are never any.
	Policy func() roles.Policy
	// Credentials has the named tokens, and keeps their sessions; nil if there are none. They have an
	// effect while there are grants.
	Credentials *credentials.Keeper
	// Refuse returns why a request is refused that would change something: its sender, which access.Of
	// returns, is proven, and may change nothing. Without it, the answer names the role operate.
	Refuse func(*http.Request) error
	// Public is a path that is answered for any host and, for a sender without rights, without a token.
	Public string
	// Login is a path that is answered without a token.
	Login string
	// Signed is a path that is answered for any host and without a token, for any method: the handler
	// checks the signature of each request. To it, the sender has no rights.
	Signed string
	// Pages is the path below which the handler has pages for people; "" if it has none. A viewer
	// enters a token once: its session is a cookie.
	Pages string
	// OpenID is the provider at which people sign in to the pages, and whose ID tokens are accepted; nil
	// if there is none.
	OpenID *OpenID
	// Invite, if set, gets the path of a page that begins a session with Token without the form. Each
	// path works once: Invite gets the next one after it was used.
	Invite func(path string)
	// AllowOrigin, if set, allows web pages of this origin to use the handler from a browser: "*"
	// or an origin such as "https://ops.example.com".
	AllowOrigin string
	Log         *slog.Logger
}

// Server is a server that listens on its port.
type Server struct {
	listener net.Listener
	guard    *guard
	header   time.Duration
	grace    time.Duration
	word     time.Duration
	log      *slog.Logger
}

// SetupError is why the server cannot be used with its options: an origin, a certificate or a token.
type SetupError struct{ Err error }

func (e *SetupError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SetupError) Unwrap() error { return e.Err }

// Listen opens the port, so that it is known early whether it is free, and reads the certificates.
// Clients wait until Serve. The error is a *SetupError if the options are wrong.
func Listen(ctx context.Context, o Options) (*Server, error) {
	s := &Server{header: headerTime, grace: graceTime, word: wordTime, log: o.Log, guard: &guard{
		next: o.Handler, origin: o.AllowOrigin, own: http.NewCrossOriginProtection(), log: o.Log, body: bodyTime, piece: pieceTime,
	}}
	s.guard.people = newPeople(o.OpenID)
	if o.Invite != nil {
		s.guard.invitations = &invitations{send: o.Invite}
	}
	if o.AllowOrigin != "*" {
		s.guard.foreign = http.NewCrossOriginProtection()
		if o.AllowOrigin != "" {
			if err := s.guard.foreign.AddTrustedOrigin(o.AllowOrigin); err != nil {
				return nil, &SetupError{fmt.Errorf("allow web pages to use the HTTP API: %w; write an origin as in https://ops.example.com, or *", err)}
			}
		}
	}
	var certs *certificates
	var err error
	if o.TLS.Enabled {
		if certs, err = newCertificates(o.TLS, o.Log); err != nil {
			return nil, &SetupError{err}
		}
	}
	s.guard.credentials = o.Credentials
	if s.guard.policy = o.Policy; o.Policy == nil {
		s.guard.policy = func() roles.Policy { return roles.Policy{} }
	}
	s.guard.login, s.guard.certs, s.guard.refuse = o.Login, certs, o.Refuse
	s.guard.hosts, s.guard.public, s.guard.signed, s.guard.pagesAt = newHosts(o.Hosts, certs), o.Public, o.Signed, o.Pages
	if s.guard.tokens, err = newTokens(o.Token, o.ReadToken, o.Log); err != nil {
		return nil, &SetupError{err}
	}
	s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(o.Address, strconv.Itoa(o.Port)))
	if err != nil {
		return nil, portError(o, err)
	}
	if certs != nil {
		s.listener = tls.NewListener(plainListener{s.listener}, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: certs.forClient})
	}
	return s, nil
}

// portError says what to do if a port cannot be opened.
func portError(o Options, err error) error {
	var system syscall.Errno
	if errors.As(err, &system) {
		err = system // without the address, which is known
	}
	advice := "set port in the configuration to another one"
	switch {
	case errors.Is(err, syscall.EADDRINUSE), system == 10048: // the second is the code of Windows
		advice = "another program has it, perhaps another Terrapulse or Consul-Terraform-Sync: end that one, or " + advice
	case errors.Is(err, syscall.EACCES):
		advice = "only the system's administrator may listen on it: " + advice
	case o.Address != "" && errors.Is(err, syscall.EADDRNOTAVAIL):
		advice = "no network interface of this machine has the address " + o.Address + ": correct api.bind_address"
	}
	return fmt.Errorf("listen on port %d for the HTTP API: %w; %s", o.Port, err, advice)
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close closes the port if Serve is never called.
func (s *Server) Close() error { return s.listener.Close() }

// Serve answers until the context ends. Then it accepts no new requests and waits at most 5 seconds
// for answers under way. After that the contexts of the remaining requests end, and a second later
// their connections. It returns nil then, and an error if it can no longer listen.
func (s *Server) Serve(ctx context.Context) error {
	// Only HTTP/1: its limits are those above, and no streams are needed.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	requests, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	server := &http.Server{
		Handler:           s.guard,
		BaseContext:       func(net.Listener) context.Context { return requests },
		Protocols:         &protocols,
		ReadHeaderTimeout: s.header,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		// Invalid requests of strangers, such as port scanners, are not worth a warning.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.guard.invitations != nil {
		s.guard.invitations.next(s.guard.pagesAt)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		_ = server.Close()
		return fmt.Errorf("serve the HTTP API: %w", err)
	case <-ctx.Done():
	}
	hurry := time.AfterFunc(s.grace, giveUp)
	defer hurry.Stop()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace+s.word)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		s.log.Warn("requests to the HTTP API were aborted at shutdown", "waited", s.grace+s.word)
		_ = server.Close()
	}
	<-ended
	return nil
}
