package support_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/process/support"
)

func TestClean_RemovesWhatLooksLikeASecret(t *testing.T) {
	clean := support.NewCleaner([]string{"CONSUL_HTTP_TOKEN=6f1c22a9-1d5c-4c2e-8f43-0a9b5f3d0f11", "DEBUG_TOKEN=1", "TERRAPULSE_TOKEN_FILE=/etc/token", "HOME=/home/ann"}, "given-by-flag")
	for text, want := range map[string]string{
		"X-Consul-Token 6f1c22a9-1d5c-4c2e-8f43-0a9b5f3d0f11 refused": "X-Consul-Token (removed) refused",
		"a given-by-flag b":                                                     "a (removed) b",
		`{"password": "a \"b\" c", "n": 1}`:                                     `{"password": "(removed)", "n": 1}`,
		`{"output": "db_password = \"hunter2\"\nport = 1"}`:                     `{"output": "db_password = \"(removed)\"\nport = 1"}`,
		`+ client_secret = "x y z"`:                                             `+ client_secret = "(removed)"`,
		"auth:\n  password: abcdef\n  user: ann":                                "auth:\n  password: (removed)\n  user: ann",
		"users:\n- token: abcdef":                                               "users:\n- token: (removed)",
		`apiKey: abcdef`:                                                        `apiKey: (removed)`,
		`https://ann:s3cret@proxy.example.com/`:                                 `https://ann:(removed)@proxy.example.com/`,
		`Authorization: Bearer abcdefghijkl`:                                    `Authorization: Bearer (removed)`,
		`key AKIAABCDEFGHIJKLMNOP used`:                                         `key (removed) used`,
		`vault hvs.CAESIJzL3bW9cD8eF7gH6iJ5kL4mN3 x`:                            `vault (removed) x`,
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----":   "(removed)",
		`{"k":"-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"}`: `{"k":"(removed)\n"}`,
		`https://hooks.slack.com/services/T0/B0/xyz`:                            `(removed)`,
		`~ password = "old one" -> "new one" # forces replacement`:              `~ password = "(removed)" -> "(removed)" # forces replacement`,
		`"cause": "~ password = \"old\" -> \"new\""`:                            `"cause": "~ password = \"(removed)\" -> \"(removed)\""`,
		"+ secret = <<-EOT\n    one\n    two\n    EOT\n+ port = 1":              "+ secret = (removed)\n+ port = 1",
		"passwords = [\n  + \"one\",\n  + \"two\",\n]":                          "passwords = [\n  + \"(removed)\",\n  + \"(removed)\",\n]",
		`{"credentials": {"user": "ann", "value": "x y"}, "tags": ["a"]}`:       `{"credentials": {"user": "(removed)", "value": "(removed)"}, "tags": ["a"]}`,
		`password = "12345678", password='two words', PASSWORD=123456`:          `password = "(removed)", password='(removed)', PASSWORD=(removed)`,
		`git::https://abcdefghij0123456789abcd@dev.azure.com/org/repo`:          `git::https://(removed)@dev.azure.com/org/repo`,
		`TFE abcdefghij0123.atlasv1.abcdefghij0123456789abcd`:                   `TFE (removed)`,
		`https://discord.com/api/webhooks/1/abc`:                                `(removed)`,
		`?X-Amz-Date=20261122&X-Amz-Signature=abcdef&x=1`:                       `?X-Amz-Date=20261122&X-Amz-Signature=(removed)&x=1`,
		`snmp_community = "corp", pre_shared_key: "x1", phash = "$1$abc"`:       `snmp_community = "(removed)", pre_shared_key: "(removed)", phash = "(removed)"`,
		`{"msg":"x","error":"{\"error\":\"password = \\\"S3\\\"\"}"}`:           `{"msg":"x","error":"{\"error\":\"password = \\\"(removed)\\\"\"}"}`,
		`secrets = { db = { value = "S3" } }`:                                   `secrets = { db = { value = "(removed)" } }`,
		`passwords = toset(["S3"])`:                                             `passwords = (removed)(["(removed)"])`,
		`"client_secret" = {"v": ["S3"]}`:                                       `"client_secret" = {"(removed)": ["(removed)"]}`,
		`run x --db-password S3 -v; curl -u ann:S3 x`:                           `run x --db-password (removed) -v; curl -u ann:(removed) x`,
		`Error: invalid password "S3 x" for ann`:                                `Error: invalid password (removed) for ann`,
		`<user>ann</user><password>S3</password><key>S3</key>`:                  `<user>ann</user><password>(removed)</password><key>(removed)</key>`,
		`?type=op&key=LUFRPT1abcdefghij=`:                                       `?type=op&key=(removed)`,
		`Authorization: Token abcdefgh`:                                         `Authorization: Token (removed)`,
		`PGPASSWORD=S3 X-PAN-KEY: S3 routing_key = "S3"`:                        `PGPASSWORD=(removed) X-PAN-KEY: (removed) routing_key = "(removed)"`,
		`token 11111111-2222-3333-4444-555555555555`:                            `token (removed)`,
		// What helps and is no secret stays.
		`"SecretArns": "arn:aws:ssm:eu-west-1:1:parameter/x"`:          `"SecretArns": "arn:aws:ssm:eu-west-1:1:parameter/x"`,
		`{"next_token": null, "token_file": "/etc/token"}`:             `{"next_token": null, "token_file": "/etc/token"}`,
		`password = (sensitive value)`:                                 `password = (sensitive value)`,
		`file /etc/token, DEBUG 1, home /home/ann`:                     `file /etc/token, DEBUG 1, home /home/ann`,
		`token with AccessorID '11111111-2222-3333-4444-555555555555'`: `token with AccessorID '11111111-2222-3333-4444-555555555555'`,
		`tokens = 12`: `tokens = 12`,
		`git::ssh://git@git.example.com/network/modules.git?ref=v1`: `git::ssh://git@git.example.com/network/modules.git?ref=v1`,
		`~ ports = "80" -> "81"`:                                    `~ ports = "80" -> "81"`,
		`"run": "01a203b1-e6f8-7ccb-9487-fa1e57d88582"`:             `"run": "01a203b1-e6f8-7ccb-9487-fa1e57d88582"`,
	} {
		if got := string(clean.Clean([]byte(text))); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
}

func TestClean_RemovesKnownSecretsHoweverTheyAreWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("kept in a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clean := support.NewCleaner([]string{"DB_PASSWORD=p\"w\\ 1&", "VAULT_TOKEN_FILE=" + file, "API_TOKEN_FILE=/dev/null/none"})
	for _, text := range []string{`a p"w\ 1& b`, `a p\"w\\ 1& b`, `a p\\\"w\\\\ 1& b`, `a p%22w%5C+1%26 b`, `a p%22w%5C%201& b`, `a kept in a file b`} {
		if got := string(clean.Clean([]byte(text))); got != "a (removed) b" {
			t.Errorf("%s becomes %s", text, got)
		}
	}
}

// The end of half a secret would not be recognised.
func TestWrite_SecretsAreRemovedBeforeATextIsCut(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("planted\n", 20) + "-----END PRIVATE KEY-----\nthe end\n"
	var archive bytes.Buffer
	_, err := support.Write(t.Context(), &archive, "f", time.Now(), []support.Part{{Name: "output.txt", Last: 60, Read: func(context.Context) (any, error) {
		return []byte("the beginning " + strings.Repeat("x", 60) + "\n" + key), nil
	}}}, support.NewCleaner(nil))
	if err != nil {
		t.Fatal(err)
	}
	read, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil {
		t.Fatal(err)
	}
	content, err := fs.ReadFile(read, "f/output.txt")
	if err != nil || string(content) != "(removed)\nthe end\n" {
		t.Errorf("%q, %v", content, err)
	}
}
