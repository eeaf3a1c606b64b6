// Command fetch installs the programs that tests, demo and lint need into
// .tools at the top of the checkout:
//
//	.tools/bin/<program>                        consul, terraform, nomad, conftest, dex, promtool, helm, goreleaser, cyclonedx-gomod, staticcheck, govulncheck, actionlint
//	.tools/tofu/tofu, terraform                 OpenTofu, by both names
//	.tools/consul/<version>/consul              other versions of Consul
//	.tools/terraform/<version>/terraform        all tested versions of Terraform
//	.tools/mirror/registry.terraform.io/...     the providers local and time
//	.tools/mirror/registry.opentofu.org/...     the same, as OpenTofu calls them
//	.tools/terraform.rc                         a Terraform configuration that uses the mirror only
//	.tools/dynamodb                             DynamoDB Local, with its libraries
//	.tools/python                               a Python environment with the AWS and SAM command lines, cfn-lint and moto, which has
//	.tools/bin/<program>                        aws, sam, cfn-lint, moto_server, aws-lambda-rie
//	.tools/schemathesis                         a Python environment with Schemathesis, which has
//	.tools/bin/schemathesis                     makes requests from an OpenAPI description
//	.tools/site                                 a Python environment with mkdocs-material, which makes the site of the documentation
//	.tools/site-scripts                         what draws its diagrams
//	.tools/parliament                           a Python environment with parliament, which knows every right of AWS
//	.tools/checkov                              a Python environment with checkov and cloudsplaining, which find weaknesses in templates and policies
//	.tools/iam                                  a simulator of IAM, for Node.js
//	.tools/kubernetes-validate                  a Python environment with the schemas of Kubernetes' API, which has
//	.tools/bin/kubernetes-validate              checks manifests
//	.tools/go-tfe                               the tests of HashiCorp's Go client of HCP Terraform, as a program
//	.tools/pytfe                                a Python environment with HashiCorp's Python client of HCP Terraform
//	.tools/browser                              axe-core, fonts, htmx as published, and Chromium, which has
//	.tools/bin/chromium                         the browser, without a window
//
// It takes Consul, Terraform and Nomad from PATH, else downloads them from HashiCorp's
// releases, else builds them from source through the Go module proxy. Maven
// installs DynamoDB Local, and pip the Python tools, from their configured
// repositories. Downloads and builds are kept in a cache outside of the checkout,
// $TERRAPULSE_CACHE or terrapulse in the user's cache folder, so that each
// machine needs them only once. If everything is installed, it does nothing.
//
// Usage, from the top of the checkout:
//
//	go run ./tools/fetch [name | set ...]
//
// The sets are run (for the demo; needs only Go), nomad (in addition, for the tests with Nomad; not on Windows),
// pages (in addition, for the tests of the pages and of signing in: a browser, and dex, which is built from source and
// needs a C compiler; not on Windows), aws (in addition, for the AWS tests; needs Java, Maven, Node.js and Python, not
// on Windows), judges and release (in addition, for what only `make test-all` runs: programs of others that judge our
// policies, alerts, charts and APIs, most of which are built from source or need Python, and the tests of the released
// artefacts; not on Windows), docs (for `make docs` and the test of the site; needs Python, not on Windows), lint, tofu
// (in addition, for the tests with OpenTofu, which is built from source), consuls and terraforms (in addition, for the
// tests with other versions of Consul and Terraform). The default is run, nomad, pages and aws, which `make test`
// needs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/hc-install/product"
)

// consuls are the versions of Consul, besides the pinned one, that are tested. docs/operate.md
// lists them.
var consuls = []string{"1.19.2", "1.20.6", "1.21.0", "1.22.6"}

// terraform is the version of Terraform that tests, demo and template use, and documents name.
const terraform = "1.16.4"

