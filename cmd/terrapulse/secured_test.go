package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// secured is a Consul that speaks to those alone who show a certificate of a
// private authority, and denies everything to those without a token.
type secured struct {
	*site
	authority *testtools.Authority
	address   string // of HTTPS
	token     string
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("consul", "server.dc1.consul")
	s := &secured{authority: ca, site: newParallelSite(t, consultest.WithACLs(), consultest.WithTLS(ca.CA, cert, key))}
	s.address = s.consul.TLSAddr()
	policies := documentedPolicies(t)
	s.token = s.site.token("all", policies["Services by name"]+policies["Terraform's state"]+policies["Self-registration"])
	s.register("web", "web-1", 8080, "passing")
	return s
}

// config writes task files with a consul block of these lines.
func (s *secured) config(consul, more string) string {
	return s.write("tasks.hcl", fmt.Sprintf(`
port = 0
id = "cts-secured"
working_dir = %q
consul {
%s
}
%s
`, s.path("work"), consul, more)+s.site.task("out", onWeb))
}

// follows wants the program to follow Consul, to keep its state there and to be
// well in Consul's eyes.
func (s *secured) follows(p *process) {
	s.t.Helper()
	eventually(s.t, "the first apply", func() bool { return strings.Contains(s.read("out.txt"), "8080") })
	s.register("web", "web-2", 8081, "passing")
	eventually(s.t, "a change is applied", func() bool { return strings.Contains(s.read("out.txt"), "8081") })
	state, _, err := s.consul.Client().KV().Get("consul-terraform-sync/terraform-env:out", nil)
	if err != nil || state == nil {
		s.t.Errorf("the state is not in Consul: %v %v", state, err)
	}
	eventually(s.t, "it is registered and well", func() bool {
		checks, _, err := s.consul.Client().Health().Checks("consul-terraform-sync", nil)
		return err == nil && len(checks) == 1 && checks[0].ServiceID == "cts-secured" && checks[0].Status == api.HealthPassing
	})
	if strings.Contains(p.stderr.String(), s.token) {
		s.t.Error("the token is in the log")
	}
}

func TestAConsulThatAsksForCertificatesAndTokensIsFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := newSecured(t)
	cert, key := s.authority.Client("terrapulse")
	apiCert, apiKey := s.authority.Server("api")

	// Without a certificate of its own it is told what is missing.
	r := s.run("start", "-once", "-config-file", s.config(fmt.Sprintf("address = %q\ntoken = %q\ntls {\n  ca_cert = %q\n}", s.address, s.token, s.authority.CA), ""))
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "certificate required")

	file := s.config(fmt.Sprintf("address = %q\ntoken = %q\ntls {\n  ca_cert = %q\n  cert = %q\n  key = %q\n}", s.address, s.token, s.authority.CA, cert, key),
		// The check of Consul's agent goes over TLS then, too.
		fmt.Sprintf("tls {\n  cert = %q\n  key = %q\n}", apiCert, apiKey))
	p := s.start("-config-file", file)
	s.follows(p)
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestAConsulBehindAProxyWithPasswordsIsFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := newSecured(t)
	pair := func(cert, key string) tls.Certificate {
		p, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pem, err := os.ReadFile(s.authority.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	onward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: s.address})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair(s.authority.Client("proxy"))}}}
	defer transport.CloseIdleConnections()
	onward.Transport = transport
	var strangers atomic.Int64
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "net" || password != "pass:word" {
			strangers.Add(1)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		r.Header.Del("Authorization") // Consul would take it for a token
		onward.ServeHTTP(w, r)
	}))
	proxy.TLS = &tls.Config{Certificates: []tls.Certificate{pair(s.authority.Server("proxy-server"))}}
	proxy.StartTLS()
	defer proxy.Close()

	address := proxy.Listener.Addr().String()
	p := s.start("-config-file", s.config(fmt.Sprintf("address = %q\ntoken = %q\nauth {\n  username = \"net\"\n  password = \"pass:word\"\n}\ntls {\n  ca_cert = %q\n}",
		address, s.token, s.authority.CA), ""))
	s.follows(p)
	if strings.Contains(p.stderr.String(), "pass:word") {
		t.Error("the password is in the log")
	}
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if n := strangers.Load(); n > 0 {
		t.Errorf("%d requests came without the password", n)
	}
}
