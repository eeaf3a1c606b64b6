package outbox_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// documented returns the rows of the tables in docs/reference/events.md without their first column, by what
// that names.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "reference", "events.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.SplitN(line, " | ", 2)
		for _, name := range regexp.MustCompile("`(.+?)`").FindAllStringSubmatch(cells[0], -1) {
			rows[name[1]] = cells[1]
		}
	}
	return rows
}

func TestKinds_AndFieldsAreDocumented(t *testing.T) {
	rows := documented(t)
	for _, kind := range outbox.Kinds() {
		if want := kind.About().Level.String() + " | "; !strings.HasPrefix(rows[string(kind)], want) {
			t.Errorf("docs/reference/events.md has no row: | `%s` | %s… |", kind, want)
		}
		delete(rows, string(kind))
	}
	event := reflect.TypeFor[outbox.Event]()
	for i := range event.NumField() {
		name, _, _ := strings.Cut(event.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue // only in messages
		}
		if rows[name] == "" {
			t.Errorf("docs/reference/events.md does not explain the field %s", name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/reference/events.md explains %s, which there is not", name)
	}
}
