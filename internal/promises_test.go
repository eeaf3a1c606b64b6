package internal

import (
	"path"
	"regexp"
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
