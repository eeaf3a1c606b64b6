// Package panostest stands in for a PAN-OS firewall in tests: it speaks what a
// commit needs of the XML API, over HTTPS.
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
	changed  bool     // whether there is something to be committed
	failures int      // of the next commits
	never    bool     // whether a commit ends
	job      int      // the latest
	looks    int      // at it
	commits  []string // what was asked for, in XML
	logins   int
}

// Start runs a firewall until the test ends. Something has changed on it.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Username: "admin", Password: "p4n-password", Key: "p4n-key", changed: true}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

// Host returns the address without the port, and the port.
func (s *Server) Host() (host, port string) {
	host, port, _ = strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	return host, port
}

// Fail has the next commits fail.
func (s *Server) Fail(times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = times
}

// Never has commits not end.
func (s *Server) Never() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.never = true
}

// Changed reports whether there is something to be committed.
func (s *Server) Changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Commits returns the commands of the commits so far, and how often somebody
// tried to log in with a password.
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
		s.job, s.looks = s.job+1, 0
		say(`<response status="success" code="19"><result><msg><line>Commit job enqueued with jobid %d</line></msg><job>%d</job></result></response>`, s.job, s.job)
	case strings.Contains(command, "<system>"):
		say(`<response status="success"><result><system><hostname>fw</hostname><model>PA-VM</model><sw-version>11.1.0</sw-version></system></result></response>`)
	case strings.Contains(command, "<jobs>"):
		s.look(say)
	default:
		say(`<response status="error" code="17"><msg><line>Invalid command</line></msg></response>`)
	}
}

// look answers how the job is getting on: it ends when it is looked at for the
// second time.
func (s *Server) look(say func(string, ...any)) {
	s.looks++
	switch {
	case s.looks < 2 || s.never:
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
