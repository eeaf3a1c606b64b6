package bundle_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// places returns the places of the findings: file, line and key.
func places(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	found := config.Errors{}
	if !errors.As(err, &found) {
		t.Fatal(err)
	}
	var all []string
	for _, d := range found {
		if d.Hint == "" || strings.Contains(d.String(), "S3CRET") {
			t.Errorf("it says: %s", d)
		}
		all = append(all, strings.TrimSuffix(d.Position.String()+" "+d.Key, " "))
	}
	return all
}

func TestCheckSecrets_FindsPlainText(t *testing.T) {
	dir := written(t, map[string]string{
		"net/tasks/a.yaml": `
consul:
  token: S3CRET
  auth: {username: me, password: S3CRET}
vault: {address: "http://x", token: hvs.S3CRET}
driver:
  terraform:
    backend:
      s3: {bucket: b, key: k, region: r, access_key: AKIAS3CRET, secret_key: S3CRET}
terraform_provider:
  aws: {region: x, accessKey: S3CRET}
  f5: {address: "https://admin:S3CRET@f5.example.com"}
  panos:
    hostname: x
    api_key: 12345
    login: [{client-secret: S3CRET}]
    task_env: {PANOS_PASSWORD: S3CRET, TF_TOKEN_example_com: S3CRET}
task:
  - name: a
    module: ./m
    variable_files: [a.tfvars, b.tfvars.json]
    variables:
      db_password: '"S3CRET"'
      users: '[{name = "x", private_key = "S3CRET"}]'
      secret_id: '"11111111-2222-3333-4444-555555555555"'
`,
		"net/a.tfvars":             "\nsnmp = {\n  auth_key = \"S3CRET\"\n}\ntokens = [\"S3CRET\"]\n",
		"net/b.tfvars.json":        `{"passphrase": "S3CRET"}`,
		"net/m/main.tf":            `variable "password" { default = "S3CRET" }`, // code is not looked at
		"net/m/terraform.tfvars":   `password = "S3CRET"`,
		"net/m/certs/key.pem":      "x\n-----BEGIN RSA PRIVATE KEY-----\nS3CRET",
		"net/m/certs/ca.pem":       "-----BEGIN CERTIFICATE-----\n",
		"net/m/variables.tf":       `variable "db_password" {}`,
		"net/sync-tasks/a/x.tfvas": "password = 1",
	})
	want := []string{
		"tasks/a.yaml:3 consul.token",
		"tasks/a.yaml:4 consul.auth.password",
		"tasks/a.yaml:5 vault.token",
		"tasks/a.yaml:9 driver.terraform.backend.s3.access_key",
		"tasks/a.yaml:9 driver.terraform.backend.s3.secret_key",
		"tasks/a.yaml:11 terraform_provider.aws.accessKey",
		"tasks/a.yaml:12 terraform_provider.f5.address",
		"tasks/a.yaml:15 terraform_provider.panos.api_key",
		"tasks/a.yaml:16 terraform_provider.panos.login[0].client-secret",
		"tasks/a.yaml:17 terraform_provider.panos.task_env.PANOS_PASSWORD",
		"tasks/a.yaml:17 terraform_provider.panos.task_env.TF_TOKEN_example_com",
		"tasks/a.yaml:23 task[0].variables.db_password",
		"tasks/a.yaml:24 task[0].variables.users[0].private_key",
		"tasks/a.yaml:25 task[0].variables.secret_id",
		"a.tfvars:3 snmp.auth_key",
		"a.tfvars:5 tokens[0]",
		"b.tfvars.json:1 passphrase",
		"m/certs/key.pem:2",
		"m/terraform.tfvars:1 password",
	}
	got := places(t, bundle.CheckSecrets(load(t, dir, "tasks")))
	if diff := strings.Join(got, "\n"); diff != strings.Join(want, "\n") {
		t.Errorf("found:\n%s\nwant:\n%s", diff, strings.Join(want, "\n"))
	}
}

func TestCheckSecrets_AcceptsKeysThatOnlyDescribeASecret(t *testing.T) {
	dir := written(t, map[string]string{
		"net/tasks/a.yaml": `
consul: {tls: {enabled: true}, kv_path: tokens/}
vault: {address: "http://x", renew_token: true, unwrap_token: false}
terraform_provider:
  vault:
    token_name: terrapulse
    skip_child_token: true
    address: https://vault.example.com
  google: {credentials: ./google.json}
  x:
    token_file: /run/token
    secretArn: arn:aws:secretsmanager:eu-central-1:1:secret:x
    password_length: 20
    api_key: '{{ env "X" }}'
    auth_token: 'Bearer {{ key "x" }}'
    token: ""
    client_key: ~/.ssh/id
    tls_private_key: certs/key.pem
    max_token_ttl: 1h
    task_env: {AWS_ACCESS_KEY_ID: x, AWS_SHARED_CREDENTIALS_FILE: /x}
task:
  - name: token
    module: ./m
    variables:
      secret_name: '"network/firewall"'
      password_secret_arn: '"arn:aws:secretsmanager:eu-central-1:1:secret:x"'
      secret: '"arn:aws:secretsmanager:eu-central-1:1:secret:x"'
      keyboard: '"x"'
      secretary: '"x"'
    condition: {consul-kv: {path: password}}
`,
		"net/m/main.tf": `resource "x" "y" { password = var.password }`,
	})
	if got := places(t, bundle.CheckSecrets(load(t, dir, "tasks"))); len(got) > 0 {
		t.Errorf("found:\n%s", strings.Join(got, "\n"))
	}
}

