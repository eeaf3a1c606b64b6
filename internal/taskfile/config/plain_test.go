package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

// wrong is what is wrong with a file of YAML.
func wrong(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(config.Options{Paths: []config.Path{{Name: file}}, Getenv: func(string) string { return "" }})
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), file, "f.yaml")
}

// People write the text of a variable in YAML without the quotes of Terraform.
func TestVariables_PlainTextInYAMLIsAString(t *testing.T) {
	const file = "task:\n  - name: a\n    module: ./m\n    condition: {services: {names: [web]}}\n    variables:\n      site: muc\n      region: eu-west-1\n      title: two words\n" +
		"      version: \"1.10\"\n      zip: \"007\"\n      address: 10.0.0.1\n      count: 2\n      on: true\n      quoted: '\"muc\"'\n      list: '[\"a\"]'\n"
	got := configtest.Load(t, t.TempDir(), "f.yaml", file).Tasks[0].Variables
	want := map[string]cty.Value{"site": cty.StringVal("muc"), "region": cty.StringVal("eu-west-1"), "title": cty.StringVal("two words"), "version": cty.StringVal("1.10"),
		"zip": cty.StringVal("007"), "address": cty.StringVal("10.0.0.1"), "count": cty.NumberIntVal(2), "on": cty.True, "quoted": cty.StringVal("muc"),
		"list": cty.TupleVal([]cty.Value{cty.StringVal("a")})}
	for name, value := range want {
		if is := got[name]; is == cty.NilVal || !is.RawEquals(value) {
			t.Errorf("%s is %#v, want %#v", name, is, value)
		}
	}
	if text := wrong(t, "task:\n  - name: a\n    module: ./m\n    condition: {services: {names: [web]}}\n    variables: {list: '[a'}\n"); !strings.Contains(text, "variables.list: not a literal value") {
		t.Error(text)
	}
}

// Who names a file with another ending than it has, or a verification without a name, reads what to write.
func TestErrors_NameTheFileThatThereIsAndTheNameThatIsMissing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tasks.yaml"), []byte("port: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tasks.hcl", "tasks"} {
		if _, err := config.Load(config.Options{Paths: []config.Path{{Name: filepath.Join(dir, name)}}, Getenv: func(string) string { return "" }}); err == nil || !strings.Contains(err.Error(), "there is no "+name+" in the folder "+dir+", but there is tasks.yaml") {
			t.Errorf("%s: %v", name, err)
		}
	}
	got := wrong(t, "task:\n  - name: a\n    module: ./m\n    condition: {services: {names: [web]}}\n    verify:\n      command: [\"true\"]\n")
	if want := `f.yaml:6: task[0].verify: the block has no name; write it as in verify "NAME" { ... }; in YAML as in verify: {NAME: { ... }}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
