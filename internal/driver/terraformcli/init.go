package terraformcli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"
	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/terrapulse/terrapulse/internal/driver/module"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
)

const initFile = "terrapulse-init" // in the data directory: the fingerprint of the latest init

// Init prepares the directory for Apply. It runs `terraform init` if something
// that an init reads has changed since the last one; ran reports whether it did.
func (d *Dir) Init(ctx context.Context) (ran bool, err error) {
	sum, err := d.fingerprint()
	if err != nil {
		return false, err
	}
	if !d.initialised(sum) {
		ran = true
		if err := d.initialise(ctx); err != nil {
			return ran, err
		}
	}
	return ran, d.selectWorkspace()
}

// initialise runs `terraform init`. A backend without a default workspace needs the
// task's workspace first.
func (d *Dir) initialise(ctx context.Context) error {
	before, moves := d.backendBefore()
	var opts []tfexec.InitOption
	if !moves {
		// The state is moved to a changed backend without asking. HCP Terraform
		// does so by itself, and refuses the option.
		opts = append(opts, tfexec.ForceCopy(d.opts.Backend.Type != "cloud"))
	}
	err := d.runInit(ctx, opts...)
	var failed *Error
	switch {
	case !errors.As(err, &failed):
		return err
	case moves && failed.has(backendChanged):
		err = d.move(ctx, before)
	case failed.has(wantsWorkspace):
		err = d.createWorkspace(ctx)
	default:
		return err
	}
	if err != nil {
		return err
	}
	return d.runInit(ctx, opts...)
}

// runInit runs `terraform init` in the default workspace if there is one:
// Terraform refuses a selected workspace that does not exist yet. It installs the
// providers that the state of the selected workspace needs.
func (d *Dir) runInit(ctx context.Context, opts ...tfexec.InitOption) error {
	begin := d.leaveWorkspace
	if !hasDefault(d.opts.Backend) || d.opts.WithoutModule {
		begin = d.selectWorkspace
	}
	if err := begin(); err != nil {
		return err
	}
	locks, err := readIfThere(d.lockFile())
	if err = errors.Join(err, os.RemoveAll(d.data(initFile)), d.forgetCopies(), d.forgetUnlocked()); err != nil {
		return fmt.Errorf("prepare the init of task %s: %w", d.opts.Task, err)
	}
	err = d.install(ctx, opts...)
	if failed := (*Error)(nil); errors.As(err, &failed) && d.unlockProviders(failed.outdated) {
		err = d.install(ctx, opts...)
	}
	if err != nil {
		d.restoreLocks(locks)
		return err
	}
	sum, err := d.fingerprint() // the lock file may be new
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.data(initFile), []byte(sum), 0o600); err != nil {
		return fmt.Errorf("note the init of task %s: %w", d.opts.Task, err)
	}
	return nil
}

// install runs `terraform init`, with providers that other tasks have installed.
func (d *Dir) install(ctx context.Context, opts ...tfexec.InitOption) error {
	env, err := d.opts.environment()
	if err != nil {
		return err
	}
	shared, unpacked := d.opts.Shared, d.data("providers")
	if cache := d.pluginCache(env); cache != nil {
		shared = cache
	}
	var providers []string
	if shared != nil {
		providers = d.requiredProviders()
	}
	end, err := shared.begin(ctx, providers)
	if err != nil {
		return &InterruptedError{Command: d.command("init"), Cause: err}
	}
	if shared != d.opts.Shared {
		view, remove, err := shared.view()
		if err == nil { // else Terraform says what is wrong with the cache
			d.cache, unpacked = view, view
			defer func() { d.cache = ""; remove() }()
		}
	}
	d.askVersion(ctx)
	err = d.run(ctx, "init", nil, func(ctx context.Context) error { return d.tf.Init(ctx, opts...) })
	if err == nil {
		shared.collect(unpacked)
		relink(d.data("providers"), unpacked)
	}
	end(err == nil)
	return err
}

// initialised reports whether the latest init had this fingerprint and its modules
// still exist. If a provider is missing, attempt runs init.
func (d *Dir) initialised(sum string) bool {
	if latest, err := os.ReadFile(d.data(initFile)); err != nil || string(latest) != sum {
		return false
	}
	if d.opts.Backend.Type != "" && !exists(d.data(backendFile)) {
		return false
	}
	modules := module.Installed(d.path)
	for _, m := range modules {
		dir := m.Dir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(d.path, dir)
		}
		if !exists(dir) {
			return false
		}
	}
	return len(modules) > 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// forgetCopies removes installed modules that are copies of local directories:
