package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write what is generated from the schema")

// current compares a file of docs with what it should be, or writes it.
func current(t *testing.T, name string, want []byte) {
	t.Helper()
	path := filepath.Join("..", "..", "..", "docs", name)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got = bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n"))
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/%s is not what internal/taskfile/config/schema.go says; run go generate ./internal/taskfile/config (-want +got):\n%.3000s", name, diff)
	}
}

func TestJSONSchema_PublishedFileIsCurrent(t *testing.T) {
	current(t, "terrapulse.schema.json", JSONSchema())
}

var taskFileSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
})

// schemaSays returns what the schema finds wrong with a file.
func schemaSays(t testing.TB, root *node) error {
	t.Helper()
	schema, err := taskFileSchema()
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(plain(root))
}

// plain is a tree as encoding/json would read it.
func plain(n *node) any {
	switch n.kind {
	case kindNull:
		return nil
	case kindBool:
		return strings.EqualFold(n.text, "true")
	case kindNumber:
		f, ok := number(n.text)
		if !ok {
			return n.text
		}
		return json.Number(f.Text('g', -1))
	case kindString:
		return n.text
	case kindList:
		items := []any{}
		for _, item := range n.items {
			items = append(items, plain(item))
		}
		return items
	default:
		m := map[string]any{}
		for _, e := range n.entries {
			m[e.key] = plain(e.value)
		}
		return m
	}
}

func parsed(t testing.TB, name string, src []byte) *node {
	t.Helper()
	root, diags := parsers[extension(name)](name, src)
	if root == nil || len(diags) > 0 {
		t.Fatalf("%s: %v", name, diags)
	}
	return root
}

func TestJSONSchema_IsValidForItsDraft(t *testing.T) {
	if _, err := taskFileSchema(); err != nil { // checks it against the draft's own schema
		t.Fatal(err)
	}
}

func TestJSONSchema_AcceptsTheExamples(t *testing.T) {
	var files []string // not the templates of CloudFormation beside them
	for _, pattern := range []string{"testdata/full.*", "../../../examples/*/tasks.*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 6 {
		t.Fatalf("only %v", files)
	}
	for _, file := range files {
		if extension(file) == ".hcl" {
			continue // to a validator, the blocks of HCL are not one object
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schemaSays(t, parsed(t, file, src)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, page := range referencePages(t) {
		for i, m := range fenced.FindAllStringSubmatch(page.text, -1) {
			if m[1] == "hcl" {
				continue
			}
			if err := schemaSays(t, parsed(t, "example."+m[1], []byte(m[3]))); err != nil {
				t.Errorf("example %d of docs/%s: %v", i+1, page.name, err)
			}
		}
	}
	if err := schemaSays(t, parsed(t, "f.yaml", []byte("# nothing\n"))); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

var index = regexp.MustCompile(`\[\d+\]`)

func TestLoader_RefusesWhatAKeyDoesNotList(t *testing.T) {
	listed := 0
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, _ string, k key, _ reflect.Type) {
		if one, _ := k.one(); len(one) == 0 {
			return
		}
		listed++
		tree := &node{kind: kindString, text: "other"}
		names := strings.Split(path, ".")
		if i := slices.IndexFunc(names, func(name string) bool { return name == "check" || name == "verify" }); i >= 0 { // their blocks have labels
			names = slices.Insert(names, i+1, "name")
			path = strings.Join(names, ".")
		}
		for _, name := range slices.Backward(names) {
			tree = &node{kind: kindObject, entries: []entry{{key: name, value: tree}}}
		}
		errs := slices.DeleteFunc(read(tree), func(d Diagnostic) bool { return !strings.Contains(d.Problem, `"other"`) }) // not of keys that are missing
		if len(errs) != 1 || index.ReplaceAllString(errs[0].Key, "") != path {
			t.Errorf("%s = other: %v", path, errs)
		}
	})
	if listed == 0 {
		t.Error("no key lists its values")
	}
}

// structural are the faults that a schema must find too: those of shape. What
// is wrong with a value, or with two that do not fit together, only the loader
// knows.
func structural(d Diagnostic) bool {
	for _, problem := range []string{"invalid key", "unsupported condition type", "unsupported module_input type", "unsupported storage type", "unsupported Terraform backend",
		"must be a ", "cannot parse ", "invalid duration ", "only one '", "the block has no name", "unexpected task_env", "expected only one condition",
		"not a provider's name", "not the name of an argument", "is an invalid key here", "Terraform-Sync Enterprise", "is an unsupported configuration",
		"unique name for the task is required", "module for the task is required", "invalid log level", "invalid engine", "invalid facility"} {
		if strings.Contains(d.Problem, problem) {
			return true
		}
	}
	return false
}

// read is Load for a tree, without a file.
func read(root *node) Errors {
	l := loader{Options: options("/")}
	var raw rawConfig
	l.earlier = map[string]int{}
	l.block(root, reflect.ValueOf(&raw).Elem(), "")
	l.noTemplates(root, "")
	l.resolve(&raw)
	return l.Errors
}

func TestJSONSchema_AgreesWithTheLoader(t *testing.T) {
	src, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		root := parsed(t, "full.yaml", src)
		for range rapid.IntRange(1, 3).Draw(rt, "changes") {
			mutate(rt, root)
		}
		said := read(root)
		err := schemaSays(t, root)
		shown, _ := json.Marshal(plain(root))
		if len(said) == 0 && err != nil {
			rt.Fatalf("the loader accepts what the schema does not:\n%v\n%s", err, shown)
		}
		for _, d := range said {
			if structural(d) && err == nil {
				rt.Fatalf("the schema accepts what the loader does not:\n%s\n%s", d, shown)
			}
		}
	})
}

