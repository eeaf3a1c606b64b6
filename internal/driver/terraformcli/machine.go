package terraformcli

import (
	"cmp"
	"errors"
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
	for _, path := range cliConfigFiles(os.Getenv) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return path
		}
	}
	return ""
}

// cliConfigVariables name the CLI configuration of Terraform and OpenTofu.
var cliConfigVariables = []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"}

// cliConfigFiles returns the paths where Terraform and OpenTofu search their CLI configuration.
func cliConfigFiles(env func(string) string) []string {
	for _, name := range cliConfigVariables {
		if env(name) != "" {
			return []string{env(name)}
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
