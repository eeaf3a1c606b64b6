package terraformcli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/terrapulse/terrapulse/internal/base/atomicfile"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Shared is a folder of unpacked providers that the directories of tasks share: each provider is
// downloaded and unpacked once, and Terraform links to it. Several runs may use it at once. A nil
// Shared shares nothing.
//
// A provider gets into the folder by a rename, after an init that has installed it. So an init that
// is killed leaves no part of a provider there.
type Shared struct {
	dir    string
	config string // path of Terraform's CLI configuration

	mu    sync.Mutex
	turns map[string]*turn // by the source of a provider
}

// turn lets one init at a time install a provider that is not in the folder yet.
type turn struct {
	taken     chan struct{} // holds an element while an init has the turn
	installed bool          // only for the holder
}

// NewShared returns the shared folder dir. Terraform gets a provider in one of the folders mirrors
// only from there, and others from their registries. registries has the services of hosts, by name,
// that another server provides.
func NewShared(dir string, mirrors []string, registries map[string]map[string]string) (*Shared, error) {
	s := &Shared{dir: filepath.Join(dir, "unpacked"), config: filepath.Join(dir, "terraform.rc"), turns: map[string]*turn{}}
	text, mirrored, err := cliConfig(s.dir, mirrors, registries)
	for _, provider := range mirrored { // no init has to wait for another one
		s.turns[ShortSource(provider)] = &turn{taken: make(chan struct{}, 1), installed: true}
	}
	if err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err == nil {
		err = atomicfile.WriteText(s.config, text)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the folder of providers: %w", err)
	}
	return s, nil
}

// Mirrors returns the folders of this machine in which Terraform searches providers by itself.
func Mirrors() []string {
	dirs := filepath.SplitList(cmp.Or(os.Getenv("XDG_DATA_DIRS"), "/usr/local/share:/usr/share"))
	return list.Map(dirs, func(dir string) string { return filepath.Join(dir, "terraform", "plugins") })
}

// cliConfig returns a CLI configuration of Terraform, and the providers in mirrors. It does for these
// what Terraform does without one.
func cliConfig(dir string, mirrors []string, registries map[string]map[string]string) (config string, mirrored []string, err error) {
	var text strings.Builder
	text.WriteString("provider_installation {\n")
	for _, mirror := range mirrors {
		// HOST/NAMESPACE/TYPE/VERSION, or an archive there.
		found, err := filepath.Glob(filepath.Join(mirror, "*", "*", "*", "*"))
		if err != nil {
			return "", nil, err
		}
		for _, path := range found {
			provider, err := filepath.Rel(mirror, filepath.Dir(path))
			if err != nil {
				return "", nil, err
			}
			mirrored = append(mirrored, filepath.ToSlash(provider))
		}
		if len(found) > 0 {
			fmt.Fprintf(&text, "  filesystem_mirror {\n    path = %q\n  }\n", mirror)
		}
	}
	slices.Sort(mirrored)
	mirrored = slices.Compact(mirrored)
	exclude := ""
	if len(mirrored) > 0 {
		exclude = "    exclude = [\"" + strings.Join(mirrored, "\", \"") + "\"]\n"
	}
	fmt.Fprintf(&text, "  filesystem_mirror {\n    path = %q\n%s  }\n  direct {\n%s  }\n}\n", dir, exclude, exclude)
	for _, host := range slices.Sorted(maps.Keys(registries)) {
		fmt.Fprintf(&text, "host %q {\n  services = {\n", host)
		for _, name := range slices.Sorted(maps.Keys(registries[host])) {
			fmt.Fprintf(&text, "    %q = %q\n", name, registries[host][name])
		}
		text.WriteString("  }\n}\n")
	}
	return text.String(), mirrored, nil
}

// usable reports whether Terraform uses the folder in an environment: it does not if the environment
// names another CLI configuration.
func (s *Shared) usable(env map[string]string) bool {
	named := cmp.Or(env["TF_CLI_CONFIG_FILE"], env["TERRAFORM_CONFIG"])
	return s != nil && (named == "" || named == s.config)
}