// mutate changes one value of a tree, takes a key away, or adds one.
func mutate(rt *rapid.T, root *node) {
	var objects []*node
	var collect func(n *node)
	collect = func(n *node) {
		if n.kind == kindObject && len(n.entries) > 0 {
			objects = append(objects, n)
		}
		for _, item := range n.items {
			collect(item)
		}
		for _, e := range n.entries {
			collect(e.value)
		}
	}
	collect(root)
	if len(objects) == 0 {
		return
	}
	o := objects[rapid.IntRange(0, len(objects)-1).Draw(rt, "object")]
	i := rapid.IntRange(0, len(o.entries)-1).Draw(rt, "key")
	scalar := func(kind kind, texts ...string) *node {
		return &node{kind: kind, text: rapid.SampledFrom(texts).Draw(rt, "text")}
	}
	var v *node
	switch rapid.IntRange(0, 8).Draw(rt, "how") {
	case 0:
		o.entries = slices.Delete(slices.Clone(o.entries), i, i+1)
		return
	case 1:
		key := rapid.SampledFrom([]string{"bogus", "names", "regexp", "enabled", "source", "services", "license", "x y", "alias", "task_env"}).Draw(rt, "new")
		if !slices.ContainsFunc(o.entries, func(e entry) bool { return e.key == key }) {
			o.entries = append(slices.Clone(o.entries), entry{key: key, value: &node{kind: kindString, text: "x"}})
		}
		return
	case 2:
		v = &node{kind: kindNull}
	case 3:
		v = scalar(kindBool, "true", "false")
	case 4:
		v = scalar(kindNumber, "0", "1", "7", "1.5", "-3")
	case 5:
		v = scalar(kindString, "x", "true", "12", "5s", "1h30m", "ERR", "err", "LOCAL3", "tofu")
	case 6:
		v = &node{kind: kindList, items: []*node{scalar(kindString, "a", "b")}}
	case 7:
		v = &node{kind: kindList, items: []*node{o.entries[i].value}}
	default:
		v = &node{kind: kindObject, entries: []entry{{key: rapid.SampledFrom([]string{"a", "names", "s3", "path"}).Draw(rt, "inner"), value: scalar(kindString, "x")}}}
	}
	o.entries[i].value = v
}

// What a person gets wrong in a file that is otherwise right, an editor shows.
func TestJSONSchema_RefusesTheLoadersMistakes(t *testing.T) {
	var seen, refused int
	for _, tt := range catalogue {
		if onlyHCL[tt.name] {
			continue
		}
		root := nested(parsed(t, "f.hcl", []byte(tt.file)))
		var found Errors
		if !errors.As(error(read(root)), &found) || !slices.ContainsFunc(found, structural) {
			continue
		}
		seen++
		if schemaSays(t, root) != nil {
			refused++
			continue
		}
		t.Errorf("%s: the schema accepts it; the loader says %s", tt.name, fmt.Sprint(found))
	}
	if seen < 20 {
		t.Errorf("only %d faults of shape among the catalogue", seen)
	}
}

func TestJSONSchema_RefusesWhatOnlyYAMLCanSay(t *testing.T) {
	const task = "task: {name: t, module: ./m, "
	for _, content := range []string{
		task + "condition: {services: {names: [a]}, schedule: {cron: '@daily'}}}",
		task + "condition: {services: {names: [a], regexp: a}}}",
		task + "condition: }",
		task + "module_input: [{}]}",
		"driver: {terraform: {backend: {s3: {}, local: {}}}}",
		"driver: {terraform: {backend: }}",
		"terraform_provider: {local: {task_env: {X: 1}}}",
		"terraform_provider: {local: {auto_commit: }}",
		"task: [t]", "port: 1.5", "port: 1e99", "syslog: {enabled: 1.5}", "buffer_period: {min: 5.0}",
	} {
		root := parsed(t, "f.yaml", []byte(content))
		if len(read(root)) == 0 {
			t.Errorf("the loader accepts %s", content)
		}
		if schemaSays(t, root) == nil {
			t.Errorf("the schema accepts %s", content)
		}
	}
	for _, content := range []string{
		task + "condition: {services: {names: [], regexp: a}}}", task + "condition: {services: {names: a, regexp: }}}", task + "condition: []}",
		"driver: {terraform: {backend: []}}", "terraform_provider: {local: }", "consul:", "syslog: [{enabled: 'true'}]", "port: '0x10'", "port: 8502.0", "port: 8.502e3", "buffer_period: {min: 0}", "buffer_period: {min: 0.0}", "syslog: {enabled: 1.0}", "$schema: x", "log_level: warn",
	} {
		root := parsed(t, "f.yaml", []byte(content))
		if said := read(root); len(said) > 0 {
			t.Errorf("the loader refuses %s: %v", content, said)
		}
		if err := schemaSays(t, root); err != nil {
			t.Errorf("the schema refuses %s: %v", content, err)
		}
	}
}
