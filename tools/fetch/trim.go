package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// edit changes one file of a module's source; nil content removes the file.
type edit struct {
	file   string
	change func(content []byte) []byte
}

// consulEdits leave out of Consul what nothing here uses and what half of its packages are needed for:
// logins from Kubernetes, logins at Vault from two clouds, one command, and Envoy's extensions that
// only hand-written configuration of a proxy names. Everything else is Consul as it is.
var consulEdits = []edit{
	{"agent/xds/z_xds_packages.go", removed},
	{"agent/consul/authmethod/kubeauth/k8s.go", with("package kubeauth\n")},
	{"agent/consul/authmethod/kubeauth/k8s_ce.go", removed},
	{"agent/consul/authmethod/kubeauth/testing.go", removed},
	{"command/registry.go", withoutLines("troubleshoot")},
	{"agent/connect/ca/provider_vault_auth_alicloud.go", with(noLogin("NewAliCloudAuthClient", "*VaultAuthClient"))},
	{"agent/connect/ca/provider_vault_auth_gcp.go", with(noLogin("NewGCPAuthClient", "VaultAuthenticator"))},
}

func removed([]byte) []byte { return nil }

func with(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }

func withoutLines(word string) func([]byte) []byte {
	return func(content []byte) []byte {
		return bytes.Join(slices.DeleteFunc(bytes.SplitAfter(content, []byte("\n")), func(line []byte) bool { return bytes.Contains(line, []byte(word)) }), nil)
	}
}

// noLogin is a file of Consul in which a way to log in to Vault always fails.
func noLogin(function, result string) string {
	return fmt.Sprintf(`package ca

import (
	"errors"

	"github.com/hashicorp/consul/agent/structs"
)

func %s(*structs.VaultAuthMethod) (%s, error) {
	return nil, errors.New("this build of Consul, for tests, does not log in to Vault in this way")
}
`, function, result)
}

// terraformEdits leave out of Terraform the backend in Kubernetes, which nothing here uses and a quarter
// of the source is needed for.
var terraformEdits = []edit{{"internal/backend/init/init.go", withoutLines("Kubernetes")}}

// trimmed copies the source of the tool into work, with the tool's edits, and returns a go.mod that
// builds the copy, beside which module requires the original.
func (f *fetcher) trimmed(ctx context.Context, t tool, module, work string) (modfile string, err error) {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", t.pkg)
	download.Dir, download.Env = module, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	text, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("download the source of %s: %w\nThe Go module proxy must be reachable (see `go env GOPROXY`)", t.pkg, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(text, &found); err != nil {
		return "", fmt.Errorf("read where the source of %s is: %w", t.pkg, err)
	}
	source := filepath.Join(work, "source")
	if err := copySource(found.Dir, source); err != nil {
		return "", fmt.Errorf("copy the source of %s: %w", t.pkg, err)
	}
	for _, e := range t.edits {
		if err := e.apply(source); err != nil {
			return "", fmt.Errorf("edit the source of %s %s: %w", t.name, t.version, err)
		}
	}
	modfile = filepath.Join(work, "trimmed.mod")
	for name, more := range map[string]string{"go.mod": fmt.Sprintf("\nreplace %s => %q\n", t.pkg, filepath.ToSlash(source)), "go.sum": ""} {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(work, "trimmed"+strings.TrimPrefix(name, "go")), append(content, more...), 0o644); err != nil {
			return "", err
		}
	}
	return modfile, nil
}

// apply makes the edit. The file must be there: an edit that no longer fits must not be forgotten.
func (e edit) apply(source string) error {
	path := filepath.Join(source, filepath.FromSlash(e.file))
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if content = e.change(content); content == nil {
		return os.Remove(path)
	}
	return os.WriteFile(path, content, 0o644)
}

// copySource copies the files of a module that a build reads, so that they can be written.
func copySource(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}
