package bundle_test

import (
	"archive/zip"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
)

// Whatever the bytes are, nothing is written outside of the folder, and every error is an
// InvalidError.
func FuzzUnpack(f *testing.F) {
	f.Add(pack(f, load(f, written(f, checkout), "tasks")).Zip)
	f.Add(pack(f, load(f, written(f, map[string]string{"net/t.yaml": "task: [{name: a, module: x/y/z}]"}), "t.yaml")).Zip)
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		_, _, err := bundle.Unpack(data, filepath.Join(dir, "in"))
		if entries, read := os.ReadDir(dir); read != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "in" {
			t.Errorf("it was unpacked into %v, %v", entries, read)
		}
		var invalid *bundle.InvalidError
		var path *os.PathError // a name that is too long, or the same name for a file and a folder
		if err != nil && !errors.As(err, &invalid) && !errors.As(err, &path) && !errors.Is(err, zip.ErrFormat) {
			t.Error(err)
		}
	})
}
