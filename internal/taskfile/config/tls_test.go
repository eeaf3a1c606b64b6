package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pair is a certificate and its private key, in PEM.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	src, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: src}))
}

func TestLoad_TLSOfTheAPI(t *testing.T) {
	cert, key := pair(t)
	_, other := pair(t)
	dir := write(t, "cert.pem", cert, "key.pem", key, "other.pem", other, "both.pem", cert+key, "ca.pem", cert, "ca.d/ca.pem", cert, "text.pem", "x")
	const files = "cert = \"cert.pem\"\nkey = \"key.pem\"\n"
	in := func(name string) string { return filepath.Join(dir, name) }
	whole := APITLS{Enabled: true, Cert: in("cert.pem"), Key: in("key.pem")}
	for _, tt := range []struct {
		name, inside string
		want         APITLS
		said         string // of what is wrong, or the warning
	}{
		{"nothing", "", APITLS{}, ""},
		{"a pair turns it on", files, whole, ""},
		{"off, although a pair is there", files + "enabled = false", APITLS{}, ""},
		{"off, and what is missing does not matter", "enabled = false\ncert = \"gone.pem\"", APITLS{}, ""},
		{"one file for both", "cert = \"both.pem\"\nkey = \"both.pem\"", APITLS{Enabled: true, Cert: in("both.pem"), Key: in("both.pem")}, ""},
		{"clients with certificates of a CA", files + "verify_incoming = true\nca_cert = \"ca.pem\"",
			APITLS{Enabled: true, Cert: whole.Cert, Key: whole.Key, VerifyIncoming: true, CACert: in("ca.pem")}, ""},
		{"and of a folder of CAs", files + "verify_incoming = true\nca_path = \"ca.d\"",
			APITLS{Enabled: true, Cert: whole.Cert, Key: whole.Key, VerifyIncoming: true, CAPath: in("ca.d")}, ""},
		{"the file of the CA wins", files + "verify_incoming = true\nca_cert = \"ca.pem\"\nca_path = \"ca.d\"",
			APITLS{Enabled: true, Cert: whole.Cert, Key: whole.Key, VerifyIncoming: true, CACert: in("ca.pem"), CAPath: in("ca.d")},
			"f.hcl:6: tls.ca_path: ca_path has no effect beside ca_cert; remove one of them"},
		{"any key turns it on", "ca_cert = \"ca.pem\"", APITLS{}, "f.hcl:1: tls: key and cert are required if TLS is enabled on the API; set tls.key and tls.cert, or tls.enabled to false"},
		{"a key without its certificate", "key = \"key.pem\"", APITLS{}, "f.hcl:1: tls.cert: cert is required if key is configured for TLS on the API; the certificate's file"},
		{"a certificate without its key", "cert = \"cert.pem\"", APITLS{}, "f.hcl:1: tls.key: key is required if cert is configured for TLS on the API; the private key's file"},
		{"the key of another certificate", "cert = \"cert.pem\"\nkey = \"other.pem\"", APITLS{}, "f.hcl:2: tls.cert: cert \"cert.pem\" and key \"other.pem\" do not load: tls: private key does not match public key"},
		{"a certificate that is none", "cert = \"text.pem\"\nkey = \"key.pem\"", APITLS{}, "f.hcl:2: tls.cert: cert \"text.pem\" and key \"key.pem\" do not load: tls: failed to find any PEM data in certificate input"},
		{"no CA for the clients", files + "verify_incoming = true", APITLS{}, "f.hcl:4: tls.verify_incoming: either ca_cert or ca_path is required if verify_incoming is enabled on the API"},
		{"a CA that is gone", files + "verify_incoming = true\nca_cert = \"gone.pem\"", APITLS{}, "f.hcl:5: tls.ca_cert: stat gone.pem: no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			writeFile(t, dir, "f.hcl", "tls {\n"+tt.inside+"\n}\n")
			cfg, err := Load(options(dir, "f.hcl"))
			if err != nil {
				if err.Error() != tt.said {
					t.Errorf("said:\n%s\nwant:\n%s", err, tt.said)
				}
				return
			}
			if diff := cmp.Diff(tt.want, cfg.TLS); diff != "" {
				t.Errorf("unexpected (-want +got):\n%s", diff)
			}
			if said := strings.Trim(fmt.Sprint(cfg.Warnings), "[]"); said != tt.said {
				t.Errorf("warned:\n%s\nwant:\n%s", said, tt.said)
			}
		})
	}
}

