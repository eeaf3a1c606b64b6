package builds

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const listed = `{"versions": [
	{"version": "1.9.0", "platforms": [{"os": "linux", "arch": "amd64"}, {"os": "linux", "arch": "arm64"}]},
	{"version": "1.10.0", "platforms": [{"os": "linux", "arch": "amd64"}]},
	{"version": "2.0.0-beta1", "platforms": [{"os": "linux", "arch": "arm64"}]}]}`

// Terraform installs the newest version that the constraints allow: its builds count.
func TestMissing_AsksTheRegistry(t *testing.T) {
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/terraform.json":
			fmt.Fprint(w, `{"providers.v1": "/api/providers/"}`)
		case "/api/providers/own/firewall/versions":
			fmt.Fprint(w, listed)
		case "/api/providers/own/bare/versions":
			fmt.Fprint(w, `{"versions": [{"version": "1.0.0"}]}`)
		default:
			http.Error(w, "no such provider", http.StatusNotFound)
		}
	}))
	defer registry.Close()
	before := http.DefaultClient
	http.DefaultClient = registry.Client()
	defer func() { http.DefaultClient = before }()
	host := strings.TrimPrefix(registry.URL, "https://")

	const newest = "/own/firewall 1.10.0, which Terraform installs, has no build for linux_arm64"
	for name, tt := range map[string]struct {
		source, version, driver, platform, want string
		there                                   bool
	}{
		"a platform that is unknown":  {"own/firewall", "", "", "", "", false},
		"a build":                     {"own/firewall", "", "", "linux_amd64", "", false},
		"no build of the newest":      {"own/firewall", "", "", "linux_arm64", newest + ": require version 1.9.0", false},
		"a provider that is there":    {"own/firewall", "", "", "linux_arm64", "", true},
		"an older one is required":    {"own/firewall", "~> 1.9.0", "", "linux_arm64", "", false},
		"the task files require it":   {"own/firewall", "", "< 1.10", "linux_arm64", "", false},
		"only the newest is allowed":  {"own/firewall", "1.10.0", "", "linux_arm64", newest + ", and no version that the modules allow has one", false},
		"no version is allowed":       {"own/firewall", ">= 3", "", "linux_arm64", "", false},
		"a constraint that is wrong":  {"own/firewall", "new", "", "linux_arm64", "", false},
		"a registry without builds":   {"own/bare", "", "", "linux_arm64", "", false},
		"a provider that is unknown":  {"own/other", "", "", "linux_arm64", "", false},
		"a provider that is built in": {"terraform.io/builtin/terraform", "", "", "linux_arm64", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			module, source := t.TempDir(), tt.source
			if strings.HasPrefix(source, "own/") {
				source = host + "/" + source
			}
			text := fmt.Sprintf("terraform {\n  required_providers {\n    firewall = {\n      source  = %q\n      version = %q\n    }\n  }\n}\n", source, tt.version)
			if err := os.WriteFile(filepath.Join(module, "main.tf"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			driver := &config.Terraform{RequiredProviders: map[string]cty.Value{}}
			if tt.driver != "" {
				driver.RequiredProviders["firewall"] = cty.ObjectVal(map[string]cty.Value{"source": cty.StringVal(source), "version": cty.StringVal(tt.driver)})
			}
			cfg := &config.Config{Terraform: *driver, Tasks: []config.Task{{Name: "a", Module: module}, {Name: "b", Module: module}, {Name: "far", Module: "own/web/test"}}}
			elsewhere := *cfg
			elsewhere.OtherDriver = &config.Cloud{}
			if got := Missing(t.Context(), &elsewhere, tt.platform, nil); got != nil {
				t.Errorf("Terraform runs in HCP Terraform: %q", got)
			}
			var there []string
			if tt.there {
				there = []string{source}
			}
			got := Missing(t.Context(), cfg, tt.platform, there)
			want := tt.want
			if want != "" {
				want = "provider " + host + want
			}
			if strings.Join(got, "\n") != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
	registry.Close()
	module := t.TempDir()
	if err := os.WriteFile(filepath.Join(module, "main.tf"), []byte("resource \"aws_vpc\" \"v\" {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{Tasks: []config.Task{{Name: "a", Module: module}}}
	http.DefaultClient = &http.Client{Transport: refuses{}}
	if got := Missing(t.Context(), cfg, "linux_arm64", nil); got != nil {
		t.Errorf("a registry that does not answer: %q", got)
	}
}

type refuses struct{}

func (refuses) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is refused", r.URL)
}
