package terraformcli

import (
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
	if runtime.GOOS == "windows" || err != nil || configured(home) {
		return nil, nil
	}
	dir, err := filepath.Abs(filepath.Join(workingDir, sharedFolder))
	if err != nil {
		return nil, err
	}
	return NewShared(dir, append(userMirrors(home), Mirrors()...), nil)
}

// configured reports whether there is a CLI configuration of Terraform or OpenTofu.
func configured(home string) bool {
	for _, name := range []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG", "TF_PLUGIN_CACHE_DIR"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	xdg := os.Getenv("XDG_CONFIG_HOME")
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	for _, pattern := range []string{
		filepath.Join(home, ".terraformrc"), filepath.Join(home, ".tofurc"),
		filepath.Join(home, ".terraform.d", "*.tfrc"), filepath.Join(home, ".terraform.d", "*.tfrc.json"),
		filepath.Join(xdg, "opentofu", "*"),
	} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 {
			return true
		}
	}
	return false
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