func TestCheckPlaces_FindsSettingsForOneMachine(t *testing.T) {
	dir := written(t, map[string]string{"net/a.hcl": `
consul {
  tls {
    ca_cert = "/etc/consul/ca.pem"
    cert = "cert.pem"
    key = "key.pem"
  }
}
driver "terraform" { 
  backend "local" {} 
}
task { 
  name = "a"
  module = "x/y/z" 
}
`})
	want := "a.hcl:4 consul.tls.ca_cert\na.hcl:5 consul.tls.cert\na.hcl:6 consul.tls.key\na.hcl driver.terraform.backend.local"
	if got := strings.Join(places(t, bundle.CheckPlaces(load(t, dir, "a.hcl"))), "\n"); got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
	if err := bundle.CheckPlaces(load(t, written(t, checkout), "tasks")); err != nil {
		t.Error(err)
	}
}

func TestCheck_HCPTerraformIsReachedFromAWS(t *testing.T) {
	dir := written(t, map[string]string{"net/a.hcl": `
driver "terraform-cloud" {
  token = "S3CRET"
  tls {
    ca_cert = "/etc/tfe/ca.pem"
  }
}
`})
	o := options(dir, "a.hcl")
	o.Getenv = func(name string) string { return map[string]string{"TFC_ORGANIZATION": "network"}[name] }
	cfg, err := config.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(places(t, bundle.CheckPlaces(cfg)), "\n"), "a.hcl:5 driver.terraform-cloud.tls.ca_cert\na.hcl driver.terraform-cloud.organization"; got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
	if got, want := strings.Join(places(t, bundle.CheckSecrets(cfg)), "\n"), "a.hcl:3 driver.terraform-cloud.token"; got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
}

func TestCheck_TemplatesThatTheFunctionCannotEvaluate(t *testing.T) {
	dir := written(t, map[string]string{"net/a.hcl": `
driver "terraform-cloud" {
  organization = "network"
  token        = "{{ key \"hcp/token\" }}"
}
terraform_provider "good" {
  token = "{{ secretsmanager \"arn\" }}"
}
terraform_provider "bad" {
  token = "{{ key \"a/b\" }}"
}
task {
  name      = "a"
  module    = "x/y/z"
  providers = ["good", "bad"]
}
task {
  name      = "b"
  module    = "x/y/z"
  providers = ["bad"]
}
`})
	want := "a.hcl driver.terraform-cloud.token\na.hcl:12"
	if got := strings.Join(places(t, bundle.CheckPlaces(load(t, dir, "a.hcl"))), "\n"); got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
}

func TestCheck_NotifyBlocksThatAWSCannotRun(t *testing.T) {
	dir := written(t, map[string]string{"net/a.hcl": `
notify "command" {
  command = ["true"]
}
notify "slack" {
  url = "https://hooks.slack.com/services/{{ key \"slack\" }}"
}
notify "webhook" {
  url     = "https://example.com"
  secret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
  headers = { Authorization = "{{ ssm \"token\" }}" }
}
notify "slack" {
  name = "literal"
  url  = "https://hooks.slack.com/services/T/B/x"
}
`})
	if got, want := strings.Join(places(t, bundle.CheckPlaces(load(t, dir, "a.hcl"))), "\n"), "a.hcl:2 notify[0].command\na.hcl:5 notify[1].slack.url"; got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
	if got, want := strings.Join(places(t, bundle.CheckSecrets(load(t, dir, "a.hcl"))), "\n"), "a.hcl:10 notify[2].webhook.secret\na.hcl:15 notify[3].slack.url"; got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
}

func TestCheckPlaces_FindsFilesOfTheDaemonAndOfVault(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	pair(t, cert, key)
	daemon := fmt.Sprintf(`
tls {
  cert = %q
  key  = %q
}
vault {
  address = "https://vault.example.com"
  vault_agent_token_file = %[2]q
  tls { ca_cert = %[1]q }
}
`, cert, key)
	task := `
task {
  name = "a"
  module = "x/y/z"
}
`
	dir := written(t, map[string]string{"net/a.hcl": daemon + task, "net/off.hcl": strings.ReplaceAll(daemon, "{\n", "{\n  enabled = false\n") + task})
	want := "a.hcl:3 tls.cert\na.hcl:4 tls.key\na.hcl:8 vault.vault_agent_token_file\na.hcl:9 vault.tls.ca_cert"
	if got := strings.Join(places(t, bundle.CheckPlaces(load(t, dir, "a.hcl"))), "\n"); got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
	if err := bundle.CheckPlaces(load(t, dir, "off.hcl")); err != nil {
		t.Errorf("what is switched off needs no files: %v", err)
	}
}

// pair writes a certificate and its key.
func pair(t *testing.T, cert, key string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]pem.Block{cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(&block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheck_VerificationsThatTheFunctionCannotCarryOut(t *testing.T) {
	tasks := func(driver string) string {
		return driver + `
task {
  name   = "web"
  module = "x/y/z"
  verify "open" {
    http { url = "https://10.0.0.1/health" }
  }
  verify "secret" {
    http {
      url     = "https://10.0.0.1/health"
      headers = { Authorization = "Bearer {{ env \"PROBE_WORD\" }}" }
    }
  }
  verify "program" { command = ["true"] }
  verify "module" { terraform = true }
  verify "off" {
    command = ["true"]
    enabled = false
  }
}
`
	}
	dir := written(t, map[string]string{"net/a.hcl": tasks("driver \"terraform-cloud\" {\n  organization = \"network\"\n  token = \"t\"\n}\n"), "net/b.hcl": tasks("")})
	if got, want := strings.Join(places(t, bundle.CheckPlaces(load(t, dir, "a.hcl"))), "\n"), "a.hcl:6 verify.program\na.hcl:6 verify.secret"; got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
	if err := bundle.CheckPlaces(load(t, dir, "b.hcl")); err != nil {
		t.Errorf("in a container: %v", err)
	}
}
