// Package vaulttest simulates a Vault server for tests: the part of Vault's HTTP API that a client
// needs to read secrets. Tokens have lifetimes, are renewed, wrapped and unwrapped; both versions
// of the KV engine exist; and the server can be sealed.
package vaulttest

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Token is a token of the server.
type Token struct {
	TTL       time.Duration // in whole seconds; 0 never expires
	Left      time.Duration // the rest of TTL; 0 is all of it
	Renewable bool
	Namespace string // "" is the root namespace

	expires time.Time
}

// Server is a simulated Vault server. Its methods are safe for concurrent use.
type Server struct {
	*httptest.Server

	mu       sync.Mutex
	tokens   map[string]*Token
	wrapped  map[string]string         // tokens by their wrapping tokens
	secrets  map[string]map[string]any // by path
	issued   int
	sealed   bool
	hanging  chan struct{} // closed when the server answers again; nil if it does not hang
	requests []string
}

// Start runs a server until the test ends. It has the KV engine's version 1 at kv/ and version 2 at
// secret/, an engine at db/ that returns a new password for each request, and the token "root",
// which never expires.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, (*httptest.Server).Start)
}

// StartTLS is Start with TLS.
func StartTLS(t testing.TB, cfg *tls.Config) *Server {
	t.Helper()
	return start(t, func(s *httptest.Server) {
		s.TLS = cfg
		s.StartTLS()
	})
}

func start(t testing.TB, listen func(*httptest.Server)) *Server {
	s := &Server{tokens: map[string]*Token{"root": {}}, wrapped: map[string]string{}, secrets: map[string]map[string]any{}}
	s.Server = httptest.NewUnstartedServer(s)
	listen(s.Server)
	t.Cleanup(func() {
		s.Hang(false)
		s.Close()
	})
	return s
}

// AddToken adds a token.
func (s *Server) AddToken(id string, t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.TTL > 0 {
		t.expires = time.Now().Add(cmp.Or(t.Left, t.TTL))
	}
	s.tokens[id] = &t
}

// Wrap adds a wrapping token that can be unwrapped once to the other token.
func (s *Server) Wrap(wrapping, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrapped[wrapping] = token
}

// Put writes a secret at kv/NAME or secret/NAME. Nil deletes it.
func (s *Server) Put(path string, data map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[path] = data
}

// Seal makes the server deny every request, or ends that.
func (s *Server) Seal(sealed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = sealed
}

// Hang makes the server answer nothing; false releases all waiting requests.
func (s *Server) Hang(hang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case hang && s.hanging == nil:
		s.hanging = make(chan struct{})
	case !hang && s.hanging != nil:
		close(s.hanging)
		s.hanging = nil
	}
}

// Expires returns when a token ends.
func (s *Server) Expires(token string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[token].expires
}

