package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// This Consul speaks to those alone who show a certificate of a private authority, and denies everything to those
// without a token.
func TestAConsulThatAsksForCertificatesAndTokensIsFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ca := testtools.NewAuthority(t)
	serverCert, serverKey := ca.Server("consul", "server.dc1.consul")
	s := newParallelSite(t, consultest.WithACLs(), consultest.WithTLS(ca.CA, serverCert, serverKey))
	policies := documentedPolicies(t)
	token := s.token("all", policies["Services by name"]+policies["Terraform's state"]+policies["Self-registration"])
	s.register("web", "web-1", 8080, "passing")
	cert, key := ca.Client("terrapulse")
	apiCert, apiKey := ca.Server("api")
	// With a certificate, the check of Consul's agent goes over TLS, too.
	config := func(more string) string {
		return s.write("tasks.hcl", fmt.Sprintf(`
port = 0
id = "cts-secured"
working_dir = %q
consul {
  address = %q
  token   = %q
  tls {
    ca_cert = %q
    %s
  }
}
tls {
  cert = %q
  key  = %q
}
`, s.path("work"), s.consul.TLSAddr(), token, ca.CA, more, apiCert, apiKey)+s.task("out", onWeb))
	}

	// Without a certificate of its own it is told what is missing.
	r := s.run("start", "-once", "-config-file", config(""))
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "certificate required")

	p := s.start("-config-file", config(fmt.Sprintf("cert = %q\n    key = %q", cert, key)))
	eventually(t, "the first apply", func() bool { return strings.Contains(s.read("out.txt"), "8080") })
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "a change is applied", func() bool { return strings.Contains(s.read("out.txt"), "8081") })
	state, _, err := s.consul.Client().KV().Get("consul-terraform-sync/terraform-env:out", nil)
	if err != nil || state == nil {
		t.Errorf("the state is not in Consul: %v %v", state, err)
	}
	eventually(t, "it is registered and well", func() bool {
		checks, _, err := s.consul.Client().Health().Checks("consul-terraform-sync", nil)
		return err == nil && len(checks) == 1 && checks[0].ServiceID == "cts-secured" && checks[0].Status == api.HealthPassing
	})
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(p.stderr.String(), token) {
		t.Error("the token is in the log")
	}

	// Commands that read a cluster need no configuration file: the environment says how to reach Consul, as for
	// Consul's own commands.
	for name, value := range map[string]string{
		"CONSUL_HTTP_ADDR": s.consul.TLSAddr(), "CONSUL_HTTP_SSL": "true", "CONSUL_CACERT": ca.CA, "CONSUL_CLIENT_CERT": cert, "CONSUL_CLIENT_KEY": key,
		"CONSUL_HTTP_TOKEN": s.token("reader", `key_prefix "consul-terraform-sync/" { policy = "read" }`),
	} {
		s.env = append(s.env, name+"="+value)
	}
	r = s.run("status", "-store", clusterStore)
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "No task has been decided on yet")

	s.env = append(s.env, "CONSUL_HTTP_TOKEN=", "CONSUL_HTTP_TOKEN_FILE="+s.path("none"))
	r = s.run("status", "-store", clusterStore)
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "CONSUL_HTTP_TOKEN_FILE")
}
