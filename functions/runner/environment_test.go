package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestPrepareEnvironment_UsesTheWorkVolume(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	t.Chdir(t.TempDir())
	for _, name := range []string{"HOME", "TMPDIR", "CONSUL_CACERT", "CONSUL_CLIENT_CERT", "CONSUL_CLIENT_KEY"} {
		t.Setenv(name, "")
	}
	settings := settings.Runner{Work: work, Secret: secrets.Stack{ConsulCACert: "the CA", ConsulClientKey: "the key", ConsulToken: "consul's token", VaultToken: "vault's"}}
	for _, name := range []string{"CONSUL_HTTP_TOKEN", "VAULT_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("TERRAPULSE_SECRET", "all of it")
	t.Setenv("AWS_USE_DUALSTACK_ENDPOINT", "false")
	if err := prepareEnvironment(settings); err != nil {
		t.Fatal(err)
	}
	if dir, err := os.Getwd(); err != nil || dir != work || os.Getenv("HOME") != work || !strings.HasPrefix(os.TempDir(), work+"/") {
		t.Errorf("it works in %s, with HOME=%s and %s for temporary files: %v", dir, os.Getenv("HOME"), os.TempDir(), err)
	}
	for variable, want := range map[string]string{"CONSUL_CACERT": "the CA", "CONSUL_CLIENT_KEY": "the key"} {
		file := os.Getenv(variable)
		text, err := os.ReadFile(file)
		if err != nil || string(text) != want {
			t.Errorf("%s is %s, which holds %q: %v", variable, file, text, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if v := os.Getenv("CONSUL_CLIENT_CERT"); v != "" {
		t.Errorf("CONSUL_CLIENT_CERT is %s although none was given", v)
	}
	for _, name := range []string{"TERRAPULSE_SECRET", "AWS_USE_DUALSTACK_ENDPOINT"} {
		if _, there := os.LookupEnv(name); there {
			t.Errorf("%s is still in the environment", name)
		}
	}
	t.Setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")
	if err := prepareEnvironment(settings); err != nil || os.Getenv("AWS_USE_DUALSTACK_ENDPOINT") != "true" {
		t.Errorf("dual-stack endpoints are used: %q, %v", os.Getenv("AWS_USE_DUALSTACK_ENDPOINT"), err)
	}
	if consul, vault := os.Getenv("CONSUL_HTTP_TOKEN"), os.Getenv("VAULT_TOKEN"); consul != "consul's token" || vault != "vault's" {
		t.Errorf("Consul's token is %q, Vault's %q", consul, vault)
	}
}

func TestPrepareEnvironment_ReadOnlyWorkVolume(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := prepareEnvironment(settings.Runner{Work: filepath.Join(file, "work")})
	if err == nil || !strings.Contains(err.Error(), "work volume cannot be written") || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

func TestWho_IsTheLaunchOrTheHost(t *testing.T) {
	t.Setenv("USER", "")
	got, err := who("l1")
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := "terrapulse-l1@" + host
	if u, err := user.Current(); err == nil && u.Username != "terrapulse-l1" {
		want = u.Username + "@" + host // of /etc/passwd
	}
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRunner_ClaimsHoldTheIDOfTheECSTask(t *testing.T) {
	const id = "cd189a933e5849daa93386466019ab50"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v4/x/task" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(`{"TaskARN":"arn:aws:ecs:eu-west-1:111122223333:task/terrapulse/` + id + `","Family":"prod-runner","Revision":"7"}`))
	}))
	defer server.Close()
	for endpoint, want := range map[string]bool{server.URL + "/v4/x": true, server.URL + "/other": false, "": false} {
		var out testtools.Output
		t.Setenv("ECS_CONTAINER_METADATA_URI_V4", endpoint)
		name, self := identity(t.Context(), slog.New(slog.NewJSONHandler(&out, nil)))
		container := self.ID()
		if (self.TaskDefinition == "prod-runner:7") != want {
			t.Errorf("at %q its task definition is %s", endpoint, self.TaskDefinition)
		}
		if name == "" || strings.Contains(name, id) != want || (container == id) != want || (container != "") != want || (out.String() != "") != (endpoint != "" && !want) {
			t.Errorf("at %q it is %s in %q, and the log says %s", endpoint, name, container, &out)
		}
	}
}
