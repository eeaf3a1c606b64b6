package internal

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	folderOrTest = regexp.MustCompile("`([a-z0-9/]+)`|\\b((?:Test|Benchmark)[A-Z][A-Za-z0-9_]*)")
	goFile       = regexp.MustCompile("`([A-Za-z0-9_/]+\\.go)`")
)

func TestPromises_EachNamesTestsThatExist(t *testing.T) {
	all := repository(t)
	promises := 0
	for _, row := range prose(all["docs/develop/promises.md"]) {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if !strings.HasPrefix(row, "| ") || len(cells) != 2 || cells[0] == "promise" {
			continue
		}
		promises++
		folder, tests := "", 0
		for _, m := range folderOrTest.FindAllStringSubmatch(cells[1], -1) {
			if m[1] != "" {
				folder = m[1]
				continue
			}
			tests++
			found := false
			for name, text := range all {
				found = found || path.Dir(name) == folder && strings.HasSuffix(name, "_test.go") && strings.Contains(text, "\nfunc "+m[2]+"(")
			}
			if !found {
				t.Errorf("%s: %s has no %s", cells[0], folder, m[2])
			}
		}
		if tests == 0 {
			t.Errorf("%s: it names no test", cells[0])
		}
	}
	if promises < 30 {
		t.Errorf("the page has %d promises", promises)
	}
}

func TestArchitecture_NamesFilesThatExist(t *testing.T) {
	all := repository(t)
	for _, m := range goFile.FindAllStringSubmatch(all["docs/architecture.md"], -1) {
		found := false
		for name := range all {
			found = found || strings.HasSuffix("/"+name, "/"+m[1])
		}
		if !found {
			t.Errorf("there is no file %s", m[1])
		}
	}
}

// The page begins with the parts of a deployment in AWS, and names every folder of the repository and every program in AWS.
func TestArchitecture_BeginsWithThePartsOfTheRepository(t *testing.T) {
	_, section, _ := strings.Cut(repository(t)["docs/architecture.md"], "\n## ")
	section, _, _ = strings.Cut(section, "\n## ")
	var parts []string
	for _, m := range regexp.MustCompile("(?m)^\\| \\[?`([^`]+)`").FindAllStringSubmatch(section, -1) {
		parts = append(parts, m[1])
	}
	if want := []string{"functions", "internal", "infra", "layers", "template.yaml"}; !slices.Equal(parts, want) {
		t.Errorf("the first parts are %q, want %q", parts, want)
	}
	for _, folder := range []string{".", "functions", "layers"} {
		entries, err := os.ReadDir(path.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains([]string{"bin", "dist", "e2e"}, e.Name()) && !strings.Contains(section, "`"+e.Name()+"`") {
				t.Errorf("the section does not name the folder %s of %s", e.Name(), folder)
			}
		}
	}
}

// Each collection of records that a role in AWS may touch is described.
func TestArchitecture_DescribesTheRecordsOfTheRoles(t *testing.T) {
	all := repository(t)
	_, store, _ := strings.Cut(all["docs/architecture.md"], "\n## The store\n")
	_, roles, _ := strings.Cut(all["docs/security.md"], "\n| role of the records |")
	roles, _, _ = strings.Cut(roles, "\n\n")
	collections := regexp.MustCompile("`([a-z-]+)(\\*?)`").FindAllStringSubmatch(roles, -1)
	if len(collections) < 100 {
		t.Errorf("only %d names of collections were found", len(collections))
	}
	for _, m := range collections {
		if m[2] == "" {
			m[1] += "/"
		}
		if !strings.Contains(store, "`"+m[1]) {
			t.Errorf("docs/architecture.md does not describe the records below %s", m[1])
		}
	}
}
