package condition

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// namesIn are the names in the column of a table of docs/modules.md that begins with head.
func namesIn(t *testing.T, head string, column int) (names []string) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "modules.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(doc), "\n"+head)
	if !ok {
		t.Fatalf("docs/modules.md has no table that begins with %q", head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range strings.Split(table, "\n")[2:] {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(row, " | ")[column], -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

func TestDocs_ModulesKnowEveryVariableAndAttribute(t *testing.T) {
	variables := []string{"changes"} // only for modules that declare it
	for _, k := range Kinds {
		if k.Variable != nil {
			variables = append(variables, k.Variable.Name)
		}
	}
	slices.Sort(variables)
	if got := namesIn(t, "| data | variable |", 1); !slices.Equal(got, variables) {
		t.Errorf("docs/modules.md lists the variables %q, and modules get %q", got, variables)
	}
	var attributes []string
	for _, a := range serviceAttributes {
		attributes = append(attributes, a.Name)
	}
	slices.Sort(attributes)
	if got := namesIn(t, "| attribute | type |", 0); !slices.Equal(got, attributes) {
		t.Errorf("docs/modules.md lists the attributes %q, and an instance has %q", got, attributes)
	}
}
