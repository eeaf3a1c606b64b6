package terraformcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/providercache/registrytest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// shareFrom returns a shared folder with a registry, and the options that use it.
func shareFrom(t *testing.T, registry *registrytest.Registry, mirrors ...string) (*Shared, func(*Options)) {
	t.Helper()
	t.Setenv("TF_CLI_CONFIG_FILE", "")
	services := map[string]map[string]string{registryHost(): {"providers.v1": registry.URL + "/v1/providers/"}}
	shared, err := NewShared(t.TempDir(), mirrors, services)
	if err != nil {
		t.Fatal(err)
	}
	return shared, func(o *Options) { o.Shared = shared }
}

// registryHost is the registry of hashicorp/local for the program of the tests.
func registryHost() string {
	if os.Getenv("TERRAPULSE_TEST_ENGINE") == "tofu" {
		return "registry.opentofu.org"
	}
	return "registry.terraform.io"
}

const withLocal = fileModule + "terraform {\n  required_providers {\n    local = { source = \"hashicorp/local\" }\n  }\n}\n"

// provider returns the path of the provider local below a folder.
func provider(dir string, p *registrytest.Package) string {
	return filepath.Join(dir, registryHost(), "hashicorp", "local", p.Version, runtime.GOOS+"_"+runtime.GOARCH)
}

