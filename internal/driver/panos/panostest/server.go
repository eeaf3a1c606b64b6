// Package panostest simulates a PAN-OS firewall for tests: the part of its XML API that a commit
// needs, over HTTPS.
package panostest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Server is a firewall with one administrator. Its methods are safe for
// concurrent use.
type Server struct {
	*httptest.Server
	Username, Password, Key string

	mu       sync.Mutex
	changed  bool     // whether there are changes to commit
	failures int      // how many of the next commits fail
	never    bool     // whether commits never end
	job      int      // the latest
	polls    int      // polls of the latest job
	commits  []string // the commands, in XML
	logins   int
}

// Start runs a firewall with uncommitted changes until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Username: "admin", Password: "p4n-password", Key: "p4n-key", changed: true}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

// Host returns the host and the port.
func (s *Server) Host() (host, port string) {
	host, port, _ = strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	return host, port
}

// Fail makes the next commits fail.
func (s *Server) Fail(times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = times
}

// Never makes commits never end.
func (s *Server) Never() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.never = true
}

// Changed reports whether there are changes to commit.
func (s *Server) Changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Commits returns the commands of all commits, and the number of logins with a password.
func (s *Server) Commits() (commands []string, logins int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commits...), s.logins
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	say := func(format string, args ...any) { fmt.Fprintf(w, format, args...) }
	if r.FormValue("type") == "keygen" {
		s.logins++
		if r.FormValue("user") != s.Username || r.FormValue("password") != s.Password {
			say(`<response status="error" code="403"><result><msg>Invalid credentials.</msg></result></response>`)
			return
		}
		say(`<response status="success"><result><key>%s</key></result></response>`, s.Key)
		return
	}
	command := r.FormValue("cmd")
	switch {
	case r.FormValue("key") != s.Key:
		say(`<response status="error" code="403"><result><msg>Invalid Credential</msg></result></response>`)
	case r.FormValue("type") == "commit":
		s.commits = append(s.commits, command)
		if !s.changed {
			say(`<response status="success" code="19"><msg>There are no changes to commit.</msg></response>`)
			return
		}
		s.job, s.polls = s.job+1, 0
		say(`<response status="success" code="19"><result><msg><line>Commit job enqueued with jobid %d</line></msg><job>%d</job></result></response>`, s.job, s.job)
	case strings.Contains(command, "<system>"):
		say(`<response status="success"><result><system><hostname>fw</hostname><model>PA-VM</model><sw-version>11.1.0</sw-version></system></result></response>`)
	case strings.Contains(command, "<jobs>"):
		s.poll(say)
	default:
		say(`<response status="error" code="17"><msg><line>Invalid command</line></msg></response>`)
	}
}

// poll returns the status of the job, which ends with the second poll.
func (s *Server) poll(say func(string, ...any)) {
	s.polls++
	switch {
	case s.polls < 2 || s.never:
		say(`<response status="success"><result><job><id>%d</id><status>ACT</status><result>PEND</result><progress>50</progress></job></result></response>`, s.job)
	case s.failures > 0:
		s.failures--
		say(`<response status="success"><result><job><id>%d</id><status>FIN</status><result>FAIL</result><progress>100</progress>`+
			`<details><line>rule 100%% wrong is invalid</line></details></job></result></response>`, s.job)
	default:
		s.changed = false
		say(`<response status="success"><result><job><id>%d</id><status>FIN</status><result>OK</result><progress>100</progress></job></result></response>`, s.job)
	}
}
