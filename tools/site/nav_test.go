// Package site checks the site of the documentation, which mkdocs makes of docs.
package site

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// pages are the paths of all pages below docs, with slashes.
func pages(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	docs := os.DirFS(filepath.Join(testtools.Root(t), "docs"))
	err := fs.WalkDir(docs, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
			all[path] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// entries are the pages and addresses of a part of the navigation, in its order.
func entries(t *testing.T, part *yaml.Node) []string {
	t.Helper()
	switch part.Kind {
	case yaml.ScalarNode:
		return []string{part.Value}
	case yaml.SequenceNode:
		var all []string
		for _, n := range part.Content {
			all = append(all, entries(t, n)...)
		}
		return all
	case yaml.MappingNode:
		return entries(t, part.Content[1]) // the title is before it
	}
	t.Fatalf("line %d of mkdocs.yml is no entry of the navigation", part.Line)
	return nil
}

func TestNavigation_HasEveryPageOnce(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var settings struct{ Nav yaml.Node }
	if err := yaml.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	all, times := pages(t), map[string]int{}
	for _, entry := range entries(t, &settings.Nav) {
		if strings.Contains(entry, "://") {
			continue
		}
		times[entry]++
		if !all[entry] {
			t.Errorf("the navigation in mkdocs.yml names docs/%s, which does not exist", entry)
		}
	}
	for page := range all {
		if times[page] != 1 {
			t.Errorf("docs/%s is %d times in the navigation in mkdocs.yml, want once", page, times[page])
		}
	}
}
