package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// documented is one row of the tables in docs/configure.md.
type documented struct{ kind, fallback, env string }

var backticked = regexp.MustCompile("`([^`]+)`")

// reference reads the tables: what is said of each key, by its full path, and
// the keys that are said not to be supported.
func reference(t *testing.T, doc string) (keys map[string]documented, unsupported map[string]bool) {
	t.Helper()
	keys, unsupported = map[string]documented{}, map[string]bool{}
	var blocks []string // of the heading; "" is the top level
	for _, line := range strings.Split(doc, "\n") {
		if strings.HasPrefix(line, "#") {
			blocks = nil
			for _, m := range backticked.FindAllStringSubmatch(line, -1) {
				blocks = append(blocks, m[1])
			}
			if len(blocks) == 0 {
				blocks = []string{""}
			}
			continue
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		name := strings.Trim(cells[0], "`")
		if len(cells) == 2 {
			unsupported[name] = true
			continue
		}
		for _, block := range blocks {
			path := joined(block, name)
			if _, ok := keys[path]; ok {
				t.Errorf("%s is documented twice", path)
			}
			keys[path] = documented{kind: cells[1], fallback: cells[2], env: cells[3]}
		}
	}
	return keys, unsupported
}

// everyKey calls f for every key of the schema, with its full path.
func everyKey(block reflect.Type, path, prefix string, f func(path, prefix string, k key, t reflect.Type)) {
	for _, k := range schemaOf(block).keys {
		t := block.FieldByIndex(k.index).Type
		path := joined(path, k.name)
		f(path, prefix, k, t)
		switch {
		case k.deprecated != "" && k.name == "source_input": // the keys of module_input
		case t.Kind() == reflect.Slice:
			everyKey(t.Elem(), path, prefix, f)
		case !k.field:
			everyKey(t, path, prefix+k.prefix, f)
		}
	}
}

func documentedKind(t reflect.Type, k key) string {
	switch {
	case t.Kind() == reflect.Slice:
		return "blocks"
	case !k.field:
		return "block"
	}
	return map[reflect.Type]string{
		reflect.TypeFor[rawString]():   "string",
		reflect.TypeFor[rawBool]():     "bool",
		reflect.TypeFor[rawInt]():      "number",
		reflect.TypeFor[rawDuration](): "duration",
		reflect.TypeFor[rawStrings]():  "list",
		reflect.TypeFor[rawMap]():      "map",
		reflect.TypeFor[freeForm]():    "map of strings and maps",
		reflect.TypeFor[labelled]():    "labelled block",
	}[t]
}

func readReference(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/configure.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(doc), "\r\n", "\n")
}

func TestTheReferenceDocumentsEveryKeyAndNoOther(t *testing.T) {
	keys, unsupportedKeys := reference(t, readReference(t))
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, prefix string, k key, typ reflect.Type) {
		if k.say != "" {
			if !unsupportedKeys[path] {
				t.Errorf("%s is not said to be unsupported", path)
			}
			delete(unsupportedKeys, path)
			return
		}
		d, ok := keys[path]
		delete(keys, path)
		if !ok {
			t.Errorf("%s is not documented", path)
			return
		}
		// What may be repeated says so; there is one backend.
		if kind := documentedKind(typ, k); d.kind != kind && !(kind == "labelled block" && d.kind == "labelled blocks") {
			t.Errorf("%s: the type is %q, documented as %q", path, kind, d.kind)
		}
		if k.fallback != "" && d.fallback != "`"+k.fallback+"`" {
			t.Errorf("%s: the default is `%s`, documented as %q", path, k.fallback, d.fallback)
		}
		for _, name := range k.env {
			if name = strings.Replace(name, "*", prefix, 1); !strings.Contains(d.env, "`"+name+"`") {
				t.Errorf("%s: the environment variable %s is not documented", path, name)
			}
		}
		if len(k.env) == 0 && d.env != "" {
			t.Errorf("%s: %s is documented, and not read", path, d.env)
		}
	})
	for path := range keys {
		t.Errorf("%s is documented, and is no key", path)
	}
	for path := range unsupportedKeys {
		t.Errorf("%s is said to be unsupported, and is not known", path)
	}
}

var fenced = regexp.MustCompile("(?ms)^```(yaml|hcl|json)( full)?\n(.*?)^```$")

func TestTheExamplesOfTheReferenceLoad(t *testing.T) {
	seen := map[string]bool{}
	var full []string
	for i, m := range fenced.FindAllStringSubmatch(readReference(t), -1) {
		name := fmt.Sprintf("example-%d.%s", i+1, m[1])
		dir := write(t, name, m[3])
		o := options(dir, name)
		cfg, err := Load(o)
		if err != nil {
			t.Errorf("%s\n%s\n%v", name, m[3], err)
			continue
		}
		if m[2] != "" {
			full = append(full, cfg.Digest())
		}
		if len(cfg.Warnings) > 0 && !strings.Contains(m[3], "kv_namespace") {
			t.Errorf("%s: %v", name, cfg.Warnings)
		}
		root, _ := parsers["."+m[1]](name, []byte(m[3]))
		mentioned(root, "", seen)
	}
	if len(full) != 2 || full[0] != full[1] {
		t.Errorf("the full file in YAML and in HCL do not mean the same: %v", full)
	}
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, _ string, k key, _ reflect.Type) {
		if k.say == "" && k.deprecated == "" && !strings.HasPrefix(path, "service.") && !seen[path] {
			t.Errorf("%s is in no example", path)
		}
	})
}

// mentioned collects the paths of the keys of a file, without indexes.
func mentioned(n *node, path string, seen map[string]bool) {
	for _, item := range n.items {
		mentioned(item, path, seen)
	}
	for _, e := range n.entries {
		path := joined(path, e.key)
		seen[path] = true
		mentioned(e.value, path, seen)
	}
}

func TestEveryDefaultOfTheSchemaCanBeRead(t *testing.T) {
	known := []reflect.Type{
		reflect.TypeFor[value[string]](), reflect.TypeFor[value[bool]](), reflect.TypeFor[value[int]](), reflect.TypeFor[value[time.Duration]](),
	}
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, _ string, k key, typ reflect.Type) {
		if k.fallback == "" {
			return
		}
		if !slices.Contains(known, typ) {
			t.Errorf("%s has a default that is never read", path)
			return
		}
		var d decoder
		reflect.New(typ).Interface().(field).decode(&d, &node{kind: kindString, text: k.fallback}, path)
		if len(d.errors) > 0 {
			t.Error(d.errors)
		}
	})
}
