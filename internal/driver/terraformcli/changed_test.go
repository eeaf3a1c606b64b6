package terraformcli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestModuleChanged_CountsTerraformFilesOfTheModuleAndOfThoseThatItCalls(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("fw/main.tf", `module "rules" { source = "../rules" }`)
	write("rules/main.tf", `module "self" { source = "../fw" }`) // Terraform refuses it
	fw := filepath.Join(dir, "fw")
	changes := func(what string, want bool, change func()) {
		t.Helper()
		before := ModuleChanged(fw)
		time.Sleep(20 * time.Millisecond) // the resolution of the times of files
		if change(); ModuleChanged(fw).After(before) != want {
			t.Errorf("%s: at %s, before at %s", what, ModuleChanged(fw), before)
		}
	}
	if ModuleChanged(filepath.Join(dir, "nowhere")) != (time.Time{}) {
		t.Error("a module that is not there was changed")
	}
	changes("its file", true, func() { write("fw/main.tf", `module "rules" { source = "../rules" } # repaired`) })
	changes("a new file", true, func() { write("fw/more.tf", "") })
	changes("a file of a module that it calls", true, func() { write("rules/main.tf", "") })
	changes("files that a run writes", false, func() { write("fw/rendered.txt", ""); write("fw/.terraform/modules/x.tf", "") })
	changes("a file of another module", false, func() { write("dns/main.tf", "") })
}