// terraforms are the tested versions of Terraform, which docs/reference/driver.md lists. Most of their backends are
// modules without releases.
var terraforms = []struct{ version, directives string }{
	{"1.11.4", backendsAt("v0.0.0-20250409131005-35645b8fca68")},
	{terraform, backendsAt("v0.0.0-20260923115756-6ee8af215a53")},
}

// tools are all tools, each with the version that is tested. If a tool has a module in the folder
// tools, that module pins the same version.
var tools = append([]tool{
	{
		name: "consul", version: "1.22.3", set: "run",
		product: &product.Consul, atLeast: "1.15.0",
		module: "tools/consul", pkg: "github.com/hashicorp/consul",
		edits: consulEdits, packages: 900, minutes: 2,
		undebugged: undebugged,
	},
	{
		name: "terraform", version: terraform, set: "run",
		product: &product.Terraform, atLeast: "1.0.0",
		module: "tools/terraform", pkg: "github.com/hashicorp/terraform", ldflags: released,
		edits: terraformEdits, undebugged: undebugged,
	},
	{
		name: "tofu", version: "1.12.6", set: "tofu",
		module: "tools/opentofu", pkg: "github.com/opentofu/opentofu/cmd/tofu",
		ldflags: "-X github.com/opentofu/opentofu/version.dev=no",
	},
	{
		// This is release 2.8.0: the module's path does not match its tags, so it needs a
		// pseudo-version.
		name: "terraform-provider-local", version: "2.8.0", set: "run",
		pkg: "github.com/terraform-providers/terraform-provider-local", at: "v1.4.1-0.20260513075820-3561e410f9fe",
	},
	{
		name: "terraform-provider-time", version: "0.14.2", set: "run",
		pkg: "github.com/hashicorp/terraform-provider-time", at: "v0.14.2",
	},
	{
		name: "nomad", version: "1.10.5", set: "nomad",
		product: &product.Nomad, atLeast: "1.8.0",
		module: "tools/nomad", pkg: "github.com/hashicorp/nomad", cgo: true,
	},
	{
		name: "conftest", version: "0.71.1", set: "judges",
		pkg: "github.com/open-policy-agent/conftest", at: "v0.71.1",
	},
	{
		// This is release 2.41.1: the module's path does not match its tags.
		name: "dex", version: "0.0.0-20240807174518-43956db7fd75", set: "pages",
		module: "tools/dex", pkg: "github.com/dexidp/dex/cmd/dex", cgo: true,
	},
	{
		name: "promtool", version: "0.316.0", set: "judges",
		module: "tools/examples", pkg: "github.com/prometheus/prometheus/cmd/promtool",
		// Without the clients of all clouds, which find targets.
		tags: "remove_all_sd",
	},
	{
		name: "helm", version: "3.22.0", set: "judges",
		module: "tools/examples", pkg: "helm.sh/helm/v3/cmd/helm",
	},
	{
		name: "kubernetes-validate", set: "judges",
		pin: "tools/kubernetes-validate/requirements.txt", fill: (*fetcher).virtualEnvironment, proof: "bin/python",
		scripts: map[string]string{"kubernetes-validate": "bin/kubernetes-validate"},
	},
	{
		name: "staticcheck", version: "0.8.2", set: "lint",
		pkg: "honnef.co/go/tools/cmd/staticcheck", at: "v0.8.2",
	},
	{
		name: "govulncheck", version: "1.9.0", set: "lint",
		module: "tools/govulncheck", pkg: "golang.org/x/vuln/cmd/govulncheck",
	},
	{
		name: "actionlint", version: "1.7.12", set: "lint",
		pkg: "github.com/rhysd/actionlint/cmd/actionlint", at: "v1.7.12",
	},
	{
		name: "goreleaser", version: "2.16.0", set: "release",
		pkg: "github.com/goreleaser/goreleaser/v2", at: "v2.16.0",
	},
	{
		name: "cyclonedx-gomod", version: "1.10.0", set: "release",
		module: "tools/cyclonedx-gomod", pkg: "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod",
	},
	{
		name: "dynamodb", set: "aws",
		pin: "tools/dynamodb/pom.xml", fill: (*fetcher).maven, proof: "DynamoDBLocal-3.0.0.jar",
	},
	{
		name: "python", set: "aws",
		pin: "tools/aws/requirements.txt", fill: (*fetcher).virtualEnvironment,
		// A link to the Python that created it, which may be gone.
		proof:   "bin/python",
		scripts: map[string]string{"aws": "bin/aws", "sam": "bin/sam", "cfn-lint": "bin/cfn-lint", "moto_server": "bin/moto_server"},
		// SAM CLI contains Lambda's emulator for Linux, for both architectures.
		program: "lib/python*/site-packages/samcli/local/rapid/aws-lambda-rie-" + lambdaArchitecture(),
		as:      "aws-lambda-rie",
	},
	{
		name: "schemathesis", set: "judges",
		pin: "tools/schemathesis/requirements.txt", fill: (*fetcher).virtualEnvironment, proof: "bin/python",
		scripts: map[string]string{"schemathesis": "bin/schemathesis"},
	},
	{
		name: "parliament", set: "aws",
		pin: "tools/parliament/requirements.txt", fill: (*fetcher).virtualEnvironment, proof: "bin/python",
	},
	{
		name: "iam", set: "aws",
		pin: "tools/iam/packages.json", fill: (*fetcher).nodeModules, proof: "node_modules/@cloud-copilot/iam-simulate/package.json",
	},
	{
		name: "checkov", set: "lint",
		pin: "tools/checkov/requirements.txt", fill: (*fetcher).virtualEnvironment, proof: "bin/python",
	},
	{
		name: "go-tfe", set: "judges", pkg: "github.com/hashicorp/go-tfe",
		pin: "tools/go-tfe/go.mod", fill: (*fetcher).goTests, proof: "go-tfe.test" + exe(),
	},
	{
		name: "pytfe", set: "judges",
		pin: "tools/pytfe/requirements.txt", fill: (*fetcher).virtualEnvironment, proof: "bin/python",
	},
	{
		name: "site", set: "docs",
		pin: "tools/site/requirements.txt", fill: (*fetcher).virtualEnvironment, proof: "bin/python",
	},
	{
		name: "site-scripts", set: "docs",
		pin: "tools/site/packages.json", fill: (*fetcher).npmPackages, proof: "tiny/dist/mermaid.tiny.js",
	},
	{
		name: "browser", set: "pages",
		pin: "tools/browser/packages.json", fill: (*fetcher).browser, proof: "chromium/run",
		program: "chromium/run", as: "chromium",
	},
}, others()...)

