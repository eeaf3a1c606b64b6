package terraformcli

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func TestProvided_SaysWhichProvidersAreOnThisMachine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nothing is shared there")
	}
	for _, name := range []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG", "TF_PLUGIN_CACHE_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, "")
	}
	home, work, mirrors := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_DIRS", mirrors)
	module := t.TempDir()
	if err := os.WriteFile(filepath.Join(module, "main.tf"), []byte(`
terraform {
  required_providers {
    local = { source = "hashicorp/local" }
    fw    = { source = "registry.example.com/net/fw" }
    own   = { source = "net/own" }
  }
}
resource "terraform_data" "x" {}
resource "time_static" "x" {}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	has := func(elem ...string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(elem...), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, missing ...string) {
		t.Helper()
		p := Provided(work, []string{module, module})
		if !slices.Equal(p.Needed, []string{"hashicorp/local", "hashicorp/time", "net/own", "registry.example.com/net/fw"}) || !slices.Equal(p.Missing, missing) || p.By != "" {
			t.Errorf("%s: %+v, want %v missing", when, p, missing)
		}
	}
	want("on a new machine", "hashicorp/local", "hashicorp/time", "net/own", "registry.example.com/net/fw")
	has(work, ".providers", "unpacked", "registry.terraform.io", "hashicorp", "local", "2.8.0", "linux_amd64")
	has(home, ".terraform.d", "plugins", "registry.terraform.io", "net", "own", "1.0.0", "linux_amd64")
	has(mirrors, "terraform", "plugins", "other.example.com", "net", "fw", "1.0.0", "linux_amd64")
	want("with a run's provider, a mirror, and a provider of another registry", "hashicorp/time", "registry.example.com/net/fw")

	t.Setenv("TF_CLI_CONFIG_FILE", filepath.Join(home, "own.tfrc"))
	if p := Provided(work, []string{module}); p.By != "TF_CLI_CONFIG_FILE" || len(p.Missing) > 0 {
		t.Errorf("with a configuration of the user's: %+v", p)
	}
}
