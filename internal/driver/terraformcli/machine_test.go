package terraformcli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// plainUser makes the test that of a user who has configured nothing about Terraform.
func plainUser(t *testing.T) (home string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	home = t.TempDir()
	for _, name := range []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG", "TF_PLUGIN_CACHE_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	return home
}

func TestSharedOnMachine_UsesFoldersInWhichTerraformSearchesByItself(t *testing.T) {
	home := plainUser(t)
	mirror := filepath.Join(home, ".terraform.d", "plugins")
	write(t, filepath.Join(mirror, "registry.terraform.io", "own", "thing", "1.0.0", "linux_amd64", "terraform-provider-thing"), "")
	dir := t.TempDir()
	s, err := SharedOnMachine(dir)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	rc := read(t, s.config)
	if !strings.Contains(rc, mirror) || !strings.Contains(rc, `exclude = ["registry.terraform.io/own/thing"]`) || !strings.Contains(rc, dir) {
		t.Error(rc)
	}
	if again, err := SharedOnMachine(dir); err != nil || again == nil || read(t, s.config) != rc {
		t.Error(again, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, sharedFolder, "terraform.rc.*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

func TestSharedOnMachine_WhatTheUserHasConfiguredHolds(t *testing.T) {
	for _, file := range []string{".terraformrc", ".tofurc", ".terraform.d/credentials.tfrc.json", ".config/opentofu/tofurc"} {
		home := plainUser(t)
		write(t, filepath.Join(home, file), "")
		if s, err := SharedOnMachine(t.TempDir()); s != nil || err != nil {
			t.Errorf("%s: %v, %v", file, s, err)
		}
	}
	for _, variable := range []string{"TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR"} {
		plainUser(t)
		if err := os.Setenv(variable, "x"); err != nil { // plainUser restores it
			t.Fatal(err)
		}
		if s, err := SharedOnMachine(t.TempDir()); s != nil || err != nil {
			t.Errorf("%s: %v, %v", variable, s, err)
		}
	}
}

func TestOpen_TaskWithProvidersOfItsOwnSharesNone(t *testing.T) {
	plainUser(t)
	s, err := SharedOnMachine(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	bin := recorder(t, "")
	for _, own := range []bool{false, true} {
		dir := t.TempDir()
		if own {
			write(t, filepath.Join(dir, ownProviders, "x"), "")
		}
		d, err := bin.Open(dir, Options{Task: "web", Shared: s})
		if err != nil {
			t.Fatal(err)
		}
		if shares := d.opts.Shared != nil; shares == own {
			t.Errorf("with providers of its own %v: shares %v", own, shares)
		}
	}
}