// released lets Terraform report its version without -dev.
const released = "-X github.com/hashicorp/terraform/version.dev=no"

// undebugged are prefixes of the packages of Consul and Terraform that no other tool needs in the same form.
var undebugged = []string{"cloud.google.com", "github.com", "google.golang.org", "golang.org/x", "go.opentelemetry.io"}

// others are the versions of Consul and Terraform that are installed each in a folder of its own.
func others() []tool {
	var all []tool
	for _, version := range consuls {
		all = append(all, tool{name: "consul", version: version, set: "consuls", other: true,
			product: &product.Consul, pkg: "github.com/hashicorp/consul", directives: consulDirectives})
	}
	for _, v := range terraforms {
		all = append(all, tool{name: "terraform", version: v.version, set: "terraforms", other: true,
			product: &product.Terraform, pkg: "github.com/hashicorp/terraform", ldflags: released, directives: v.directives,
			edits: terraformEdits, undebugged: undebugged})
	}
	return all
}

// consulDirectives are what tools/consul has for the pinned version, too.
const consulDirectives = `exclude (
	github.com/hashicorp/go-msgpack v1.1.5
	github.com/hashicorp/go-msgpack v1.1.6
)

replace github.com/hashicorp/go-discover => TOP/tools/consul/discover
`

// backendsAt replaces the modules that Terraform's go.mod names by folder with their commit.
func backendsAt(version string) string {
	var b strings.Builder
	for _, name := range []string{"azure", "consul", "cos", "gcs", "kubernetes", "oci", "oss", "pg", "s3"} {
		module := "github.com/hashicorp/terraform/internal/backend/remote-state/" + name
		fmt.Fprintf(&b, "replace %s => %s %s\n", module, module, version)
	}
	const legacy = "github.com/hashicorp/terraform/internal/legacy"
	fmt.Fprintf(&b, "replace %s => %s %s\n", legacy, legacy, version)
	return b.String()
}

