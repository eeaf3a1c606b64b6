// Package buildinfo says what the program was built from.
package buildinfo

import (
	"runtime/debug"
	"sync"
)

// Commit returns the commit that the program was built from, with "+dirty" if
// there were changes that were not committed. It is "" if the build does not say.
var Commit = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	commit := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += "+dirty"
		}
	}
	return commit
})
