package terraformcli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
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