// tool is a program and its sources.
type tool struct {
	name    string
	version string
	set     string // "run" for tests and demo, "nomad", "pages" and "aws" for tests, "judges", "release" and "docs" for all tests, "tofu" for tests with OpenTofu, "consuls" and "terraforms" for tests with other versions of Consul and Terraform, "lint"

	product *product.Product // to search on PATH and in HashiCorp's releases; nil for neither
	atLeast string           // the oldest version that is accepted on PATH
	other   bool             // another version of a tool: it is chosen by its set only, and installed in a folder of its own

	pkg        string // main package to build
	module     string // folder of the module that pins pkg; else
	at         string // version of pkg's module; neither for another version of a tool, but
	directives string // replacements and exclusions of its go.mod; TOP is the checkout
	ldflags    string
	tags       string // for the build
	cgo        bool   // it cannot be built without a C compiler

	edits      []edit   // of the module's source, so that it builds faster; not with at
	undebugged []string // compiled without what debuggers read: prefixes of packages that no other tool needs in the same form
	packages   int      // about how many are compiled; 0 if that is not known
	minutes    int      // that a build takes on 2 cores; 4 if it is not set

	// A tool that is a folder has only these fields, and pkg if it is made of a Go package.
	pin     string                                                          // file of the checkout with the content's versions
	fill    func(f *fetcher, ctx context.Context, t tool, dir string) error // creates the folder
	proof   string                                                          // file that a complete folder contains
	scripts map[string]string                                               // in .tools/bin: Python scripts of the folder
	program string                                                          // pattern of a program of the folder
	as      string                                                          // its name in .tools/bin
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	top, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(top, "tools", "consul", "go.mod")); err != nil {
		return fmt.Errorf("%s is not the top of a checkout: run `make tools` there", top)
	}
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	// terraform version must not wait for the network.
	if err := os.Setenv("CHECKPOINT_DISABLE", "1"); err != nil {
		return err
	}
	f := &fetcher{
		top:      top,
		cache:    cache,
		path:     filepath.SplitList(os.Getenv("PATH")),
		releases: "https://releases.hashicorp.com",
		log:      os.Stderr,
	}
	return f.fetch(ctx, chosen)
}

// choose returns the tools with these names or of these sets; by default, those that the tests
// need.
func choose(names []string) ([]tool, error) {
	if len(names) == 0 {
		names = []string{"run", "nomad", "pages", "aws"}
		if runtime.GOOS == "windows" {
			names = []string{"run"}
		}
	}
	known := []string{"run", "pages", "aws", "judges", "release", "docs", "lint", "consuls", "terraforms"} // tofu and nomad are names of tools, too
	for _, t := range tools {
		known = append(known, t.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no tool is called %q: choose from %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t tool) bool {
		return (t.other || !slices.Contains(names, t.name)) && !slices.Contains(names, t.set)
	}), nil
}

// cacheDir returns the cache folder, which is outside of the checkout.
func cacheDir() (string, error) {
	if dir := os.Getenv("TERRAPULSE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder for tools: %w: set TERRAPULSE_CACHE", err)
	}
	return filepath.Join(dir, "terrapulse"), nil
}

// exe returns the extension of programs on this system.
func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// lambdaArchitecture returns this machine's architecture in the words of Lambda's tools.
func lambdaArchitecture() string {
	if runtime.GOARCH == "arm64" {
		return "arm64"
	}
	return "x86_64"
}
