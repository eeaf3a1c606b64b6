package serve

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

const (
	actToken  = "the-token-that-may-act"
	readToken = "the-token-that-may-read"
)

// What the sender of a request may do.
const (
	nothing    = "no role"
	views      = "view"
	everything = "view, operate, approve, administer"
)

// levels answers with what the sender of the request may do.
var levels = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, access.Of(r.Context()).Rights)
})

// ask sends a request with a Host header and a token, if given.
func (s *served) ask(method, path, host, token string) (*http.Response, string) {
	s.t.Helper()
	header := http.Header{}
	if host != "" {
		header.Set("Host", host)
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return s.send(method, path, header)
}

// send sends a request with this header, in which Host may replace the server's address.
func (s *served) send(method, path string, header http.Header) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, strings.TrimSuffix(s.url("http"), "/v1/x")+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = header.Clone()
	req.Host = header.Get("Host")
	resp, err := client(s.t, nil).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(body)
}

func TestServe_AnswersOnlyConfiguredHosts(t *testing.T) {
	s := start(t, Options{Handler: levels, Hosts: []string{"sync.example.com", ""}, Public: "/v1/health"}, nil)
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "LOCALHOST:8558": 200, "localhost.": 200, "app.localhost": 200,
		"127.0.0.1": 200, "10.0.0.5:8558": 200, "[::1]:8558": 200, "[fe80::1]": 200,
		"sync.example.com": 200, "Sync.Example.com.:8558": 200,
		"attacker.example": 403, "attacker.example:8558": 403, "sync.example.com.attacker.example": 403,
		"localhost.attacker.example": 403, "127.0.0.1.attacker.example": 403, "notlocalhost": 403,
	} {
		resp, body := s.ask("GET", "/v1/tasks", host, "")
		if resp.StatusCode != want {
			t.Errorf("host %q: %s", host, resp.Status)
		}
		if want == 403 && !strings.Contains(body, "api.hosts") {
			t.Errorf("host %q: the message names no key: %s", host, body)
		}
	}
	if resp, body := s.ask("GET", "/v1/health", "attacker.example", ""); resp.StatusCode != 200 || body != nothing {
		t.Errorf("health for another host: %s, level %s", resp.Status, body)
	}
	signed := start(t, Options{Handler: levels, Signed: "/v1/notifications/x", Token: Token{Key: "api.token", Value: actToken}}, nil)
	if resp, body := signed.ask("POST", "/v1/notifications/x", "attacker.example", ""); resp.StatusCode != 200 || body != nothing {
		t.Errorf("a signed request for another host: %s, level %s", resp.Status, body)
	}
	for _, path := range []string{"/v1/notifications", "/v1/notifications/x/y"} {
		if resp, _ := signed.ask("POST", path, "", ""); resp.StatusCode != 401 {
			t.Errorf("%s without a token: %s", path, resp.Status)
		}
	}
	any := start(t, Options{Handler: levels, Hosts: []string{"*"}}, nil)
	if resp, _ := any.ask("GET", "/", "attacker.example", ""); resp.StatusCode != 200 {
		t.Errorf("any host is allowed: %s", resp.Status)
	}
}

func TestServe_AnswersTheNamesInTheCertificate(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(pair.Leaf.DNSNames) == 0 {
		t.Fatal("the certificate has no name")
	}
	s := start(t, Options{Handler: levels, TLS: config.APITLS{Enabled: true, Cert: cert, Key: key}}, nil)
	for host, want := range map[string]int{pair.Leaf.DNSNames[0]: 200, "attacker.example": 403} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", s.url("https"), nil)
		req.Host = host
		resp, err := client(t, trusting(t, ca.CA)).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("host %q: %s", host, resp.Status)
		}
	}
}

func TestServe_RefusedRequestWithASlowBodyIsClosed(t *testing.T) {
	s := start(t, Options{Handler: levels}, func(s *Server) { s.guard.body = 100 * time.Millisecond })
	conn := s.dial()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: attacker.example\r\nContent-Length: 1000\r\n\r\n")
	if said := wantClosed(t, conn); !strings.HasPrefix(said, "HTTP/1.1 403 ") {
		t.Errorf("it said %q", said)
	}
}

func TestHosts_NamesOfTheInstance(t *testing.T) {
	cfg := &config.Config{API: config.API{Hosts: []string{"a"}, URL: "https://f/"}, HighAvailability: &config.HighAvailability{Instance: config.Instance{Address: "b"}}}
	cfg.Consul.ServiceRegistration.Address = "c"
	cfg.Consul.ServiceRegistration.DefaultCheck.Address = "https://d:8558/x"
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	h := newHosts(Hosts(cfg), nil)
	for _, name := range []string{"a", "b", "c", "d", "f", own} {
		if !h.allows(&http.Request{Host: name + ":8558"}) {
			t.Errorf("%q is not allowed", name)
		}
	}
	if h.allows(&http.Request{Host: "e:8558"}) {
		t.Error("any host is allowed")
	}
}

