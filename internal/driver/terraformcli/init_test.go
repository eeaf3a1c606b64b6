package terraformcli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestInit_RunsOnlyAfterAChangeOfItsInputs(t *testing.T) {
	sub := "\nmodule \"sub\" {\n  source = \"./sub\"\n}\n"
	f := newFixture(t, fileModule+sub)
	write(t, filepath.Join(f.module, "sub", "main.tf"), `resource "terraform_data" "a" {}`)
	f.init(f.open(), true)
	f.apply(f.open())
	for _, c := range []struct {
		change string
		want   bool
		do     func()
	}{
		{"nothing", false, func() {}},
		{"new values", false, func() { f.render("api", "db", "web") }},
		{"a resource of the module", false, func() { f.writeModule(strings.Replace(fileModule, "names.txt", "other.txt", 1) + sub) }},
		{"a new provider of the module", true, func() {
			f.writeModule(fileModule + sub + `resource "time_static" "now" {}`)
		}},
		{"a new provider of a nested module", true, func() {
			write(t, filepath.Join(f.module, "sub", "main.tf"), `resource "time_static" "now" {}`)
		}},
		{"a version constraint", true, func() {
			write(t, filepath.Join(f.module, "versions.tf"), "terraform {\n  required_providers {\n    local = { source = \"hashicorp/local\", version = \">= 2.0\" }\n  }\n}\n")
		}},
		{"another backend", true, func() {
			f.cfg.Terraform.Backend.Body.Attributes = map[string]cty.Value{"workspace_dir": cty.StringVal("states")}
			f.render("api")
		}},
		{"another Terraform", true, func() { f.bin = &Binary{Path: f.bin.Path, Version: tested} }},
		{"the lock file", true, func() {
			path := filepath.Join(f.dir, lockFile)
			write(t, path, read(t, path)+"# by hand\n")
		}},
		{"a provider removed", false, func() {
			if err := os.RemoveAll(filepath.Join(f.dir, ".terraform", "providers")); err != nil {
				t.Fatal(err)
			}
		}},
		{"the modules removed", true, func() {
			if err := os.RemoveAll(filepath.Join(f.dir, ".terraform", "modules")); err != nil {
				t.Fatal(err)
			}
		}},
		{"the data directory removed", true, func() {
			if err := os.RemoveAll(filepath.Join(f.dir, ".terraform")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		c.do()
		ran, err := f.open().Init(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", c.change, err)
		}
		if ran != c.want {
			t.Errorf("%s: init was run: %v", c.change, ran)
		}
		f.apply(f.open())
	}
}

func TestInit_IsNotRunAfterAnEditOfALocalModule(t *testing.T) {
	f := newFixture(t, fileModule)
	f.init(f.open(), true)
	f.apply(f.open())
	f.writeModule(strings.Replace(fileModule, `join(","`, `join("+"`, 1))
	f.render("api", "db")
	d := f.open()
	f.init(d, false)
	f.apply(d)
	if got := read(t, filepath.Join(f.module, "names.txt")); got != "api+db" {
		t.Errorf("the file says %q", got)
	}
}

// Where links cannot be made, as on Windows, Terraform copies a local module.
func TestInit_CopiesAnEditedLocalModuleAgain(t *testing.T) {
	f := newFixture(t, fileModule)
	f.init(f.open(), true)
	link := filepath.Join(f.dir, ".terraform", "modules", "web")
	if err := os.RemoveAll(link); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(link, "main.tf"), fileModule)
	f.init(f.open(), true) // the copy is new to it
	if err := os.RemoveAll(link); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(link, "main.tf"), "not what the module says any more")

	f.writeModule(strings.Replace(fileModule, `join(","`, `join("+"`, 1))
	f.render("api", "db")
	d := f.open()
	f.init(d, true)
	f.apply(d)
	if got := read(t, filepath.Join(f.module, "names.txt")); got != "api+db" {
		t.Errorf("the file says %q", got)
	}
}

// olderVersions has Terraform install the providers of the tests from a mirror, each also under an older version.
func (f *fixture) olderVersions() {
	f.t.Helper()
	mirror := f.t.TempDir()
	for _, p := range []struct{ name, older string }{{"local", "2.7.0"}, {"time", "0.14.0"}} {
		from := filepath.Join(filepath.Dir(testtools.TerraformRC(f.t)), "mirror", registryHost(), "hashicorp", p.name)
		there, err := filepath.Glob(filepath.Join(from, "*", "*", "*"))
		if err != nil || len(there) != 1 {
			f.t.Fatalf("%v, %v", there, err)
		}
		for _, version := range []string{p.older, filepath.Base(filepath.Dir(filepath.Dir(there[0])))} {
			to := filepath.Join(mirror, registryHost(), "hashicorp", p.name, version, filepath.Base(filepath.Dir(there[0])), filepath.Base(there[0]))
			write(f.t, to, read(f.t, there[0]))
			if err := os.Chmod(to, 0o755); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	rc := filepath.Join(f.t.TempDir(), "terraform.rc")
	write(f.t, rc, fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror))
	f.t.(*testing.T).Setenv("TF_CLI_CONFIG_FILE", rc)
}

func TestInit_InstallsAnotherVersionOfAProviderWhenItsConstraintHasChanged(t *testing.T) {
	f := newFixture(t, fileModule+`resource "time_static" "now" {}`)
	f.olderVersions()
	versions := func(local, time string) {
		write(t, filepath.Join(f.module, "versions.tf"), fmt.Sprintf("terraform {\n  required_providers {\n    local = { source = \"hashicorp/local\", version = %q }\n"+
			"    time = { source = \"hashicorp/time\", version = %q }\n  }\n}\n", local, time))
	}
	locked := func() (all string) {
		for _, p := range f.open().lockedProviders() {
			all += filepath.Base(p.Source) + " " + p.Version + " "
		}
		return all
	}
	versions("2.7.0", "0.14.0")
	f.init(f.open(), true)
	f.apply(f.open())

	versions("~> 2.8", ">= 0.14.0")
	if _, err := f.bin.Inspect(t.Context(), f.dir, func(dir string) error { return f.renderTo(dir, "api") }, f.options()); err != nil {
		t.Errorf("a plan: %v", err)
	}
	f.init(f.open(), true)
	f.apply(f.open())
	if got := locked(); got != "local 2.8.0 time 0.14.0 " {
		t.Errorf("locked is %s: only the provider whose constraint excludes its version gets another one", got)
	}

	versions("9.9.9", ">= 0.14.0")
	if _, err := f.open().Init(t.Context()); err == nil || !strings.Contains(err.Error(), "9.9.9") || locked() != "local 2.8.0 time 0.14.0 " {
		t.Errorf("a version that does not exist: %v, locked is %s", err, locked())
	}
}

func TestInit_ThatFailsKeepsNoLockFile(t *testing.T) {
	f := &fixture{t: t, dir: t.TempDir(), cfg: &config.Config{}, task: &config.Task{Name: "web", Module: t.TempDir()}}
	f.bin = recorder(t, "echo 'provider \"half\" {}' > .terraform.lock.hcl; exit 1")
	f.render("api")
	for _, before := range []string{"", "# what the init before has recorded\n"} {
		if before != "" {
			write(t, filepath.Join(f.dir, lockFile), before)
		}
		if _, err := f.open().Init(t.Context()); err == nil {
			t.Fatal("the init succeeded")
		}
		if after, err := readIfThere(filepath.Join(f.dir, lockFile)); err != nil || string(after) != before {
			t.Errorf("the lock file is %q, %v", after, err)
		}
	}
}

func TestInit_NamesALockFileWhoseChecksumIsNotThatOfTheProvider(t *testing.T) {
	f := newFixture(t, fileModule)
	f.init(f.open(), true)
	path := filepath.Join(f.dir, lockFile)
	right := read(t, path)
	write(t, path, strings.Replace(right, "h1:", "h1:AAAA", 1))
	if _, err := f.open().Init(t.Context()); err == nil || !strings.Contains(err.Error(), "remove this file") || !strings.Contains(err.Error(), path) {
		t.Errorf("error = %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.init(f.open(), true)
	if got := read(t, path); got != right {
		t.Errorf("the lock file is %s", got)
	}
}
