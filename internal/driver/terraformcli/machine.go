package terraformcli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// sharedFolder is the folder of a working directory that has the providers which tasks share. The
// name of a task has no dot at its beginning.
const sharedFolder = ".providers"

// ownProviders is the folder of a task's directory in which Terraform searches providers, unless it
// has a CLI configuration.
var ownProviders = filepath.Join("terraform.d", "plugins")

// SharedOnMachine returns the folder of providers that the tasks of a working directory share on a
// machine. Otherwise each task downloads and unpacks its own copy: of the provider for AWS, 700 MB.
// It returns nil if the user has configured where Terraform gets providers, or how it logs in to
// registries: Terraform reads only one CLI configuration.
func SharedOnMachine(workingDir string) (*Shared, error) {
	home, err := os.UserHomeDir()
	if runtime.GOOS == "windows" || err != nil || configured() {
		return nil, nil
	}
	dir, err := filepath.Abs(filepath.Join(workingDir, sharedFolder))
	if err != nil {
		return nil, err
	}
	return NewShared(dir, append(userMirrors(home), Mirrors()...), nil)
}

// configured reports whether there is a CLI configuration of Terraform or OpenTofu.
func configured() bool { return configuredBy() != "" }

// configuredBy is the variable or the file that says where Terraform gets providers; "" if none does.
func configuredBy() string {
	for _, name := range append([]string{"TF_PLUGIN_CACHE_DIR"}, cliConfigVariables...) {
		if os.Getenv(name) != "" {
			return name
		}
	}
	for _, path := range cliConfigFiles("", os.Getenv) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return path
		}
	}
	return ""
}

// cliConfigVariables name the CLI configuration of Terraform and OpenTofu.
var cliConfigVariables = []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"}

// cliConfigFiles returns the paths where Terraform and OpenTofu search their CLI configuration when they
// work in dir.
func cliConfigFiles(dir string, env func(string) string) []string {
	for _, name := range cliConfigVariables {
		if path := env(name); path != "" && !filepath.IsAbs(path) {
			return []string{filepath.Join(dir, path)}
		} else if path != "" {
			return []string{path}
		}
	}
	home, tofu := env("HOME"), filepath.Join(cmp.Or(env("XDG_CONFIG_HOME"), filepath.Join(env("HOME"), ".config")), "opentofu")
	paths := []string{filepath.Join(home, ".terraformrc"), filepath.Join(home, ".tofurc"), filepath.Join(tofu, "tofurc")}
	for _, dir := range []string{filepath.Join(home, ".terraform.d"), tofu} {
		more, _ := filepath.Glob(filepath.Join(dir, "*.tfrc*")) // no error: the pattern is valid
		paths = append(paths, more...)
	}
	return paths
}

// MissingCLIConfig returns why Terraform does not find the CLI configuration that the environment names when it
// works in the folder of a task; "" if it does, or if none is named. Terraform only warns, and goes on without it.
func MissingCLIConfig(dir string, env func(string) string) string {
	for _, name := range cliConfigVariables {
		path := env(name)
		if path == "" {
			continue
		}
		if _, err := os.Stat(cliConfigFiles(dir, env)[0]); !errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		if filepath.IsAbs(path) {
			return fmt.Sprintf("there is no file %s, which %s names: correct the path", path, name)
		}
		return fmt.Sprintf("there is no file %s in %s, where Terraform searches what %s names: name an absolute path", path, dir, name)
	}
	return ""
}

// userMirrors returns the folders of the user in which Terraform searches providers.
func userMirrors(home string) []string {
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		data = filepath.Join(home, ".local", "share")
	}
	all := []string{filepath.Join(home, ".terraform.d", "plugins"), filepath.Join(data, "terraform", "plugins"), filepath.Join(data, "opentofu", "plugins")}
	if runtime.GOOS == "darwin" {
		const folder = "Application Support/io.terraform/plugins"
		all = append(all, filepath.Join(home, "Library", folder), filepath.Join("/Library", folder))
	}
	return all
}
