package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestAPortThatIsTakenIsSaidAtOnce(t *testing.T) {
	s := newSite(t)
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	file := s.write("port.hcl", fmt.Sprintf("port = %d\n", port))
	r := s.run("start", "-config-file", s.config(""), "-config-file", file)
	wantCode(t, r, exitError)
	wantText(t, r.stderr, fmt.Sprintf("port %d", port), "another program has it", "set port in the configuration")
}

func TestTheAPIIsForClientsWithACertificate(t *testing.T) {
	s := newParallelSite(t)
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	p := s.start("-allow-origin", "https://ops.example.com", "-config-file", s.config(""), "-config-file", s.write("tls.hcl", fmt.Sprintf(`
tls {
  cert            = %q
  key             = %q
  verify_incoming = true
  ca_cert         = %q
}
`, cert, key, ca.CA)))
	url := strings.Replace(p.served(), "http://", "https://", 1) + "/v1/health"
	pem, err := os.ReadFile(ca.CA)
	if err != nil {
		t.Fatal(err)
	}
	trusting := &tls.Config{RootCAs: x509.NewCertPool()}
	trusting.RootCAs.AppendCertsFromPEM(pem)
	get := func(c *tls.Config) (*http.Response, error) {
		transport := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: transport}).Get(url)
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	if resp, err := get(trusting); err == nil {
		t.Errorf("a client without a certificate gets status %d", resp.StatusCode)
	}
	known := trusting.Clone()
	pair, err := tls.LoadX509KeyPair(ca.Client("me"))
	if err != nil {
		t.Fatal(err)
	}
	known.Certificates = []tls.Certificate{pair}
	first, err := get(known)
	if err != nil {
		t.Fatal(err)
	}
	if origin := first.Header.Get("Access-Control-Allow-Origin"); origin != "https://ops.example.com" {
		t.Errorf("allowed origin %q", origin)
	}
	ca.Server("api") // renewed, in the same files
	second, err := get(known)
	if err != nil {
		t.Fatal(err)
	}
	if first.TLS.PeerCertificates[0].Equal(second.TLS.PeerCertificates[0]) {
		t.Error("the certificate from before is still shown")
	}
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
