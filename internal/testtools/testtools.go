// Package testtools finds the programs that tests run for real: a Consul
// server, Terraform, and a mirror of the providers that the tests' modules use.
// `make tools` puts them into .tools at the top of the checkout.
package testtools

import (
	"os"
	"path/filepath"
	"testing"
)

// Consul returns the path of a Consul binary.
func Consul(t testing.TB) string { return find(t, "bin/consul") }

// DynamoDB returns the folder of DynamoDB Local: its jars and native libraries.
func DynamoDB(t testing.TB) string { return find(t, "dynamodb") }

// Terraform returns the path of a Terraform binary.
func Terraform(t testing.TB) string { return find(t, "bin/terraform") }

// TerraformRC returns the path of a Terraform CLI configuration that installs
// the providers local and time from a mirror on disk and reaches no network.
// Tests set it as TF_CLI_CONFIG_FILE.
func TerraformRC(t testing.TB) string { return find(t, "terraform.rc") }

// Root returns the top of the checkout.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod in this folder or above it: run the test from a checkout")
		}
		dir = parent
	}
}

func find(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Root(t), ".tools", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing: run `make tools` first", path)
	}
	return path
}