func TestServe_TokensDecideWhatARequestMayDo(t *testing.T) {
	s := start(t, Options{Handler: levels, Public: "/v1/health",
		Token: Token{Key: "api.token", Value: actToken}, ReadToken: Token{Key: "api.read_token", Value: readToken}}, nil)
	for _, test := range []struct {
		method, path, token string
		want                int
		level, says         string
	}{
		{"GET", "/v1/tasks", "", 401, "", "needs a token"},
		{"POST", "/v1/tasks", "", 401, "", "needs a token"},
		{"GET", "/v1/tasks", "wrong", 401, "", "not valid"},
		{"GET", "/v1/tasks", readToken, 200, views, ""},
		{"HEAD", "/v1/tasks", readToken, 200, views, ""},
		{"POST", "/v1/tasks", readToken, 403, "", "token:api.read_token may view, but needs the role operate: use the one of api.token"},
		{"DELETE", "/v1/tasks/a", readToken, 403, "", "token:api.read_token may view, but needs the role operate: use the one of api.token"},
		{"GET", "/v1/tasks", actToken, 200, everything, ""},
		{"PATCH", "/v1/tasks/a", actToken, 200, everything, ""},
		{"GET", "/v1/health", "", 200, nothing, ""},
		{"GET", "/v1/health", actToken, 200, everything, ""},
		{"GET", "/v1/health", "wrong", 401, "", "not valid"},
		{"POST", "/v1/health", "", 401, "", "needs a token"},
		{"GET", "/v1/health/x", "", 401, "", "needs a token"},
	} {
		resp, body := s.ask(test.method, test.path, "", test.token)
		if resp.StatusCode != test.want || !strings.Contains(body, test.says) {
			t.Errorf("%s %s with %q: %s, %s", test.method, test.path, test.token, resp.Status, body)
		}
		if test.want == 200 && test.method != "HEAD" && body != test.level {
			t.Errorf("%s %s with %q: %s, want %s", test.method, test.path, test.token, body, test.level)
		}
		if challenge := resp.Header.Get("WWW-Authenticate"); (test.want == 401) != strings.HasPrefix(challenge, "Bearer") {
			t.Errorf("%s %s with %q: challenge %q", test.method, test.path, test.token, challenge)
		}
	}
	for _, secret := range []string{actToken, readToken} {
		if strings.Contains(s.log.String(), secret) {
			t.Error("a token is in the log")
		}
	}
}

func TestServe_WithoutATokenThisMachineMayActAndOthersMayRead(t *testing.T) {
	s := start(t, Options{Handler: levels, Pages: "/ui/"}, nil)
	own := fmt.Sprintf("127.0.0.1:%d", s.port())
	for name, c := range map[string]struct {
		header http.Header
		may    bool
	}{
		"a program on this machine":                {http.Header{}, true},
		"a program with a token, which none needs": {http.Header{"Authorization": {"Bearer whatever"}}, true},
		"localhost":                                  {http.Header{"Host": {"localhost:8558"}}, true},
		"a browser on this machine":                  {http.Header{"Origin": {"http://" + own}, "Host": {own}, "Sec-Fetch-Site": {"same-origin"}}, true},
		"a proxy that says for whom it asks":         {http.Header{"X-Forwarded-For": {"10.0.0.7"}}, false},
		"a proxy that names only the scheme":         {http.Header{"X-Forwarded-Proto": {"https"}}, false},
		"a proxy that uses the header of RFC 7239":   {http.Header{"Forwarded": {"for=10.0.0.7"}}, false},
		"a proxy of a service mesh":                  {http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"15000"}}, false},
		"a proxy that passes the host on":            {http.Header{"Host": {"192.0.2.1:8558"}}, false},
		"a proxy that passes the origin on":          {http.Header{"Host": {own}, "Origin": {"https://tp.example.com"}, "Sec-Fetch-Site": {"same-origin"}}, false},
		"a name that looks like an address":          {http.Header{"Host": {"127.0.0.1.example.com"}}, false},
		"a page that makes its own name lead here":   {http.Header{"Host": {"attacker.example"}, "Origin": {"http://attacker.example"}, "Sec-Fetch-Site": {"same-origin"}}, false},
		"a page of another origin":                   {http.Header{"Origin": {"https://attacker.example"}, "Sec-Fetch-Site": {"cross-site"}}, false},
		"a page in a frame without an origin":        {http.Header{"Origin": {"null"}, "Sec-Fetch-Site": {"cross-site"}}, false},
		"a page of another name of this very server": {http.Header{"Host": {own}, "Origin": {"http://localhost:1"}, "Sec-Fetch-Site": {"cross-site"}}, false},
	} {
		for _, path := range []string{"/v1/tasks", "/ui/tasks/web/hold"} {
			for _, method := range []string{"POST", "PATCH", "PUT", "DELETE"} {
				if resp, body := s.send(method, path, c.header); (resp.StatusCode == 200) != c.may || c.may && body != everything || !c.may && resp.StatusCode != 403 {
					t.Errorf("%s: %s %s: %s, %s", name, method, path, resp.Status, body)
				}
			}
		}
	}
}

