package terraform

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-config-inspect/tfconfig"
	"github.com/hashicorp/terraform-exec/tfexec"
)

// The files of Terraform that are looked at here.
const (
	lockFile = ".terraform.lock.hcl"
	initFile = "terrapulse.json" // in the data directory: after what the latest init was run
)

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
// Terraform refuses a selected workspace that does not exist yet.
func (d *Dir) runInit(ctx context.Context, opts ...tfexec.InitOption) error {
	begin := d.leaveWorkspace
	if !hasDefault(d.opts.Backend) {
		begin = d.selectWorkspace
	}
	if err := begin(); err != nil {
		return err
	}
	if err := os.Remove(d.data(initFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("prepare the init of task %s: %w", d.opts.Task, err)
	}
	if err := d.forgetCopies(); err != nil {
		return fmt.Errorf("prepare the init of task %s: %w", d.opts.Task, err)
	}
	d.askVersion(ctx)
	err := d.run(ctx, "init", nil, func(ctx context.Context) error { return d.tf.Init(ctx, opts...) })
	if err != nil {
		return err
	}
	sum, err := d.fingerprint() // the lock file may be new
	if err != nil {
		return err
	}
	record, err := json.Marshal(initRecord{Init: sum})
	if err == nil {
		err = os.WriteFile(d.data(initFile), record, 0o600)
	}
	if err != nil {
		return fmt.Errorf("note the init of task %s: %w", d.opts.Task, err)
	}
	return nil
}

// askVersion makes terraform-exec read the version of Terraform now. It does so
// before some commands, once, and the answer would be in the log.
func (d *Dir) askVersion(ctx context.Context) {
	d.tf.SetStdout(io.Discard)
	d.tf.SetStderr(io.Discard)
	_, _, _ = d.tf.Version(ctx, false) // if that fails, so does the command
}

type initRecord struct {
	Init string `json:"init"` // fingerprint
}

// initialised reports whether the latest init had this fingerprint and its results
// still exist.
func (d *Dir) initialised(sum string) bool {
	raw, err := os.ReadFile(d.data(initFile))
	var record initRecord
	if err != nil || json.Unmarshal(raw, &record) != nil || record.Init != sum {
		return false
	}
	if d.opts.Backend.Type != "" && !exists(d.data(backendFile)) {
		return false
	}
	modules, ok := d.modules()
	if !ok {
		return false
	}
	for _, m := range modules {
		dir := m.Dir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(d.path, dir)
		}
		if !exists(dir) {
			return false
		}
	}
	return d.providersThere()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installedModule is a module in Terraform's list.
type installedModule struct {
	Key, Source, Dir string
}

func (d *Dir) modules() ([]installedModule, bool) {
	return modulesIn(d.data("modules", "modules.json"))
}

// modulesIn reads Terraform's list of installed modules.
func modulesIn(file string) ([]installedModule, bool) {
	raw, err := os.ReadFile(file)
	var list struct{ Modules []installedModule }
	if err != nil || json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	return list.Modules, true
}

// providersThere reports whether every provider of the lock file is installed.
func (d *Dir) providersThere() bool {
	locked, ok := d.lockedProviders()
	for source, version := range locked {
		ok = ok && exists(d.data("providers", filepath.FromSlash(source), version, runtime.GOOS+"_"+runtime.GOARCH))
	}
	return ok
}

// lockedProviders returns the versions of the providers in the lock file by their
// sources, such as registry.terraform.io/hashicorp/consul; not ok if the file
// cannot be read. Without a file there are none: nothing needs a provider, or
// Terraform is too old to write one.
func (d *Dir) lockedProviders() (versions map[string]string, ok bool) {
	raw, err := os.ReadFile(filepath.Join(d.path, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	if err != nil {
		return nil, false
	}
	file, diags := hclparse.NewParser().ParseHCL(raw, lockFile)
	if diags.HasErrors() {
		return nil, false
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, false
	}
	versions = map[string]string{}
	for _, block := range body.Blocks {
		attr := block.Body.Attributes["version"]
		if block.Type != "provider" || len(block.Labels) != 1 || attr == nil {
			continue
		}
		v, diags := attr.Expr.Value(nil)
		if diags.HasErrors() || v.IsNull() || v.Type().FriendlyName() != "string" {
			return nil, false
		}
		versions[block.Labels[0]] = v.AsString()
	}
	return versions, true
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
	for _, dir := range d.localCalls() {
		info, err := os.Lstat(d.data("modules", dir.name))
		if err == nil && info.IsDir() {
			return true
		}
	}
	return false
}

type localCall struct{ name, dir string }

// localCalls returns the calls of local modules in the root module.
func (d *Dir) localCalls() []localCall {
	root, _ := tfconfig.LoadModule(d.path) // what cannot be parsed, init will tell
	var calls []localCall
	for _, name := range slices.Sorted(maps.Keys(root.ModuleCalls)) {
		if dir, ok := d.localDir(d.path, root.ModuleCalls[name].Source); ok {
			calls = append(calls, localCall{name, dir})
		}
	}
	return calls
}

func (d *Dir) localDir(from, source string) (string, bool) {
	switch {
	case !localSource(source):
		return "", false
	case filepath.IsAbs(source):
		return filepath.Clean(source), true
	default:
		return filepath.Join(from, filepath.FromSlash(source)), true
	}
}

// fingerprint returns a digest of all inputs of an init: the files of the root
// module, the requirements of local modules, the lock file, and the version of
// Terraform. Terraform reads the rest of local modules in place. The environment
// does not count.
func (d *Dir) fingerprint() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "terraform %s\n", d.bin.Version)
	files, err := os.ReadDir(d.path)
	if err != nil {
		return "", fmt.Errorf("read the directory of task %s: %w", d.opts.Task, err)
	}
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); ext != ".tf" && f.Name() != lockFile && !isJSONConfig(f.Name()) {
			continue
		}
		if err := digestFile(h, d.path, f.Name()); err != nil {
			return "", fmt.Errorf("read the root module of task %s: %w", d.opts.Task, err)
		}
	}
	whole := d.copiesLocalModule()
	seen := map[string]bool{}
	for _, call := range d.localCalls() {
		d.digestModule(h, call.dir, whole, seen)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func isJSONConfig(name string) bool {
	return filepath.Ext(name) == ".json" && filepath.Ext(name[:len(name)-len(".json")]) == ".tf"
}

func digestFile(h hash.Hash, dir, name string) error {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%q %d\n%s\n", name, len(raw), raw)
	return nil
}

// digestModule adds the inputs of an init in a local module and in the local
// modules that it calls; all files if they are copied or cannot be parsed.
func (d *Dir) digestModule(h hash.Hash, dir string, whole bool, seen map[string]bool) {
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
	var b bytes.Buffer
	fmt.Fprintf(&b, "core %q\n", module.RequiredCore)
	for _, name := range slices.Sorted(maps.Keys(module.RequiredProviders)) {
		r := module.RequiredProviders[name]
		fmt.Fprintf(&b, "provider %q %q %q\n", name, r.Source, r.VersionConstraints)
	}
	used := map[string]bool{} // providers that resources imply
	for _, resources := range []map[string]*tfconfig.Resource{module.ManagedResources, module.DataResources} {
		for _, r := range resources {
			used[r.Provider.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		fmt.Fprintf(&b, "uses %q\n", name)
	}
	calls := slices.Sorted(maps.Keys(module.ModuleCalls))
	for _, name := range calls {
		c := module.ModuleCalls[name]
		fmt.Fprintf(&b, "calls %q %q %q\n", name, c.Source, c.Version)
	}
	b.WriteTo(h)
	for _, name := range calls {
		if sub, ok := d.localDir(dir, module.ModuleCalls[name].Source); ok {
			d.digestModule(h, sub, whole, seen)
		}
	}
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
