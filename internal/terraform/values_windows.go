package terraform

import (
	"os"
	"path/filepath"
)

// serve offers content at a path that Terraform reads as a variable file. There
// are no named pipes in the file system of Windows: it is a file, in a directory of
// its own below the user's temporary directory, until stop removes it.
func serve(content []byte) (path string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "terrapulse-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "values.tfvars.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return path, func() { os.RemoveAll(dir) }, nil
}
