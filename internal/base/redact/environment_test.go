package redact

import (
	"os"
	"strings"
	"testing"
)

func TestEnvironment_SecretsThatTerraformInherits(t *testing.T) {
	file := t.TempDir() + "/key"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ entry, text, want string }{
		{"TF_TOKEN_registry_example_region=tok3n-of-registry", "Bearer tok3n-of-registry", "Bearer (redacted)"},
		{"AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE", "(redacted)"},
		{"AWS_SECRET_ACCESS_KEY=/alrXUtnFEMI/K7MDENG", "key /alrXUtnFEMI/K7MDENG", "key (redacted)"},
		{"AWS_SESSION_TOKEN=FwoGZXIvYXdzEBY", "X-Amz-Security-Token: FwoGZXIvYXdzEBY", "X-Amz-Security-Token: (redacted)"},
		{"GITHUB_TOKEN=ghp_0123456789", "https://x:ghp_0123456789@github.com", "https://x:(redacted)@github.com"},
		{"PGPASSWORD=s3cr3t!", "s3cr3t!", "(redacted)"},
		{"HTTPS_PROXY=http://user:p%40ss-word@proxy:3128", "user p@ss-word p%40ss-word at proxy", "user (redacted) (redacted) at proxy"},
		{"GIT_CONFIG_KEY_0=url.https://github_pat_0123456789abc@github.com/.insteadOf", "github_pat_0123456789abc", "(redacted)"},
		{"GIT_CONFIG_VALUE_0=Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "(redacted)"},
		{`GOOGLE_CREDENTIALS={"private_key": "-----BEGIN KEY-----\nabcdefgh\n", "project_id": "network"}`, "abcdefgh of network", "(redacted) of network"},

		{"AWS_ACCESS_KEY_ID=test", "a test", "a test"},
		{"AWS_SECRET_ACCESS_KEY=test", "a test", "a test"},
		{"USE_PASSWORD=false", "is false", "is false"},
		{"MAX_TOKENS=4096", "at 4096", "at 4096"},
		{"AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/token", "/var/run/token", "/var/run/token"},
		{"TLS_PRIVATE_KEY=" + file, file, file},
		{"GOOGLE_CREDENTIALS=~/google.json", "~/google.json", "~/google.json"},
		{"PATH=/usr/bin:/bin", "/usr/bin:/bin", "/usr/bin:/bin"},
		{"NO_PROXY=consul.example.com", "consul.example.com", "consul.example.com"},
	} {
		if got := New(nil, Environment([]string{tt.entry})...).Clean(tt.text); got != tt.want {
			t.Errorf("with %s, %q becomes %q, want %q", strings.SplitN(tt.entry, "=", 2)[0], tt.text, got, tt.want)
		}
	}
}
