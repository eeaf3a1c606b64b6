// Package internal has the components of the project. A component holds the packages of one role.
package internal

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// components are all components, from below: a package imports packages of its own component and of
// components below it. docs/architecture.md says what each component is for.
var components = []string{"base", "record", "rules", "taskfile", "consul", "driver", "stores", "engine", "people", "aws", "process"}

// forTests are the components that only tests and other helpers of tests import.
var forTests = []string{"testtools", "browsertest"}

const module = "github.com/terrapulse/terrapulse/internal/"

func TestComponents_ImportsPointDownwards(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || !strings.Contains(path, "/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		here := component(filepath.ToSlash(path))
		helper := forTest(filepath.ToSlash(filepath.Dir(path)))
		if strings.HasSuffix(path, "_test.go") || helper {
			return nil
		}
		if !slices.Contains(components, here) {
			t.Errorf("%s is in no component: put it into one of %s", path, strings.Join(components, ", "))
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			there, ours := strings.CutPrefix(imported, module)
			switch {
			case !ours:
			case forTest(there):
				t.Errorf("%s imports %s, which is for tests", path, there)
			case slices.Index(components, component(there)) > slices.Index(components, here):
				t.Errorf("%s imports %s: %s is above %s", path, there, component(there), here)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestComponents_AreDescribed(t *testing.T) {
	doc, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "| component |")
	table, _, _ = strings.Cut(table, "\n\n")
	var described []string
	for _, row := range strings.Split(table, "\n") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(row, "| `"), "` |"); ok && strings.HasPrefix(row, "| `") {
			described = append(described, name)
		}
	}
	if slices.Reverse(described); !slices.Equal(described, components) {
		t.Errorf("docs/architecture.md describes %v, from below; want %v", described, components)
	}
}

func component(path string) string {
	first, _, _ := strings.Cut(path, "/")
	return first
}

// forTest reports whether a package only helps tests: by its component, or by its name.
func forTest(path string) bool {
	return slices.Contains(forTests, component(path)) || slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return strings.HasSuffix(s, "test") })
}
