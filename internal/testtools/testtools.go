// Package testtools finds the real programs for tests: a Consul server, Terraform, a mirror of the
// providers that the tests' modules use, and simulated AWS services. `make tools` puts them into
// .tools at the top of the checkout.
package testtools

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// Consul returns the path of a Consul binary. TERRAPULSE_TEST_CONSUL=1.2.3 chooses another version
// than the pinned one.
func Consul(t testing.TB) string {
	t.Helper()
	if version := os.Getenv("TERRAPULSE_TEST_CONSUL"); version != "" {
		return find(t, "consul/"+version+"/consul")
	}
	return find(t, "bin/consul")
}

// OtherConsuls returns the paths of the Consul binaries of other versions than Consul's that are
// installed. `make test-consul` installs them.
func OtherConsuls(t testing.TB) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(Root(t), ".tools", "consul", "*", "consul*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(append(all, find(t, "bin/consul")), func(path string) bool { return path == Consul(t) })
}

// Nomad returns the path of a Nomad binary, with which an agent runs on this machine.
// TERRAPULSE_TEST_NOMAD=PATH chooses another one than the pinned one.
func Nomad(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("TERRAPULSE_TEST_NOMAD"); path != "" {
		NeedsPrograms(t)
		return path
	}
	return aws(t, "bin/nomad")
}

// Conftest returns the path of conftest, which judges data by Rego policies.
func Conftest(t testing.TB) string { return ofAll(t, "bin/conftest") }

// Dex returns the path of dex, an OpenID provider.
func Dex(t testing.TB) string { return aws(t, "bin/dex") }

// Promtool returns the path of promtool, which checks Prometheus' rules and runs their tests.
func Promtool(t testing.TB) string { return ofAll(t, "bin/promtool") }

// Helm returns the path of helm, which renders charts for Kubernetes.
func Helm(t testing.TB) string { return ofAll(t, "bin/helm") }

// KubernetesValidate returns the path of a program that checks manifests against the schemas of
// Kubernetes' API.
func KubernetesValidate(t testing.TB) string { return ofAll(t, "bin/kubernetes-validate") }

// DynamoDB returns the folder of DynamoDB Local: its jars and native libraries.
func DynamoDB(t testing.TB) string { return aws(t, "dynamodb") }

// AWS returns the path of the AWS command line.
func AWS(t testing.TB) string { return aws(t, "bin/aws") }

// Moto returns the path of the server of moto, which simulates AWS.
func Moto(t testing.TB) string { return aws(t, "bin/moto_server") }

// Goreleaser returns goreleaser.
func Goreleaser(t testing.TB) string { return ofAll(t, "bin/goreleaser") }

// SAM returns the path of the SAM CLI.
func SAM(t testing.TB) string { return aws(t, "bin/sam") }

// Schemathesis returns the path of a program that generates requests from an OpenAPI description.
func Schemathesis(t testing.TB) string { return ofAll(t, "bin/schemathesis") }

// GoTFE returns the folder with the tests of go-tfe, HashiCorp's Go client of HCP Terraform: the
// program go-tfe.test and the files that it reads.
func GoTFE(t testing.TB) string { return ofAll(t, "go-tfe") }

// PyTFE returns the path of a Python with pytfe, HashiCorp's Python client of HCP Terraform.
func PyTFE(t testing.TB) string { return ofAll(t, "pytfe/bin/python") }

// Site returns the path of a Python with mkdocs, which makes the site of the documentation.
func Site(t testing.TB) string { return ofAll(t, "site/bin/python") }

// Browser returns the path of a Chromium without a window.
func Browser(t testing.TB) string { return aws(t, "bin/chromium") }

// Axe returns the path of axe-core, a script that finds what keeps people from using a
// page.
func Axe(t testing.TB) string { return aws(t, "browser/axe-core/axe.min.js") }

// Htmx returns the folder of htmx as its authors have published it.
func Htmx(t testing.TB) string { return aws(t, "browser/htmx.org/dist") }

// Fonts returns the folders of the fonts with which pages are shown to tests: Inter and
// JetBrains Mono.
func Fonts(t testing.TB) []string {
	return []string{aws(t, "browser/inter"), aws(t, "browser/jetbrains-mono")}
}

// Python returns the path of a Python with the modules of SAM's translator.
func Python(t testing.TB) string { return aws(t, "python/bin/python") }

// Parliament returns the path of a Python with parliament, which knows every right of AWS.
func Parliament(t testing.TB) string { return aws(t, "parliament/bin/python") }

// IAM returns the folder with a simulator of IAM for Node.js.
func IAM(t testing.TB) string { return aws(t, "iam") }

// RIE returns the path of Lambda's runtime interface emulator, which runs a built bootstrap and
// accepts invocations over HTTP. It exists only for Linux: elsewhere the test is skipped.
func RIE(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("Lambda's emulator runs on Linux only")
	}
	return aws(t, "bin/aws-lambda-rie")
}

// All reports whether `make test-all` runs the tests: also those that take long and rarely find what
// the others do not.
func All() bool { return os.Getenv("TERRAPULSE_TEST_ALL") != "" }

// OnlyInAll skips a test that only `make test-all` runs.
func OnlyInAll(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip("`make test-all` runs it")
	}
}

// ofAll finds a tool that `make test-all` installs on every system except Windows.
func ofAll(t testing.TB, name string) string {
	t.Helper()
	OnlyInAll(t)
	return aws(t, name)
}

// aws finds a tool that `make tools` installs on every system except Windows.
func aws(t testing.TB, name string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("this tool is not installed on Windows")
	}
	return find(t, name)
}

// Terraform returns the path of a Terraform binary. TERRAPULSE_TEST_TERRAFORM=1.2.3 chooses another
// version than the pinned one. With TERRAPULSE_TEST_ENGINE=tofu it is an OpenTofu with the name terraform.
func Terraform(t testing.TB) string {
	t.Helper()
	if os.Getenv("TERRAPULSE_TEST_ENGINE") == "tofu" {
		return filepath.Join(filepath.Dir(OpenTofu(t)), "terraform"+filepath.Ext(OpenTofu(t)))
	}
	if version := os.Getenv("TERRAPULSE_TEST_TERRAFORM"); version != "" {
		return find(t, "terraform/"+version+"/terraform")
	}
	return find(t, "bin/terraform")
}

// OpenTofu returns the path of an OpenTofu, in a folder without a Terraform. If there is none, the
// test is skipped: `make test-tofu` installs it.
func OpenTofu(t testing.TB) string {
	t.Helper()
	path := filepath.Join(Root(t), ".tools", "tofu", "tofu")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is missing: `make test-tofu` gets it", path)
	}
	return path
}

// TerraformRC returns the path of a Terraform CLI configuration that installs the providers local
// and time from a mirror on disk, without a network. Tests set it as TF_CLI_CONFIG_FILE.
func TerraformRC(t testing.TB) string { return find(t, "terraform.rc") }

// NeedsPrograms skips a test of -short: it starts another program, or builds one.
func NeedsPrograms(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs another program")
	}
}

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
	NeedsPrograms(t)
	path := filepath.Join(Root(t), ".tools", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing: run `make tools` first", path)
	}
	return path
}
