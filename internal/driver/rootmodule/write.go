package rootmodule

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/terrapulse/terrapulse/internal/base/atomicfile"
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
		wrote, err := atomicfile.Write(filepath.Join(dir, f.Name), f.Render)
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
