package hcptest

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Server is the stand-in. Its methods may be called from several goroutines.
type Server struct {
	URL          string // over plain HTTP
	SecureURL    string // the same with TLS
	CA           string // file of the certificate authority of SecureURL
	Organization string // exists from the beginning
	Token        string // of a team that may do everything in all organizations

	t         testing.TB
	terraform string // program; "" if nothing runs
	rc        string // its CLI configuration
	version   string
	dir       string // of runs
	mux       *http.ServeMux
	ctx       context.Context
	workers   sync.WaitGroup

	mu            sync.Mutex
	changed       *sync.Cond // some run or workspace
	closed        bool
	sequence      int // of IDs
	secrets       map[string]func(*call) (answer, error)
	tokens        map[string]*account
	organizations map[string]*organization
	workspaces    map[string]*workspace // by ID
	runs          map[string]*run
	versions      map[string]*configVersion
	states        map[string]*stateVersion
	comments      map[string]*comment
	pools         map[string]*agentPool
	projects      map[string]*project
	notifications map[string]*notification
	checks        Checks
	gaps          []Gap
	holds         []*Hold
	faults        []*fault
	requests      []string
}

// Option changes a stand-in.
type Option func(*Server)

// WithoutTerraform makes runs quick: nothing is executed. A plan has one addition if the upload is
// not what was applied last, and none otherwise.
func WithoutTerraform() Option { return func(s *Server) { s.terraform = "" } }

// New starts a stand-in that ends with the test.
func New(t testing.TB, options ...Option) *Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		Organization: "acme", Token: "the-token",
		t: t, terraform: testtools.Terraform(t), rc: testtools.TerraformRC(t), dir: t.TempDir(), ctx: ctx,
		secrets: map[string]func(*call) (answer, error){}, tokens: map[string]*account{}, organizations: map[string]*organization{},
		workspaces: map[string]*workspace{}, runs: map[string]*run{}, versions: map[string]*configVersion{},
		states: map[string]*stateVersion{}, comments: map[string]*comment{}, pools: map[string]*agentPool{},
		projects: map[string]*project{}, notifications: map[string]*notification{},
	}
	s.changed = sync.NewCond(&s.mu)
	s.version = version(t, s.terraform, s.rc)
	for _, o := range options {
		o(s)
	}
	s.tokens[s.Token] = &account{id: "user-team", name: "api-team_acme"}
	s.organize(s.Organization, object{"email": "net@acme.test"})
	s.route()

	plain := httptest.NewServer(http.HandlerFunc(s.serve))
	authority := testtools.NewAuthority(t)
	cert, key := authority.Server("hcp")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	secure.StartTLS()
	s.URL, s.SecureURL, s.CA = plain.URL, secure.URL, authority.CA
	t.Cleanup(func() {
		s.locked(func() {
			s.closed = true
			s.changed.Broadcast()
		})
		cancel()
		plain.CloseClientConnections()
		secure.CloseClientConnections()
		plain.Close()
		secure.Close()
		s.workers.Wait()
	})
	return s
}

var versions sync.Map // by program

// version returns the version of a Terraform. It is read once.
func version(t testing.TB, program, rc string) string {
	ask := sync.OnceValues(func() (string, error) {
		cmd := exec.Command(program, "version", "-json")
		cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+rc, "CHECKPOINT_DISABLE=1")
		out, err := cmd.Output()
		var said struct {
			Version string `json:"terraform_version"`
		}
		return said.Version, errors.Join(err, json.Unmarshal(out, &said))
	})
	once, _ := versions.LoadOrStore(program, ask)
	found, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("read the version of %s: %v", program, err)
	}
	return found
}

// locked calls a function while nothing else changes.
func (s *Server) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// unlocked calls a function that takes long. The caller holds the lock.
func (s *Server) unlocked(do func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	do()
}

// newID returns a new ID, such as run-0000000000000007.
func (s *Server) newID(kind string) string {
	s.sequence++
	return fmt.Sprintf("%s-%016d", kind, s.sequence)
}

// patience is how long a test waits for something that must happen.
const patience = 2 * time.Minute

// until waits until something holds. The caller holds the lock.
func (s *Server) until(what func() string, holds func() bool) {
	s.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		s.locked(func() { late = true })
		s.changed.Broadcast()
	})
	defer timer.Stop()
	for !holds() {
		if late || s.closed {
			s.t.Errorf("HCP Terraform's stand-in: %s after %s", what(), patience)
			return
		}
		s.changed.Wait()
	}
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	name := r.Method + " " + strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v2/"), "/")
	f := s.observe(name)
	if gap := s.refused(r); gap != nil {
		gap.write(w)
		return
	}
	if f.delayed(s) || f.Lost && !f.After {
		panic(http.ErrAbortHandler) // break the connection
	}
	if f.Status != 0 && !f.After {
		f.write(w)
		return
	}
	if !f.After {
		s.mux.ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(httptest.NewRecorder(), r)
	if f.Lost {
		panic(http.ErrAbortHandler)
	}
	f.write(w)
}

// base is the URL under which the client of a request reaches the server; "" if addresses are relative.
func (s *Server) base(r *http.Request) string {
	switch {
	case s.has(RelativeAddresses):
		return ""
	case r.TLS != nil:
		return s.SecureURL
	}
	return s.URL
}

// sign returns a path that needs no token: who knows it may use it.
func (s *Server) sign(name string, do func(*call) (answer, error)) string {
	secret := s.newID(name)
	s.secrets[secret] = do
	return "/signed/" + secret
}

func (c *call) signed() (answer, error) {
	kind, _, _ := strings.Cut(c.id(), "-")
	if c.r.Header.Get("Authorization") != "" && (kind == "upload" || kind == "log") {
		c.t.Errorf("a token was sent to the signed URL %s", c.r.URL)
	}
	do := c.secrets[c.id()]
	if do == nil {
		return c.missing()
	}
	return do(c)
}

// account is who a token belongs to.
type account struct {
	id, name string
	rights   Rights
}

// Rights say what a token may not do.
type Rights struct {
	NoRuns       bool // it cannot create runs or decide on them, as an organization's token
	NoPlanJSON   bool // it cannot read a plan's JSON
	NoState      bool // it cannot read the state of a workspace
	NoDelete     bool // it cannot delete workspaces
	NoWorkspaces bool // it cannot create, change or delete workspaces and variables
}

// NewToken returns another token. The same name again changes its rights.
func (s *Server) NewToken(name string, rights Rights) string {
	token := "token-of-" + name
	s.locked(func() { s.tokens[token] = &account{id: "user-" + name, name: name, rights: rights} })
	return token
}

// Restrict takes rights away from a token.
func (s *Server) Restrict(token string, rights Rights) {
	s.locked(func() {
		by := *cmp.Or(s.tokens[token], &account{id: "user-" + token, name: token})
		by.rights = rights
		s.tokens[token] = &by
	})
}

// Revoke makes a token invalid.
func (s *Server) Revoke(token string) { s.locked(func() { delete(s.tokens, token) }) }
