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

// page is docs/reference/events.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "reference", "events.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documented returns the rows of the table of kinds without their first column, by what that names.
func documented(t *testing.T) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for _, line := range strings.Split(page(t), "\n") {
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
	for name := range rows {
		t.Errorf("docs/reference/events.md explains %s, which there is not", name)
	}
	_, fields, _ := strings.Cut(page(t), "\n## Fields\n")
	fields, _, _ = strings.Cut(fields, "\n## ")
	event := reflect.TypeFor[outbox.Event]()
	for i := range event.NumField() {
		name := jsonName(event.Field(i))
		if name == "-" {
			continue // only in messages
		}
		if !strings.Contains(fields, "`"+name+"`") {
			t.Errorf("docs/reference/events.md does not name the field %s", name)
		}
		if event.Field(i).Tag.Get("doc") == "" {
			t.Errorf("the field %s of Event has no doc tag", name)
		}
	}
}
