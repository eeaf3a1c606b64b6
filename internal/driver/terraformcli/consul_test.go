package terraformcli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

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

func TestConsulBackend_WithTLSAndPrivateCA(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ca := testtools.NewAuthority(t)
	serverCert, serverKey := ca.Server("server", "server.dc1.consul")
	cert, key := ca.Client("client")
	both, folder := filepath.Join(t.TempDir(), "both.pem"), t.TempDir()
	write(t, both, read(t, cert)+read(t, key))
	write(t, filepath.Join(folder, "ca.pem"), read(t, ca.CA))
	server := consultest.Start(t, consultest.WithACLs(), consultest.WithTLS(ca.CA, serverCert, serverKey))
	token := stateToken(t, server)
	at := server.TLSAddr()

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
		{"another name", `address = %[1]q, token = %[2]q, tls { ca_cert = %[3]q, ` + client + `server_name = "server.dc2.consul" }`, "server.dc2.consul"},
		{"no authority", `address = %[1]q, token = %[2]q, tls { ` + client + `server_name = "server.dc1.consul" }`, "unknown authority"},
		{"no client certificate", `address = %[1]q, token = %[2]q, tls { ca_cert = %[3]q, server_name = "server.dc1.consul" }`, "task web"},
		{"no token", `address = %[1]q, tls { ca_cert = %[3]q, ` + client + `server_name = "server.dc1.consul" }`, "Permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, fileModule)
			block := fmt.Sprintf(c.consul+"%[8]s", at, token, ca.CA, cert, key, folder, both, "")
			err := f.applyWith("consul {\n" + strings.ReplaceAll(block, ", ", "\n") + "\n}")
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%v\n%s", err, f.log.String())
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error is %v, and lacks %q", err, c.want)
			}
			if pair, _, err := server.Client().KV().Get("consul-terraform-sync/terraform-env:web", nil); err != nil || (pair == nil) != (c.want != "") {
				t.Errorf("there is a state: %v (%v)", pair != nil, err)
			}
			if _, err := server.Client().KV().DeleteTree("consul-terraform-sync/", nil); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The token can read and write the states of all tasks.
func TestApply_ConsulsTokenReachesTheBackendAndNotTheModule(t *testing.T) {
	if testing.Short() || !tokenPipes {
		t.Skip("takes seconds, or has no pipes to tell readers apart")
	}
	server := consultest.Start(t, consultest.WithACLs())
	token := stateToken(t, server)
	block := fmt.Sprintf("consul {\naddress = %q\ntoken = %q\n}", server.Addr(), token)
	f := newFixture(t, `
variable "services" {}
resource "terraform_data" "curious" {
  provisioner "local-exec" { command = "env > ${path.module}/env; cat $CONSUL_HTTP_TOKEN_FILE > ${path.module}/file; tr '\\0' '\\n' < /proc/$PPID/environ > ${path.module}/parent" }
}
`)
	if err := f.applyWith(block); err != nil {
		t.Fatalf("%v\n%s", err, f.log.String())
	}
	if pair, _, err := server.Client().KV().Get("consul-terraform-sync/terraform-env:web", nil); err != nil || pair == nil {
		t.Errorf("no state: %v", err)
	}
	if env := read(t, filepath.Join(f.module, "env")); !strings.Contains(env, "CONSUL_HTTP_ADDR=") || !strings.Contains(read(t, filepath.Join(f.module, "parent")), "CONSUL_HTTP_ADDR=") {
		t.Errorf("the module saw no environment: %s", env)
	}
	for _, name := range []string{"env", "file", "parent"} {
		if text := read(t, filepath.Join(f.module, name)); strings.Contains(text, token) {
			t.Errorf("the module found the token in %s: %s", name, text)
		}
	}
}

func TestConsulBackend_WithBasicAuthentication(t *testing.T) {
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

	// A backend at another address does not get the password.
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
