package internal

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// root is the folder of the repository.
const root = ".."

// member is a member that exists of what a recipe adds. The files that mention it are
// those that the recipe names.
type member struct {
	name    string   // of its files: NAME in the recipe
	mention string   // regular expression for what names it in a file
	in      []string // the folders that are searched; all if empty
	uses    []string // files where it does its work, which no recipe can name
}

var members = map[string]member{
	"New condition":       {name: "consulkv", mention: `"consul-kv"|\b[cC]onsulKV|consul_kv`},
	"New store":           {name: "sqlite", mention: `"sqlite"|\bsqliteFile\b|stores/sqlite"|\bsqlite, consul\b`},
	"New command":         {name: "hold", mention: `\bholdTask\b|^## hold$`, in: []string{"cmd", "docs"}},
	"New field in status": {mention: `\bchanged_since\b|\bChangedSince\b`},
	"New phase":           {mention: `\b(lifecycle\.|Phase|Tasks|Tasks\.|c\.)Soon\b|\bSoon +(Phase|int)\b|enum: \[applied, soon`},
	"New reason":          {mention: `\bReasonUnread\b`},
	"New page":            {name: "runs", mention: `\bp\.runs\b|^func \(p \*pages\) runs\(|define "runs"|href="/ui/runs"`},
	"New sink of events":  {name: "slack", mention: `(?i)\bslack`, in: []string{"internal", "cmd", "functions"}},
	"New kind of event":   {mention: `\bHoldBegun\b|hold_begun`, uses: []string{"internal/engine/control/approve.go"}},
	"New admission rule":  {name: "paused", mention: `\bholdPaused\b`},
	"New rule":            {name: "removal", mention: `rules/removal"|\bt(ask)?\.Removal\b`},
	"New key of a task file": {mention: `\baws_role\b|\bAWSRole\b`,
		uses: []string{"internal/driver/terraform/terraform.go", "internal/driver/hcp/variables.go"}},
	"New driver": {}, // its recipe only names files
}

// recipes are the sections of CONTRIBUTING.md that say how to add something.
func recipes(t *testing.T) map[string]string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, section := range strings.Split(string(doc), "\n### ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		all[title] = text
	}
	return all
}

var quoted = regexp.MustCompile("`([^`]+)`")

// named are the files and folders that a recipe names, with NAME replaced.
func named(recipe, name string) (paths []string) {
	for _, m := range quoted.FindAllStringSubmatch(recipe, -1) {
		if p := m[1]; strings.Contains(p, "/") && !strings.ContainsAny(p, " ()*{") && !strings.HasPrefix(p, "-") {
			if !strings.Contains(p, "NAME") || name != "" {
				paths = append(paths, strings.ReplaceAll(p, "NAME", name))
			}
		}
	}
	return paths
}

func TestRecipes_WhatTheyNameExists(t *testing.T) {
	known := recipes(t)
	if got, want := slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(members)); !slices.Equal(got, want) {
		t.Errorf("CONTRIBUTING.md has the recipes %q; members of %q are followed", got, want)
	}
	everyTest, bases := "", map[string]bool{}
	for path, content := range repository(t) {
		bases[filepath.Base(path)] = true
		if strings.HasSuffix(path, "_test.go") {
			everyTest += content
		}
	}
	for title, recipe := range known {
		for _, path := range named(recipe, members[title].name) {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: %s does not exist", title, path)
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(recipe, -1) {
			switch word := m[1]; {
			case strings.HasPrefix(word, "go generate "):
				for _, folder := range strings.Fields(word)[2:] {
					if !generates(t, strings.TrimPrefix(folder, "./")) {
						t.Errorf("%s: nothing is generated in %s", title, folder)
					}
				}
			case strings.HasPrefix(word, "Test"):
				if !strings.Contains(everyTest, "func "+word+"(") {
					t.Errorf("%s: there is no test %s", title, word)
				}
			case !strings.ContainsAny(word, "/ *") && strings.HasSuffix(word, ".go"):
				if !bases[word] {
					t.Errorf("%s: there is no file %s", title, word)
				}
			}
		}
	}
}

// generates reports whether go generate does something in a folder.
func generates(t *testing.T, folder string) bool {
	t.Helper()
	for path, content := range repository(t) {
		if filepath.Dir(path) == folder && strings.Contains(content, "\n//go:generate ") {
			return true
		}
	}
	return false
}

func TestRecipes_NameEveryFileThatMentionsAMember(t *testing.T) {
	known := recipes(t)
	contents := product(t)
	for title, m := range members {
		if m.mention == "" {
			continue
		}
		mention, places := regexp.MustCompile("(?m)"+m.mention), named(known[title], m.name)
		found := 0
		for path, content := range contents {
			inside := func(place string) bool {
				return path == place || strings.HasPrefix(path, strings.TrimSuffix(place, "/")+"/")
			}
			if len(m.in) > 0 && !slices.ContainsFunc(m.in, inside) || !mention.MatchString(content) || strings.HasSuffix(path, ".go") && !mention.MatchString(comment.ReplaceAllString(content, "")) {
				continue
			}
			found++
			if !slices.ContainsFunc(places, inside) && !slices.Contains(m.uses, path) {
				t.Errorf("%s: %s mentions %q, and the recipe does not name it", title, path, mention.FindString(content))
			}
		}
		for _, place := range m.uses {
			if !mention.MatchString(contents[place]) {
				t.Errorf("%s: %s does not mention it any more", title, place)
			}
		}
		if found < 2 {
			t.Errorf("%s: %d files mention %s: the expression is out of date", title, found, m.mention)
		}
	}
}

var comment = regexp.MustCompile(`(?m)^\s*//.*$|\s// .*$`)

// product are the files of the program by their paths. Generated files and text for
// people are left out, except openapi.yaml and the reference of commands.
func product(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for path, content := range repository(t) {
		switch ext := filepath.Ext(path); {
		case strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".gen.go"), strings.HasSuffix(path, ".min.js"), forTest(filepath.ToSlash(filepath.Dir(path))):
		case ext == ".go", ext == ".html", ext == ".css", ext == ".js", path == "internal/people/apispec/openapi.yaml", strings.HasPrefix(path, "docs/reference/commands"):
			all[path] = content
		}
	}
	return all
}

// repository are the files of the repository by their paths, with slashes. They are read once.
func repository(t *testing.T) map[string]string {
	t.Helper()
	all, err := readAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var readAll = sync.OnceValues(func() (map[string]string, error) {
	all := map[string]string{}
	return all, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil || path == ".":
			return err
		case entry.IsDir() && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "examples", "bin", "dist", "node_modules"}, name)):
			return fs.SkipDir
		case !slices.Contains([]string{".go", ".html", ".css", ".js", ".yaml", ".md"}, filepath.Ext(name)):
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		all[path] = string(content)
		return err
	})
})
