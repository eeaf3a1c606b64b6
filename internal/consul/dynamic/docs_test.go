package dynamic

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// TestDocs_ExamplesWork evaluates each example of docs/secrets.md, with a value for everything that
// it looks up.
func TestDocs_ExamplesWork(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul")
	}
	text, err := os.ReadFile("../../../docs/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	h := newFixture(t, withConsul)
	h.env["CLOUDFLARE_TOKEN"] = "SECRET"
	for _, key := range []string{"cloudflare/email", "odd@name"} {
		if _, err := h.consul.Client().KV().Put(&api.KVPair{Key: key, Value: []byte("SECRET")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"kv/cloudflare", "secret/cloudflare", "secret/lb", "kv/panos"} {
		h.vault.Put(path, map[string]any{"token": "SECRET", "password": "SECRET"})
	}
	h.aws.values = map[string]string{
		"arn:aws:secretsmanager:eu-central-1:123456789012:secret:cloudflare-AbCdEf:token": "SECRET", "/prod/cloudflare/email": "SECRET", "/prod/cloudflare/token": "SECRET",
	}
	h.env["CONSUL_HTTP_ADDR"], h.env["VAULT_TOKEN"] = h.consul.Addr(), "root"

	examples := regexp.MustCompile("(?s)```(hcl|yaml)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 8 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"1." + e[1]: strings.NewReplacer("https://vault.example.com:8200", h.vault.URL, "database/creds/terraform", "db/creds/terraform",
				"/run/vault/token", filepath.Join(dir, "token")).Replace(e[2]),
			"2.hcl": `
task {
  name = "t"
  module = "example/x/y"
  condition "services" { names = ["web"] }
}`,
			"token": "root",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h.env["VAULT_ADDR"] = ""
		if !strings.Contains(e[2], "vault {") {
			h.env["VAULT_ADDR"] = h.vault.URL
		}
		cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: dir, Dir: true}}, Dir: dir, Getenv: func(name string) string { return h.env[name] }})
		if err != nil {
			t.Errorf("%v in\n%s", err, e[2])
			continue
		}
		task, _ := cfg.Task("t")
		for _, p := range cfg.Providers {
			task.Providers = append(task.Providers, p.ID())
		}
		v, err := h.Evaluate(context.Background(), cfg, task)
		if err != nil {
			t.Errorf("%v in\n%s", err, e[2])
			continue
		}
		found := len(v.Secrets)
		for i := range cfg.Tasks { // templates in the variables of the example's tasks
			if cfg.Tasks[i].Name == "t" {
				continue
			}
			own, err := h.Evaluate(context.Background(), cfg, &cfg.Tasks[i])
			if err != nil {
				t.Errorf("%v in\n%s", err, e[2])
			}
			found += len(own.Secrets)
		}
		if strings.Contains(e[2], "{{") && found == 0 {
			t.Errorf("nothing was looked up for\n%s", e[2])
		}
		for _, p := range v.Config.Providers {
			for name, v := range p.Body.Attributes {
				if strings.Contains(v.GoString(), "{{") {
					t.Errorf("%s is still a template in\n%s", name, e[2])
				}
			}
		}
	}
}

// TestDocs_ListAllFunctions compares the tables of docs/secrets.md with the functions of templates.
func TestDocs_ListAllFunctions(t *testing.T) {
	text, err := os.ReadFile("../../../docs/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(text), "## What a template can do")
	tables, _, _ = strings.Cut(tables, "A string is a template if")
	var listed []string
	for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(tables, -1) {
		listed = append(listed, name[1])
	}
	var there []string
	for name := range (&lookups{}).functions(values.Place{}) {
		there = append(there, name)
	}
	slices.Sort(listed)
	slices.Sort(there)
	if !slices.Equal(listed, there) {
		t.Errorf("the documentation lists %q, and there are %q", listed, there)
	}
}
