package decide

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDecide_DoesNoInputOrOutput(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	never := []string{"context", "io", "log/slog", "net/http", "os", "/record/outbox", "/record/lease", "/internal/stores"}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if slices.ContainsFunc(never, func(s string) bool { return path == s || strings.HasPrefix(s, "/") && strings.Contains(path, s) }) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
