package terraformcli

import (
	"os"
	"path/filepath"
)

// serve offers content at a path that Terraform reads as a variable file. There
// are no named pipes in the file system of Windows: it is a file, in a temporary
// directory below that of the user, until stop removes it.
// It is not called with a condition here, see tokenPipes.
func serve(content []byte, _ func(path string) bool) (path string, stop func(), err error) {
	dir, remove, err := scratch("")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "values.tfvars.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		remove()
		return "", nil, err
	}
	return path, remove, nil
}
