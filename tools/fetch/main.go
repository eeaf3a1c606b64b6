// Command fetch puts the programs that tests, demo and lint run for real into
// .tools at the top of the checkout:
//
//	.tools/bin/<program>                        consul, terraform, staticcheck, govulncheck
//	.tools/mirror/registry.terraform.io/...     Terraform's providers local and time
//	.tools/terraform.rc                         a Terraform configuration that uses the mirror only
//
// It takes Consul and Terraform from PATH, else downloads them from HashiCorp's
// releases, else builds them from source through the Go module proxy. What it
// downloads or builds it keeps in a cache outside the checkout,
// $TERRAPULSE_CACHE or terrapulse in the user's cache folder, so that each
// machine does that once. A run that finds everything in place does nothing.
//
// Usage, from the top of the checkout:
//
//	go run ./tools/fetch [name ...]
//
// Without names it gets what tests and demo need.
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

// tools is everything that can be asked for, with the one version that is
// tested. Where a tool has a module in tools, that module pins the same version.
var tools = []tool{
	{
		name: "consul", version: "1.22.3", set: "run",
		product: &product.Consul, atLeast: "1.15.0",
		module: "tools/consul", pkg: "github.com/hashicorp/consul",
	},
	{
		name: "terraform", version: "1.11.4", set: "run",
		product: &product.Terraform, atLeast: "1.0.0",
		module: "tools/terraform", pkg: "github.com/hashicorp/terraform",
		// Without it the binary calls itself 1.11.4-dev.
		ldflags: "-X github.com/hashicorp/terraform/version.dev=no",
	},
	{
		// Release 2.8.0; the module's path and its tags do not agree, hence
		// the pseudo-version.
		name: "terraform-provider-local", version: "2.8.0", set: "run",
		pkg: "github.com/terraform-providers/terraform-provider-local", at: "v1.4.1-0.20260513075820-3561e410f9fe",
	},
	{
		name: "terraform-provider-time", version: "0.14.2", set: "run",
		pkg: "github.com/hashicorp/terraform-provider-time", at: "v0.14.2",
	},
	{
		name: "staticcheck", version: "0.8.2", set: "lint",
		pkg: "honnef.co/go/tools/cmd/staticcheck", at: "v0.8.2",
	},
	{
		name: "govulncheck", version: "1.9.0", set: "lint",
		module: "tools/govulncheck", pkg: "golang.org/x/vuln/cmd/govulncheck",
	},
}

// tool is one program and where it may come from.
type tool struct {
	name    string
	version string
	set     string // "run" for tests and demo, "lint"

	product *product.Product // looked for on PATH and in HashiCorp's releases; nil for neither
	atLeast string           // the oldest version that is taken from PATH

	pkg     string // main package that it is built from
	module  string // folder of the module that pins pkg; else
	at      string // version of pkg's module
	ldflags string
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
	// Asking a Terraform for its version must not wait for the network.
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

// choose returns the tools with these names; without names, those of the set
// "run".
func choose(names []string) ([]tool, error) {
	var chosen []tool
	for _, t := range tools {
		if slices.Contains(names, t.name) || len(names) == 0 && t.set == "run" {
			chosen = append(chosen, t)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(tools, func(t tool) bool { return t.name == name }) {
			var known []string
			for _, t := range tools {
				known = append(known, t.name)
			}
			return nil, fmt.Errorf("no tool is called %q: choose from %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// cacheDir returns the folder, outside the checkout, where binaries are kept.
func cacheDir() (string, error) {
	if dir := os.Getenv("TERRAPULSE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for downloaded tools: %w: set TERRAPULSE_CACHE to one", err)
	}
	return filepath.Join(dir, "terrapulse"), nil
}

// exe is the ending of a program's file name on this system.
func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
