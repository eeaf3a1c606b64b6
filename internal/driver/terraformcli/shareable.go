package terraformcli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/terrapulse/terrapulse/internal/driver/module"
)

var mentionsProvider = regexp.MustCompile(`\bprovider\b`)

// shareable reports whether one process of each provider can serve a whole command of
// Terraform:
//   - No provider has two configurations, such as one with an alias: the process would
//     use the later one for both.
//   - There are no provisioners: a program that one starts would inherit the address of
//     the process, and a Terraform that it starts would connect to it.
//   - The CLI configuration does not name other programs.
func (d *Dir) shareable(env map[string]string) bool {
	modules := module.Installed(d.path)
	for _, m := range modules {
		dir := m.Dir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(d.path, dir)
		}
		provider, ok := scanModule(dir)
		if !ok || provider && !configuresOnce(dir, m.Key == "") {
			return false
		}
	}
	return len(modules) > 0 && !d.overridden(env)
}

// scanModule reports whether a module mentions providers, not ok if it mentions
// provisioners, cannot be read or has files that only OpenTofu reads.
func scanModule(dir string) (provider, ok bool) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return false, false
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".json")
		switch filepath.Ext(name) {
		case ".tofu":
			return false, false
		case ".tf":
			raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil || bytes.Contains(raw, []byte("provisioner")) {
				return false, false
			}
			provider = provider || mentionsProvider.Match(raw)
		}
	}
	return provider, true
}

// configuresOnce reports whether a module configures no provider twice. A module that is
// called configures none: it may be called several times.
func configuresOnce(dir string, root bool) bool {
	loaded, diags := tfconfig.LoadModule(dir)
	if diags.HasErrors() || !root && len(loaded.ProviderConfigs) > 0 {
		return false
	}
	seen := map[string]bool{}
	for _, p := range loaded.ProviderConfigs {
		source := "hashicorp/" + p.Name
		if r := loaded.RequiredProviders[p.Name]; r != nil && r.Source != "" {
			source = ShortSource(r.Source)
		}
		if p.Alias != "" || seen[source] {
			return false
		}
		seen[source] = true
	}
	return true
}
