package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// formatted are calls that format a time.
var formatted = regexp.MustCompile(`\.(?:Append)?Format\((?:[^)]*, )?(time\.\w+|"[^"]*(?:2006|15:04|Jan)[^"]*"|\w+)\)`)

// otherTimes are the files that write times for programs: into keys, queries, names of files and formats of others.
var otherTimes = []string{
	"internal/base/clock/clock.go", // the one helper for people
	"internal/aws/awsrole/awsrole.go", "internal/driver/terraformcli/unsaved.go", "internal/record/audit/audit.go", "internal/record/audit/list.go", "internal/record/state/recent.go",
	"internal/people/overview/list.go", "internal/people/export/export.go", "internal/people/web/audit.go", "internal/people/web/events.go",
	"cmd/terrapulse/listed.go", "cmd/terrapulse/support_bundle.go",
}

// Messages, commands and pages write times in one way: package clock does.
func TestTimes_PeopleReadThemInOneFormat(t *testing.T) {
	used := map[string]bool{}
	for _, root := range []string{"../internal", "../cmd", "../functions"} {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(filepath.Dir(path), "test") {
				return err
			}
			name := strings.TrimPrefix(filepath.ToSlash(path), "../")
			raw, err := os.ReadFile(path)
			for _, found := range formatted.FindAllStringSubmatch(string(raw), -1) {
				if used[name] = true; !slices.Contains(otherTimes, name) {
					t.Errorf("%s formats a time as %s: use clock.Stamp, clock.UTC or clock.Local", name, found[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range otherTimes {
		if !used[name] {
			t.Errorf("%s formats no time any more: take it out of the list", name)
		}
	}
}