// Requests returns all requests so far, such as GET kv/db.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// Count returns the number of requests of a kind.
func (s *Server) Count(request string) int {
	n := 0
	for _, r := range s.Requests() {
		if r == request {
			n++
		}
	}
	return n
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	hanging := s.hanging
	s.mu.Unlock()
	if hanging != nil {
		select {
		case <-hanging:
		case <-r.Context().Done():
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	method := r.Method
	if r.URL.Query().Get("list") == "true" {
		method = "LIST"
	}
	request := method + " " + path
	for name, values := range r.URL.Query() {
		if name != "list" {
			request += " " + name + " " + values[0]
		}
	}
	s.requests = append(s.requests, request)
	w.Header().Set("Content-Type", "application/json")
	if s.sealed {
		refuse(w, http.StatusServiceUnavailable, "Vault is sealed")
		return
	}
	id := r.Header.Get("X-Vault-Token")
	if method == http.MethodPut && path == "sys/wrapping/unwrap" {
		token, ok := s.wrapped[id]
		if !ok {
			refuse(w, http.StatusBadRequest, "wrapping token is not valid or does not exist")
			return
		}
		delete(s.wrapped, id)
		answer(w, map[string]any{"auth": map[string]any{"client_token": token}})
		return
	}
	token := s.tokens[id]
	if token == nil || token.TTL > 0 && time.Now().After(token.expires) || token.Namespace != strings.Trim(r.Header.Get("X-Vault-Namespace"), "/") {
		refuse(w, http.StatusForbidden, "permission denied", "invalid token")
		return
	}
	s.answer(w, r, method, path, token)
}

// answer writes the answer to a request with a valid token.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, method, path string, token *Token) {
	left := 0
	if token.TTL > 0 {
		left = int(time.Until(token.expires).Round(time.Second).Seconds())
	}
	engine, _, _ := strings.Cut(path, "/")
	switch {
	case path == "auth/token/lookup-self":
		answer(w, map[string]any{"data": map[string]any{"ttl": left, "creation_ttl": int(token.TTL.Seconds()), "renewable": token.Renewable}})
	case path == "auth/token/renew-self":
		if !token.Renewable {
			refuse(w, http.StatusBadRequest, "lease is not renewable")
			return
		}
		token.expires = time.Now().Add(token.TTL)
		answer(w, map[string]any{"auth": map[string]any{"client_token": "same", "renewable": true, "lease_duration": int(token.TTL.Seconds())}})
	case strings.HasPrefix(path, "sys/internal/ui/mounts/"):
		mount, _, _ := strings.Cut(strings.TrimPrefix(path, "sys/internal/ui/mounts/"), "/")
		version, ok := map[string]any{"kv": "1", "secret": "2", "db": nil}[mount]
		if !ok {
			refuse(w, http.StatusForbidden, "preflight capability check returned 403, please ensure client's policies grant access to path \""+mount+"/\"")
			return
		}
		answer(w, map[string]any{"data": map[string]any{"path": mount + "/", "options": map[string]any{"version": version}}})
	case method == "LIST" && (engine == "kv" || strings.HasPrefix(path, "secret/metadata/")):
		s.list(w, strings.Replace(path, "secret/metadata/", "secret/", 1))
	case engine == "kv":
		data := s.secrets[path]
		if data == nil {
			refuse(w, http.StatusNotFound)
			return
		}
		answer(w, map[string]any{"data": data, "lease_duration": 2764800})
	case strings.HasPrefix(path, "secret/data/"):
		data, ok := s.secrets[strings.Replace(path, "secret/data/", "secret/", 1)]
		if !ok {
			refuse(w, http.StatusNotFound)
			return
		}
		if data == nil {
			w.WriteHeader(http.StatusNotFound) // deleted: the metadata is returned all the same
		}
		answer(w, map[string]any{"data": map[string]any{"data": data, "metadata": map[string]any{"version": 3}}})
	case engine == "db":
		s.issued++
		answer(w, map[string]any{"lease_id": fmt.Sprintf("%s/%d", path, s.issued), "lease_duration": 3600, "renewable": true,
			"data": map[string]any{"username": "v-1", "password": fmt.Sprintf("issued-%d", s.issued)}})
	default:
		refuse(w, http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
	}
}

func (s *Server) list(w http.ResponseWriter, below string) {
	var keys []string
	for name := range s.secrets {
		if rest, ok := strings.CutPrefix(name, below+"/"); ok {
			keys = append(keys, rest)
		}
	}
	if keys == nil {
		refuse(w, http.StatusNotFound)
		return
	}
	answer(w, map[string]any{"data": map[string]any{"keys": keys}})
}

func answer(w http.ResponseWriter, v map[string]any) { _ = json.NewEncoder(w).Encode(v) }

func refuse(w http.ResponseWriter, status int, errors ...string) {
	w.WriteHeader(status)
	if errors == nil {
		errors = []string{}
	}
	answer(w, map[string]any{"errors": errors})
}