// init would not refresh them. Where links are possible, Terraform links to such
// directories and reads them in place.
func (d *Dir) forgetCopies() error {
	if !d.copiesLocalModule() {
		return nil
	}
	return os.RemoveAll(d.data("modules"))
}

func (d *Dir) copiesLocalModule() bool {
	for name := range d.localCalls() {
		info, err := os.Lstat(d.data("modules", name))
		if err == nil && info.IsDir() {
			return true
		}
	}
	return false
}

// localCalls returns the directories of the local modules that the root module
// calls, by the names of the calls.
func (d *Dir) localCalls() map[string]string {
	root, _ := tfconfig.LoadModule(d.path) // init reports what cannot be parsed
	return localDirs(d.path, root)
}

// localDirs is localCalls for a module in a directory.
func localDirs(from string, module *tfconfig.Module) map[string]string {
	dirs := map[string]string{}
	for name, call := range module.ModuleCalls {
		switch {
		case filepath.IsAbs(call.Source):
			dirs[name] = filepath.Clean(call.Source)
		case strings.HasPrefix(call.Source, "."):
			dirs[name] = filepath.Join(from, filepath.FromSlash(call.Source))
		}
	}
	return dirs
}

// fingerprint returns a digest of all inputs of an init: the files of the root
// module except variables.tf, the requirements of local modules, the lock file, and
// the version of Terraform. Terraform reads the rest of local modules in place. The
// environment does not count.
func (d *Dir) fingerprint() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "terraform %s\n", d.bin.Version)
	files, err := os.ReadDir(d.path)
	if err != nil {
		return "", fmt.Errorf("read the directory of task %s: %w", d.opts.Task, err)
	}
	for _, f := range files {
		if name := f.Name(); name == rootmodule.VariablesFile ||
			name != lockFile && !strings.HasSuffix(name, ".tf") && !strings.HasSuffix(name, ".tf.json") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(d.path, f.Name()))
		if err != nil {
			return "", fmt.Errorf("read the root module of task %s: %w", d.opts.Task, err)
		}
		fmt.Fprintf(h, "%q %d\n%s\n", f.Name(), len(raw), raw)
	}
	whole := d.copiesLocalModule()
	seen, calls := map[string]bool{}, d.localCalls()
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		digestModule(h, calls[name], whole, seen)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digestModule adds the inputs of an init in a local module and in the local
// modules that it calls; all files if they are copied or cannot be parsed.
func digestModule(h hash.Hash, dir string, whole bool, seen map[string]bool) {
	if seen[dir] {
		return
	}
	seen[dir] = true
	module, diags := tfconfig.LoadModule(dir)
	fmt.Fprintf(h, "module %q\n", dir)
	if whole || diags.HasErrors() {
		digestTree(h, dir)
		return
	}
	fmt.Fprintf(h, "core %q\n", module.RequiredCore)
	for _, name := range slices.Sorted(maps.Keys(module.RequiredProviders)) {
		r := module.RequiredProviders[name]
		fmt.Fprintf(h, "provider %q %q %q\n", name, r.Source, r.VersionConstraints)
	}
	for _, name := range impliedProviders(module) {
		fmt.Fprintf(h, "uses %q\n", name)
	}
	dirs := localDirs(dir, module)
	for _, name := range slices.Sorted(maps.Keys(module.ModuleCalls)) {
		c := module.ModuleCalls[name]
		fmt.Fprintf(h, "calls %q %q %q\n", name, c.Source, c.Version)
		if dirs[name] != "" {
			digestModule(h, dirs[name], whole, seen)
		}
	}
}

// impliedProviders returns the names of the providers of a module's resources, sorted.
func impliedProviders(module *tfconfig.Module) []string {
	used := map[string]bool{}
	for _, resources := range []map[string]*tfconfig.Resource{module.ManagedResources, module.DataResources} {
		for _, r := range resources {
			used[r.Provider.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// digestTree adds all files below a directory, except those that cannot be read:
// the following init reports them.
func digestTree(h hash.Hash, root string) {
	filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case entry.IsDir() && entry.Name() == ".terraform":
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		fmt.Fprintf(h, "%q\n", path)
		io.Copy(h, f)
		return nil
	})
}