func TestLoad_Vault(t *testing.T) {
	dir := write(t, "agent", "from-agent\n", "home/.vault-token", "from-home\n")
	type vault struct {
		Enabled           bool
		Token             string
		Renew, Unwrap, On bool // On: TLS
		Verify            bool
	}
	for _, tt := range []struct {
		name, inside string
		env          map[string]string
		want         vault
	}{
		{"nothing", "", nil, vault{On: true, Verify: true}},
		{"an address turns it on", `address = "http://v"`, nil, vault{Enabled: true, On: true, Verify: true}},
		{"a variable does, too", "", map[string]string{"VAULT_ADDR": "http://v"}, vault{Enabled: true, On: true, Verify: true}},
		{"off", "enabled = false\naddress = \"http://v\"", map[string]string{"HOME": filepath.Join(dir, "home")}, vault{On: true, Verify: true}},
		{"the token that the CLI has left", `address = "http://v"`, map[string]string{"HOME": filepath.Join(dir, "home")}, vault{Enabled: true, Token: "from-home", Renew: true, On: true, Verify: true}},
		{"a variable before that", `address = "http://v"`, map[string]string{"HOME": filepath.Join(dir, "home"), "VAULT_TOKEN": "from-env"}, vault{Enabled: true, Token: "from-env", Renew: true, On: true, Verify: true}},
		{"the key before both", "address = \"http://v\"\ntoken = \"t\"", map[string]string{"VAULT_TOKEN": "from-env"}, vault{Enabled: true, Token: "t", Renew: true, On: true, Verify: true}},
		{"the agent's file before all", "address = \"http://v\"\ntoken = \"t\"\nvault_agent_token_file = \"agent\"", map[string]string{"VAULT_TOKEN": "from-env"}, vault{Enabled: true, Token: "from-agent", On: true, Verify: true}},
		{"the agent's token is renewed only on demand", "address = \"http://v\"\nvault_agent_token_file = \"agent\"\nrenew_token = true", nil, vault{Enabled: true, Token: "from-agent", Renew: true, On: true, Verify: true}},
		{"a token that is not renewed", "address = \"http://v\"\ntoken = \"t\"\nrenew_token = false", map[string]string{"VAULT_RENEW_TOKEN": "true"}, vault{Enabled: true, Token: "t", On: true, Verify: true}},
		{"nor by a variable", "address = \"http://v\"\ntoken = \"t\"", map[string]string{"VAULT_RENEW_TOKEN": "false"}, vault{Enabled: true, Token: "t", On: true, Verify: true}},
		{"a wrapped token", "address = \"http://v\"\ntoken = \"t\"\nunwrap_token = true", nil, vault{Enabled: true, Token: "t", Renew: true, Unwrap: true, On: true, Verify: true}},
		{"TLS off", "address = \"http://v\"\ntls { enabled = false }", nil, vault{Enabled: true, Verify: true}},
		{"the key wins over VAULT_SKIP_VERIFY", "address = \"http://v\"\ntls { verify = true }", map[string]string{"VAULT_SKIP_VERIFY": "true"}, vault{Enabled: true, On: true, Verify: true}},
		{"VAULT_SKIP_VERIFY", `address = "http://v"`, map[string]string{"VAULT_SKIP_VERIFY": "true"}, vault{Enabled: true, On: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			writeFile(t, dir, "f.hcl", "vault {\n"+tt.inside+"\n}\n")
			o := options(dir, "f.hcl")
			o.Getenv = environment(tt.env)
			v := mustLoad(t, o).Vault
			if diff := cmp.Diff(tt.want, vault{v.Enabled, v.Token, v.RenewToken, v.UnwrapToken, v.TLS.Enabled, v.TLS.Verify}); diff != "" {
				t.Errorf("unexpected (-want +got):\n%s", diff)
			}
		})
	}
	if got := mistakes(t, "f.hcl", "vault {\n address = \"http://v\"\n vault_agent_token_file = \"gone\"\n}"); got != "f.hcl:3: vault.vault_agent_token_file: open gone: no such file or directory" {
		t.Errorf("said %s", got)
	}
}