// begin waits while other inits install one of these providers for the first time. Call end after
// the init.
func (s *Shared) begin(ctx context.Context, providers []string) (end func(installed bool), err error) {
	if s == nil {
		return func(bool) {}, nil
	}
	var held []*turn
	end = func(installed bool) {
		for _, t := range held {
			t.installed = t.installed || installed
			<-t.taken
		}
	}
	for _, provider := range providers { // sorted: two inits never wait for each other
		s.mu.Lock()
		t := s.turns[provider]
		if t == nil {
			t = &turn{taken: make(chan struct{}, 1)}
			s.turns[provider] = t
		}
		s.mu.Unlock()
		select {
		case t.taken <- struct{}{}:
		case <-ctx.Done():
			end(false)
			return nil, context.Cause(ctx)
		}
		if t.installed {
			<-t.taken
			continue
		}
		held = append(held, t)
	}
	return end, nil
}

// collect moves the providers that an init has unpacked below dir to the folder, and leaves links to
// them. What cannot be moved stays where it is.
func (s *Shared) collect(dir string) {
	if s == nil {
		return
	}
	for _, name := range packagesIn(dir) {
		path, to := filepath.Join(dir, name), filepath.Join(s.dir, name)
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			continue // a link
		}
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			continue // another init had it, too
		}
		if os.MkdirAll(filepath.Dir(to), 0o700) != nil || os.Rename(path, to) != nil {
			continue
		}
		if os.Symlink(to, path) != nil {
			_ = os.Rename(to, path) // if that fails too, Terraform installs it again
		}
	}
}

// packagesIn returns the unpacked providers below a folder, relative to it.
func packagesIn(dir string) []string {
	found, err := fs.Glob(os.DirFS(dir), "*/*/*/*/*") // HOST/NAMESPACE/TYPE/VERSION/PLATFORM
	if err != nil {
		return nil
	}
	return list.Map(found, filepath.FromSlash)
}

// requiredProviders returns the sources of the providers that the root module and the local modules
// below it need, sorted. Those of other modules are not known before an init.
func (d *Dir) requiredProviders() []string {
	return slices.Sorted(maps.Keys(Constraints(d.path)))
}

// Constraints returns the constraints of the versions of each provider that the modules in these folders
// and the local modules below them need, by its source. A constraint may be "".
func Constraints(modules ...string) map[string][]string {
	all, seen := map[string][]string{}, map[string]bool{}
	for _, dir := range modules {
		addProviders(dir, all, seen)
	}
	return all
}

// Registry is the host of providers whose source names none, for a program.
func Registry(engine string) string {
	if engine == config.EngineTofu {
		return "registry.opentofu.org"
	}
	return "registry.terraform.io"
}

// ShortSource returns the source of a provider without a host that Terraform or OpenTofu adds.
func ShortSource(source string) string {
	return strings.TrimPrefix(strings.TrimPrefix(source, "registry.terraform.io/"), "registry.opentofu.org/")
}

func addProviders(dir string, all map[string][]string, seen map[string]bool) {
	if seen[dir] {
		return
	}
	seen[dir] = true
	module, _ := tfconfig.LoadModule(dir) // init reports what cannot be parsed
	add := func(name, source string, constraints ...string) {
		source = ShortSource(cmp.Or(source, "hashicorp/"+name))
		if source != "hashicorp/terraform" && !strings.HasPrefix(source, "terraform.io/builtin/") {
			all[source] = append(all[source], strings.Join(constraints, ","))
		}
	}
	for name, r := range module.RequiredProviders {
		add(name, r.Source, r.VersionConstraints...)
	}
	for _, name := range impliedProviders(module) {
		if module.RequiredProviders[name] == nil {
			add(name, "")
		}
	}
	for _, called := range localDirs(dir, module) {
		addProviders(called, all, seen)
	}
}
