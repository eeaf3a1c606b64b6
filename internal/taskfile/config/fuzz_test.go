package config

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// fuzz reads any bytes as a task file, from the parser to the last check.
func fuzz(f *testing.F, extension string, seeds ...string) {
	example, err := os.ReadFile(filepath.Join("testdata", "full"+extension))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, src []byte) {
		if invalidUTF8(src) >= 0 {
			return
		}
		l := loader{Options: options(dir)}
		root, diags := parseFile("f"+extension, src)
		if root == nil {
			if len(diags) == 0 {
				t.Fatal("refused without a reason")
			}
			return
		}
		var raw rawConfig
		l.block(root, reflect.ValueOf(&raw).Elem(), "")
		l.noTemplates(root, "")
		cfg := l.resolve(&raw)
		if len(l.Errors) == 0 {
			cfg.Digest()
		}
		for _, d := range l.Errors {
			if d.Problem == "" || d.String() == "" {
				t.Errorf("an error without text: %#v", d)
			}
		}
	})
}

func FuzzHCL(f *testing.F) {
	fuzz(f, ".hcl", `a = "\x"`, "a = <<E\nx\nE\n", "a {", `a "b" "c" {}`, "a = [{b = [1,]},]", "a = 1e9999\nport = 0x", "port = -", `"${" = 1`, aTask(services))
}

func FuzzJSON(f *testing.F) {
	fuzz(f, ".json", `{"a": null}`, `{"task": [[{}]]}`, `{"port": 1e99999}`, `{"task": {"condition": {"services": {"names": [null]}}}}`)
}

func FuzzYAML(f *testing.F) {
	fuzz(f, ".yaml", "a: &a [*a]", "<<: {port: 1}", "task:\n- <<: [*x]", "? a\n: b", "!!binary x: y", "port: 0o17", "task: {variables: {x: '${'}}")
}