// A request from another machine has an address of a network as its peer.
func TestServe_WithoutATokenAnotherMachineOnlyReads(t *testing.T) {
	lan := testtools.LANAddress(t)
	s := start(t, Options{Handler: levels, Public: "/v1/health", Signed: "/v1/notifications/x"}, nil)
	s.host = lan
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/status", 200}, {"HEAD", "/v1/status", 200}, {"OPTIONS", "/v1/tasks", 200}, {"GET", "/v1/health", 200}, {"POST", "/v1/notifications/x", 200},
		{"POST", "/v1/tasks", 403}, {"PATCH", "/v1/tasks/web?run=now", 403}, {"PATCH", "/v1/tasks/web?run=inspect", 403}, {"DELETE", "/v1/tasks/web", 403}, {"POST", "/v1/reconcile", 403},
	} {
		for _, host := range []string{"", "localhost", "127.0.0.1:8558"} {
			resp, body := s.ask(c.method, c.path, host, "")
			if resp.StatusCode != c.status {
				t.Errorf("%s %s of %s: %s", c.method, c.path, host, resp.Status)
			}
			if c.status == 403 && (!strings.Contains(body, "api.token") || !strings.Contains(body, "tls.verify_incoming")) {
				t.Errorf("%s %s: the answer names no key: %s", c.method, c.path, body)
			}
			if c.method == "GET" && body != views {
				t.Errorf("%s: level %s", c.path, body)
			}
		}
	}
	proven := start(t, Options{Handler: levels, Token: Token{Key: "api.token", Value: actToken}}, nil)
	proven.host = lan
	if resp, body := proven.ask("POST", "/v1/tasks", "", actToken); resp.StatusCode != 200 {
		t.Errorf("with a token: %s, %s", resp.Status, body)
	}
}

func TestServe_WrongTokensDelayNobodyAndDoNotFillTheLog(t *testing.T) {
	now := time.Unix(1700000000, 0)
	s := start(t, Options{Handler: levels, Token: Token{Value: actToken}}, func(s *Server) {
		s.guard.tokens.now = func() time.Time { return now }
	})
	guess := func() {
		t.Helper()
		if resp, _ := s.ask("GET", "/", "", "wrong"); resp.StatusCode != 401 {
			t.Fatal(resp.Status)
		}
	}
	for range 2 * wrongAtOnce {
		guess()
		if resp, _ := s.ask("GET", "/", "", actToken); resp.StatusCode != 200 { // a proxy gives all its clients one address
			t.Fatalf("the right token meanwhile: %s", resp.Status)
		}
	}
	if resp, _ := s.ask("GET", "/", "", ""); resp.StatusCode != 401 {
		t.Errorf("a request without a token: %s", resp.Status)
	}
	lines := func() int { return strings.Count(s.log.String(), "had a wrong token") }
	if n := lines(); n != wrongAtOnce {
		t.Errorf("%d lines", n)
	}
	now = now.Add(wrongEvery)
	guess()
	guess()
	if n := lines(); n != wrongAtOnce+1 {
		t.Errorf("after a second: %d lines", n)
	}
}

func TestServe_ReadsATokenFileAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(actToken + "\n")
	s := start(t, Options{Handler: levels, Token: Token{Key: "api.token_file", File: file}}, nil)
	want := func(token string, status int) {
		t.Helper()
		if resp, _ := s.ask("GET", "/", "", token); resp.StatusCode != status {
			t.Errorf("with %q: %s", token, resp.Status)
		}
	}
	want(actToken, 200)
	put("the-next-token-of-it\n")
	want("the-next-token-of-it", 200)
	want(actToken, 401)
	put("")
	want("the-next-token-of-it", 200)
	want("", 401)
	want("the-next-token-of-it", 200)
	if n := strings.Count(s.log.String(), "stays in use"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}

func TestListen_RefusesUnusableTokens(t *testing.T) {
	for want, o := range map[string]Options{
		"api.token: the token has 5 characters": {Token: Token{Key: "api.token", Value: "short"}},
		"api.token: the token has 0 characters": {Token: Token{Key: "api.token"}},
		"read api.token_file":                   {Token: Token{Key: "api.token_file", File: "/nonexistent"}},
		"the same token":                        {Token: Token{Key: "api.token", Value: actToken}, ReadToken: Token{Key: "api.read_token", Value: actToken}},
	} {
		s, err := Listen(t.Context(), o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), actToken) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