func TestShared_InitsAtTheSameTimeInstallAProviderOnce(t *testing.T) {
	f := newFixture(t, withLocal)
	registry := registrytest.Start(t)
	p := registry.Add("local", 0)
	shared, use := shareFrom(t, registry)
	dirs := make([]*Dir, 4)
	var all sync.WaitGroup
	for i := range dirs {
		f.dir = filepath.Join(t.TempDir(), fmt.Sprintf("web%d", i))
		f.render("api")
		dirs[i] = f.open(use)
		all.Go(func() {
			if _, err := dirs[i].Init(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.Fatal(f.log.String())
	}
	if n := registry.Requests(".zip"); n != 1 {
		t.Errorf("%d downloads", n)
	}
	for _, d := range dirs {
		if to, err := os.Readlink(provider(d.data("providers"), p)); err != nil || to != provider(shared.dir, p) {
			t.Errorf("%s has no link to the shared provider: %s, %v", d.path, to, err)
		}
	}

	stamp, _, err := stampOf(provider(shared.dir, p))
	if err != nil {
		t.Fatal(err)
	}
	f.dir = filepath.Join(t.TempDir(), "late")
	f.render("api")
	late := f.open(use)
	all.Go(func() { // while another task runs the provider
		if _, err := late.Init(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if changes := f.apply(dirs[0]); changes.Add != 1 {
		t.Errorf("%+v", changes)
	}
	all.Wait()
	if again, _, err := stampOf(provider(shared.dir, p)); err != nil || again != stamp || registry.Requests(".zip") != 1 {
		t.Errorf("the provider was written again: %v", err)
	}
}

func TestShared_AnInterruptedInitLeavesNothing(t *testing.T) {
	f := newFixture(t, withLocal)
	registry := registrytest.Start(t)
	p := registry.Add("local", 0)
	shared, use := shareFrom(t, registry)
	end, err := shared.begin(t.Context(), []string{"hashicorp/local"}) // another init installs it
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stopped := errors.New("the container is stopped")
	ended := make(chan error)
	go func() {
		_, err := f.open(use).Init(ctx)
		ended <- err
	}()
	stop(stopped)
	if err := <-ended; !errors.As(err, new(*InterruptedError)) || !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
	end(false) // it failed
	if _, err := os.Stat(provider(shared.dir, p)); err == nil {
		t.Error("the folder has a provider")
	}
	f.init(f.open(use), true)
	if _, err := os.Stat(provider(shared.dir, p)); err != nil {
		t.Error(err)
	}
}

func TestShared_AProviderOfTheImageComesOnlyFromThere(t *testing.T) {
	f := newFixture(t, withLocal)
	registry := registrytest.Start(t)
	registry.Add("local", 0)
	// Checkouts may share .tools by a link, which Terraform resolves.
	mirror, err := filepath.EvalSymlinks(filepath.Join(testtools.Root(t), ".tools", "mirror"))
	if err != nil {
		t.Fatal(err)
	}
	shared, use := shareFrom(t, registry, filepath.Join(t.TempDir(), "none"), mirror)
	for range 2 { // no init waits for another one
		if _, err := shared.begin(t.Context(), []string{"hashicorp/local"}); err != nil {
			t.Fatal(err)
		}
	}
	d := f.open(use)
	f.init(d, true)
	if n := registry.Requests(""); n > 0 {
		t.Errorf("%d requests to the registry", n)
	}
	links, err := filepath.Glob(filepath.Join(d.data("providers"), "*", "hashicorp", "local", "*", runtime.GOOS+"_"+runtime.GOARCH))
	if err != nil || len(links) != 1 {
		t.Fatalf("%v, %v", links, err)
	}
	if to, err := os.Readlink(links[0]); err != nil || !strings.HasPrefix(to, mirror) {
		t.Errorf("the provider is %s, %v", to, err)
	}
}

// What the environment of Terrapulse or the task names is used, and nothing is shared.
func TestShared_YieldsToAnotherConfiguration(t *testing.T) {
	f := newFixture(t, withLocal)
	shared, err := NewShared(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	use := func(o *Options) { o.Shared = shared }
	d := f.open(use)
	f.init(d, true)
	if d.opts.Shared != nil {
		t.Error("the environment names a configuration, and another one is used")
	}
	rc := os.Getenv("TF_CLI_CONFIG_FILE")
	t.Setenv("TF_CLI_CONFIG_FILE", "")
	d = f.open(use, func(o *Options) { o.Env = map[string]string{"TF_CLI_CONFIG_FILE": rc} })
	if d.opts.Shared != nil {
		t.Error("the task names a configuration, and another one is used")
	}
	if d = f.open(use); d.opts.Shared == nil {
		t.Error("nothing is shared")
	}
}

// Terraform refuses to install a provider over a link to that very provider.
func TestShared_AnInitWithoutItsLockFileInstallsTheProviderAgain(t *testing.T) {
	f := newFixture(t, withLocal)
	registry := registrytest.Start(t)
	p := registry.Add("local", 0)
	shared, use := shareFrom(t, registry)
	f.init(f.open(use), true)
	stamp, _, err := stampOf(provider(shared.dir, p))
	if err == nil {
		err = os.Remove(filepath.Join(f.dir, lockFile))
	}
	if err != nil {
		t.Fatal(err)
	}
	f.init(f.open(use), true)
	if again, _, err := stampOf(provider(shared.dir, p)); err != nil || again != stamp || registry.Requests(".zip") != 1 {
		t.Errorf("the provider was written again: %v", err)
	}
}

// pluginCache has Terraform install the provider local from an archive, through a plugin cache that is
// empty at first. It returns the cache.
func pluginCache(t *testing.T) (cache string, p *registrytest.Package) {
	t.Helper()
	p = registrytest.Start(t).Add("local", 1<<20)
	mirror, cache, rc := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "terraform.rc")
	write(t, filepath.Join(mirror, registryHost(), "hashicorp", "local", filepath.Base(p.Archive)), read(t, p.Archive))
	write(t, rc, fmt.Sprintf("# plugin_cache_dir = \"none\"\nplugin_cache_dir = %q\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", cache, mirror))
	t.Setenv("TF_CLI_CONFIG_FILE", rc)
	return cache, p
}

func TestPluginCache_TasksThatBeginAtTheSameTimeShareIt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	f := newFixture(t, fileModule)
	cache, p := pluginCache(t)
	dirs := make([]*Dir, 8)
	var all sync.WaitGroup
	for i := range dirs {
		f.dir = filepath.Join(t.TempDir(), fmt.Sprintf("web%d", i))
		f.render("api")
		dirs[i] = f.open()
		all.Go(func() {
			if _, err := dirs[i].Init(t.Context()); err != nil {
				t.Error(err)
			} else if _, err := dirs[i].Apply(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.Fatal(f.log.String())
	}
	for _, d := range dirs {
		if to, err := os.Readlink(provider(d.data("providers"), p)); err != nil || to != provider(cache, p) {
			t.Errorf("%s has no link to the provider in the cache: %s, %v", d.path, to, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(cache, scratchPrefix+"*")); len(left) > 0 {
		t.Errorf("the cache has %v", left)
	}
}

// A task may be running the provider, and another program may be reading it.
func TestPluginCache_AnInitDoesNotWriteWhatIsThere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	f := newFixture(t, fileModule)
	cache, p := pluginCache(t)
	f.init(f.open(), true)
	stamp, _, err := stampOf(provider(cache, p))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		name string
		do   func() error
	}{
		{"another task", func() error { f.dir = filepath.Join(t.TempDir(), "other"); return nil }},
		{"the lock file is gone", func() error { return os.Remove(filepath.Join(f.dir, lockFile)) }},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		f.render("api")
		f.init(f.open(), true)
		f.apply(f.open())
		if again, _, err := stampOf(provider(cache, p)); err != nil || again != stamp {
			t.Errorf("%s: the provider was written again: %v", change.name, err)
		}
	}
}

func TestRequiredProviders_AreThoseOfTheRootAndOfLocalModules(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.tf"), `terraform {
  required_providers {
    aws   = { source = "registry.terraform.io/hashicorp/aws" }
    other = { source = "example.com/own/other" }
  }
}
resource "aws_vpc" "v" {}
resource "terraform_data" "d" {}
module "m" { source = "./m" }
module "far" { source = "example.com/far/away/web" }
`)
	write(t, filepath.Join(dir, "m", "main.tf"), "data \"dns_a_record_set\" \"d\" {}\nmodule \"up\" { source = \"./..\" }\n")
	got := (&Dir{path: dir}).requiredProviders()
	if want := "example.com/own/other hashicorp/aws hashicorp/dns"; strings.Join(got, " ") != want {
		t.Errorf("%v", got)
	}
}
