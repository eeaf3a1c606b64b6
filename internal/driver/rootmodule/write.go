package rootmodule

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Write writes the module into the directory, which it creates if needed, and returns
// the names of the changed files. It replaces each of them as a whole, so that a reader
// sees the old or the new one, and removes files of the former task definition.
func (m Module) Write(dir string) (changed []string, err error) {
	files, err := m.Files()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create the directory of task %s: %w", m.Task.Name, err)
	}
	for _, f := range files {
		wrote, err := writeFile(filepath.Join(dir, f.Name), f.Render)
		if err != nil {
			return changed, fmt.Errorf("write %s: %w", filepath.Join(dir, f.Name), err)
		}
		if wrote {
			changed = append(changed, f.Name)
		}
	}
	if len(m.Task.VariableNames()) == 0 {
		for _, name := range []string{ModuleVariablesFile, ModuleValuesFile} {
			switch err := os.Remove(filepath.Join(dir, name)); {
			case err == nil:
				changed = append(changed, name)
			case !errors.Is(err, fs.ErrNotExist):
				return changed, fmt.Errorf("remove a file of the former task definition: %w", err)
			}
		}
	}
	return changed, nil
}

// writeFile replaces the file by the output of render, and reports whether it
// differed. Terraform does not read the temporary file beside it.
func writeFile(path string, render func(io.Writer) error) (bool, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp.Name()) // only exists if the file stays as it is
	sum := sha256.New()
	if err := errors.Join(render(io.MultiWriter(tmp, sum)), tmp.Close()); err != nil {
		return false, err
	}
	same, err := hasContent(path, sum.Sum(nil))
	if err != nil || same {
		return false, err
	}
	return true, os.Rename(tmp.Name(), path)
}

// hasContent reports whether the file exists, only for its owner, with this SHA-256
// digest.
func hasContent(path string, want []byte) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !info.Mode().IsRegular() || !private(info.Mode()) {
		return false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return bytes.Equal(sum.Sum(nil), want), err
}

// private reports whether only the owner may read, which Windows has no modes for.
// CTS left files of mode 0640.
func private(m fs.FileMode) bool { return runtime.GOOS == "windows" || m.Perm()&0o077 == 0 }
