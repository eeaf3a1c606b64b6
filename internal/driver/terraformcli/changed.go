package terraformcli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"
)

// ModuleChanged returns when a Terraform file of the local module in a folder, or of a local module that it
// calls, was changed last; zero if there is none. Other files do not count, because runs may write them.
func ModuleChanged(folder string) (latest time.Time) {
	note := func(info os.FileInfo, err error) {
		if err == nil && changeTime(info).After(latest) {
			latest = changeTime(info)
		}
	}
	folders := []string{filepath.Clean(folder)}
	for n := 0; n < len(folders); n++ {
		dir := folders[n]
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			note(info, nil) // a link, which may lead to another folder now
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if file := filepath.Join(dir, e.Name()); filepath.Ext(strings.TrimSuffix(file, ".json")) == ".tf" {
				note(os.Lstat(file))
				note(os.Stat(file))
			}
		}
		module, _ := tfconfig.LoadModule(dir) // as far as it can be parsed
		called := localDirs(dir, module)
		for _, name := range slices.Sorted(maps.Keys(called)) {
			if !slices.Contains(folders, called[name]) {
				folders = append(folders, called[name])
			}
		}
	}
	return latest
}
