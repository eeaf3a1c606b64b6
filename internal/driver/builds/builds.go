// Package builds asks registries whether the providers of modules have a build for a platform. Terraform
// installs the newest version that all constraints allow, and fails if that one has none.
package builds

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/registry"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// answerFor is how long the registries may take in all.
const answerFor = 5 * time.Second

// Missing returns a sentence for each provider that has no build for a platform, such as linux_arm64,
// except for those that are there. Only the providers of local modules are known. It returns nothing
// about a registry that does not answer, or that needs a token, and nothing if Terraform runs elsewhere: in the
// driver's system, or on a platform that is not known ("").
func Missing(ctx context.Context, cfg *config.Config, platform string, there []string) []string {
	if platform == "" || cfg.Driver().Kind().Remote {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, answerFor)
	defer stop()
	var modules []map[string][]string // each has its own versions
	releases := map[string][]release{}
	for i := range cfg.Tasks {
		if m := cfg.Tasks[i].Module; filepath.IsAbs(m) {
			required := constraints(cfg, m)
			maps.DeleteFunc(required, func(source string, _ []string) bool { return slices.Contains(there, source) })
			modules = append(modules, required)
			for source := range required {
				releases[source] = nil
			}
		}
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, source := range slices.Collect(maps.Keys(releases)) {
		all.Go(func() {
			if known, err := list(ctx, at(source, cfg.Terraform.Engine)); err == nil {
				mu.Lock()
				defer mu.Unlock()
				releases[source] = known
			}
		})
	}
	all.Wait()
	var found []string
	for _, required := range modules {
		for source, constraints := range required {
			if wrong := judge(source, constraints, releases[source], platform); wrong != "" {
				found = append(found, wrong)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// constraints returns the constraints of the versions of each provider, by its source: those of a
// local module, and those of required_providers in the task files.
func constraints(cfg *config.Config, module string) map[string][]string {
	all := terraformcli.Constraints(module)
	for name, value := range cfg.RequiredProviders() {
		source, allowed := "hashicorp/"+name, value
		if value.Type().IsObjectType() {
			source, allowed = cmp.Or(attribute(value, "source"), source), cty.StringVal(attribute(value, "version"))
		}
		if source = terraformcli.ShortSource(source); all[source] != nil {
			all[source] = append(all[source], text(allowed))
		}
	}
	return all
}

func attribute(object cty.Value, name string) string {
	if !object.Type().HasAttribute(name) {
		return ""
	}
	return text(object.GetAttr(name))
}

func text(v cty.Value) string {
	if v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return ""
	}
	return v.AsString()
}

// release is a version of a provider in a registry.
type release struct {
	Version   string
	Platforms []struct{ OS, Arch string }
	parsed    *version.Version
}

func (r release) builtFor(platform string) bool {
	return slices.ContainsFunc(r.Platforms, func(p struct{ OS, Arch string }) bool { return p.OS+"_"+p.Arch == platform })
}

// judge returns what is wrong with the newest version that the constraints allow; "" if nothing is.
func judge(source string, constraints []string, releases []release, platform string) string {
	constraints = slices.DeleteFunc(slices.Clone(constraints), func(c string) bool { return c == "" })
	allowed, err := version.NewConstraint(cmp.Or(strings.Join(constraints, ","), ">= 0"))
	if err != nil {
		return "" // an init reports it
	}
	var fit []release
	for _, r := range releases {
		if r.parsed, err = version.NewVersion(r.Version); err == nil && allowed.Check(r.parsed) {
			fit = append(fit, r)
		}
	}
	if len(fit) == 0 {
		return "" // an init reports it
	}
	slices.SortFunc(fit, func(a, b release) int { return b.parsed.Compare(a.parsed) })
	if len(fit[0].Platforms) == 0 || fit[0].builtFor(platform) { // a registry may leave the platforms out
		return ""
	}
	what := fmt.Sprintf("provider %s %s, which Terraform installs, has no build for %s", source, fit[0].Version, platform)
	if with := slices.IndexFunc(fit, func(r release) bool { return r.builtFor(platform) }); with > 0 {
		return what + ": require version " + fit[with].Version
	}
	return what + ", and no version that the modules allow has one"
}

// address is where a provider is in a registry.
type address struct{ host, namespace, name string }

// at returns the address of a provider. Without a host, it is in the registry of the program.
func at(source, engine string) address {
	parts := strings.Split(source, "/")
	if len(parts) == 2 {
		parts = slices.Insert(parts, 0, terraformcli.Registry(engine))
	}
	return address{parts[0], parts[len(parts)-2], parts[len(parts)-1]}
}

// list reads the versions of a provider.
// https://developer.hashicorp.com/terraform/internals/provider-registry-protocol
func list(ctx context.Context, a address) ([]release, error) {
	services, err := registry.Services(ctx, http.DefaultClient, a.host)
	if err != nil || services["providers.v1"] == nil {
		return nil, err
	}
	got, err := registry.Get(ctx, http.DefaultClient, services["providers.v1"].JoinPath(a.namespace, a.name, "versions").String(), nil)
	if err != nil {
		return nil, err
	}
	var versions struct{ Versions []release }
	err = json.Unmarshal(got.Body, &versions)
	return versions.Versions, err
}
