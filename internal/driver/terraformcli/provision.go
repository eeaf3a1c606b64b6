package terraformcli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Provision says where this machine has the providers that modules need.
type Provision struct {
	Needed  []string // sources such as hashicorp/local, sorted
	Missing []string // those that an init must download
	By      string   // variable or file of the user's that says where Terraform gets providers; "" if there is none
}

// Provided returns where the providers of the modules in these folders are, for the tasks of a working
// directory. Modules that such a module downloads are not read.
func Provided(workingDir string, modules []string) Provision {
	p := Provision{Needed: slices.Sorted(maps.Keys(Constraints(modules...))), By: configuredBy()}
	if p.By != "" {
		return p
	}
	places := append([]string{filepath.Join(workingDir, sharedFolder, "unpacked")}, Mirrors()...)
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, userMirrors(home)...)
	}
	for _, source := range p.Needed {
		host := ""
		if strings.Count(source, "/") < 2 {
			host = "*"
		}
		has := func(place string) bool {
			found, err := filepath.Glob(filepath.Join(place, host, filepath.FromSlash(source), "*"))
			return err == nil && len(found) > 0
		}
		if !slices.ContainsFunc(places, has) {
			p.Missing = append(p.Missing, source)
		}
	}
	return p
}
