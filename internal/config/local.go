package config

import (
	"path/filepath"
	"runtime"
	"strings"
)

func localModule(module string) bool {
	return filepath.IsAbs(module) || relativeModule(module)
}

// relativeModule reports whether a module, as it was written, is a directory
// relative to where the program was started.
func relativeModule(module string) bool {
	for _, prefix := range []string{"./", "../"} {
		if strings.HasPrefix(module, prefix) ||
			runtime.GOOS == "windows" && strings.HasPrefix(module, filepath.FromSlash(prefix)) {
			return true
		}
	}
	return false
}
