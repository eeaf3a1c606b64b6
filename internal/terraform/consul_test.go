package terraform

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

// authority makes certificates that nobody else trusts.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// path is where a certificate's file or its key's is.
func (a *authority) path(name string) string { return filepath.Join(a.dir, name, name+".pem") }

func (a *authority) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	write(a.t, a.path(name), string(certPEM))
	write(a.t, a.path(name+"-key"), string(keyPEM))
	write(a.t, a.path(name+"-both"), string(certPEM)+string(keyPEM))
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// statePolicy is all that Terraform's Consul backend needs for its state and
// its locks.
const statePolicy = `
key_prefix "consul-terraform-sync/terraform" { policy = "write" }
session_prefix "" { policy = "write" }
`

// stateToken returns a token that may do what statePolicy says, and nothing else.
func stateToken(t *testing.T, server *consultest.Server) string {
	t.Helper()
	policy, _, err := server.Client().ACL().PolicyCreate(&api.ACLPolicy{Name: "state", Rules: statePolicy}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := server.Client().ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// applyWith applies the fixture's task with the Consul and the backend that the
// configuration says, as the task file of a person does.
func (f *fixture) applyWith(hcl string) error {
	f.t.Helper()
	file := filepath.Join(f.t.TempDir(), "cts.hcl")
	write(f.t, file, hcl)
	cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: file}}, Dir: f.t.TempDir()})
	if err != nil {
		f.t.Fatal(err)
	}
	f.cfg = cfg
	f.dir = filepath.Join(f.t.TempDir(), "web")
	f.render("api")
	d := f.open()
	if _, err := d.Init(f.t.Context()); err != nil {
		return err
	}
	_, err = d.Apply(f.t.Context())
	return err
}

func TestAConsulBehindTLSWithAPrivateAuthorityHoldsTheState(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ca := newAuthority(t)
	ca.issue("server", &x509.Certificate{DNSNames: []string{"server.dc1.consul"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	ca.issue("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	port := freePort(t)
	server := consultest.Start(t, consultest.WithACLs(), consultest.WithHCL(fmt.Sprintf(
		`ports { https = %d } tls { https { ca_file = %q, cert_file = %q, key_file = %q, verify_incoming = true } }`,
		port, ca.path("ca"), ca.path("server"), ca.path("server-key"))))
	token := stateToken(t, server)
	at := fmt.Sprintf("127.0.0.1:%d", port)

	const client = `cert = %[4]q, key = %[5]q, `
	for _, c := range []struct {
		name, consul string
		want         string // in the error; "" for none
	}{
		{"a certificate of the authority", `address = %[1]q, token = %[2]q, tls { ca_cert = %[3]q, ` + client + `server_name = "server.dc1.consul" }`, ""},
		{"a folder of authorities", `address = %[1]q, token = %[2]q, tls { ca_path = %[6]q, ` + client + `server_name = "server.dc1.consul" }`, ""},
		{"certificate and key in one file", `address = %[1]q, token = %[2]q, tls { ca_cert = %[3]q, cert = %[7]q, server_name = "server.dc1.consul" }`, ""},
		{"a certificate that is not verified", `address = %[1]q, token = %[2]q, tls { verify = false, ` + client + `}`, ""},
		{"by URL", `address = "https://%[1]s", token = %[2]q, tls { ca_cert = %[3]q, ` + client + `server_name = "server.dc1.consul" }`, ""},
		{"the wrong name", `address = %[1]q, token = %[2]q, tls { ca_cert = %[3]q, ` + client + `}`, "127.0.0.1"},
		{"no authority", `address = %[1]q, token = %[2]q, tls { ` + client + `server_name = "server.dc1.consul" }`, "unknown authority"},
		{"no client certificate", `address = %[1]q, token = %[2]q, tls { ca_cert = %[3]q, server_name = "server.dc1.consul" }`, "task web"},
		{"no token", `address = %[1]q, tls { ca_cert = %[3]q, ` + client + `server_name = "server.dc1.consul" }`, "Permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, fileModule)
			block := fmt.Sprintf(c.consul+"%[8]s", at, token, ca.path("ca"), ca.path("client"), ca.path("client-key"),
				filepath.Dir(ca.path("ca")), ca.path("client-both"), "")
			err := f.applyWith("consul {\n" + strings.ReplaceAll(block, ", ", "\n") + "\n}")
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%v\n%s", err, f.log.String())
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error is %v, and lacks %q", err, c.want)
			}
			if pair, _, err := server.Client().KV().Get("consul-terraform-sync/terraform-env:web", nil); err != nil || (pair == nil) != (c.want != "") {
				t.Errorf("the state is %v (%v)", pair, err)
			}
			if _, err := server.Client().KV().DeleteTree("consul-terraform-sync/", nil); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAConsulBehindBasicAuthenticationHoldsTheState(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	server := consultest.Start(t)
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Addr()})
	asked := make(chan string, 10_000)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		asked <- user + ":" + password
		if user != "sync" || password != "pa:ss" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	defer front.Close()
	at := strings.TrimPrefix(front.URL, "http://")

	f := newFixture(t, fileModule)
	if err := f.applyWith(fmt.Sprintf("consul {\naddress = %q\nauth {\nusername = \"sync\"\npassword = \"pa:ss\"\n}\n}", at)); err != nil {
		t.Errorf("%v\n%s", err, f.log.String())
	}
	if pair, _, err := server.Client().KV().Get("consul-terraform-sync/terraform-env:web", nil); err != nil || pair == nil {
		t.Errorf("no state: %v", err)
	}
	if text := f.log.String() + read(t, filepath.Join(f.dir, "main.tf")); strings.Contains(text, "pa:ss") {
		t.Error("the password was written down")
	}

	// A backend that is elsewhere is not told the password.
	for len(asked) > 0 {
		<-asked
	}
	err := f.applyWith(fmt.Sprintf("consul {\naddress = \"127.0.0.1:1\"\nauth {\nusername = \"sync\"\npassword = \"pa:ss\"\n}\n}\n"+
		"driver \"terraform\" {\nbackend \"consul\" {\naddress = %q\n}\n}", at))
	if err == nil || !strings.Contains(err.Error(), "who are you?") {
		t.Errorf("a backend elsewhere was reached with %v", err)
	}
	for len(asked) > 0 {
		if credentials := <-asked; credentials != ":" {
			t.Errorf("a backend elsewhere was told %q", credentials)
		}
	}
}
