package outbox_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

var update = flag.Bool("update", false, "write the schemas of events")

// shared are the fields that an event of every kind may have.
var shared = []string{"id", "kind", "seq", "at"}

// object is a JSON Schema, or a part of one.
type object = map[string]any

// schema is the JSON Schema of a kind of event. Its description is that of docs/reference/events.md.
func schema(kind outbox.Kind, rows map[string]string) object {
	about := kind.About()
	required := shared
	if about.Subject == outbox.Task {
		required = append(slices.Clone(shared), "task")
	}
	properties := object{
		"stack":   object{"type": "string", "description": "the name of the stack; only on an event bus"},
		"message": object{"type": "string", "description": "the event in words; only on an event bus"},
	}
	event := reflect.TypeFor[outbox.Event]()
	for i := range event.NumField() {
		name := jsonName(event.Field(i))
		if !slices.Contains(required, name) && !slices.Contains(about.Fields, name) && name != "url" {
			continue
		}
		property := typed(event.Field(i).Type)
		if name == "kind" {
			property = object{"const": string(kind)}
		}
		property["description"] = event.Field(i).Tag.Get("doc")
		properties[name] = property
	}
	cells := strings.Split(rows[string(kind)], " | ")
	return object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$id":     "https://raw.githubusercontent.com/terrapulse/terrapulse/main/docs/events/" + string(kind) + ".schema.json",
		"title":   string(kind), "description": plain(cells[len(cells)-1]),
		"type": "object", "required": required, "properties": properties,
	}
}

// typed is the schema of a Go type.
func typed(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return typed(t.Elem())
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": typed(t.Elem())}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": typed(t.Elem())}
	case t.Kind() == reflect.Struct:
		properties := object{}
		for i := range t.NumField() {
			if name := jsonName(t.Field(i)); name != "-" {
				properties[name] = typed(t.Field(i).Type)
			}
		}
		return object{"type": "object", "properties": properties}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return object{"type": "number"}
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	}
	return object{"type": "integer"}
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// plain is a cell of a table without Markdown.
func plain(cell string) string {
	cell = strings.TrimSuffix(strings.TrimSpace(cell), " |")
	return strings.ReplaceAll(link.ReplaceAllString(cell, "$1"), "`", "")
}

func TestSchemas_PublishedFilesAreCurrent(t *testing.T) {
	dir := filepath.Join(testtools.Root(t), "docs", "events")
	rows := documented(t)
	wanted := map[string]string{}
	for _, kind := range outbox.Kinds() {
		text, err := json.MarshalIndent(schema(kind, rows), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		wanted[string(kind)+".schema.json"] = string(text) + "\n"
	}
	there, err := os.ReadDir(dir)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for _, file := range there {
		if wanted[file.Name()] != "" {
			continue
		}
		if !*update {
			t.Errorf("docs/events/%s is of no kind of event; run go generate ./internal/record/outbox", file.Name())
		} else if err := os.Remove(filepath.Join(dir, file.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range wanted {
		path := filepath.Join(dir, name)
		if *update {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if diff := cmp.Diff(want, strings.ReplaceAll(string(got), "\r\n", "\n")); err != nil || diff != "" {
			t.Errorf("docs/events/%s is not what docs/reference/events.md and the kinds say; run go generate ./internal/record/outbox (-want +got): %v\n%.2000s", name, err, diff)
		}
	}
}
