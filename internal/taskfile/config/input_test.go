package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

func TestYAML_AnchorsAndMergeKeys(t *testing.T) {
	cfg := load(t, "f.yaml", `
task:
  - &one
    name: one
    module: ./m
    condition: {services: &s {names: [web], datacenter: dc1}}
  - <<: *one
    name: two
    condition: {services: {<<: [*s], datacenter: dc2}}
`)
	two := cfg.Tasks[1]
	if two.Name != "two" || two.Module != cfg.Tasks[0].Module {
		t.Errorf("task: %+v", two)
	}
	if diff := cmp.Diff(condition.Spec(condition.Services{{Names: []string{"web"}, Datacenter: "dc2"}}), two.Condition.Spec); diff != "" {
		t.Error(diff)
	}
}

func TestLoad_RefusesBadInput(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'k'; i++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	tests := []struct{ name, file, content, want string }{
		{"an anchor bomb", "f.yaml", bomb, "aliases stand for more than 100000 values"},
		{"an alias of itself", "f.yaml", "a: &a [*a]\n", "alias *a contains itself"},
		{"deep JSON", "f.json", strings.Repeat(`{"a":`, 1000), "nested deeper than 100 levels"},
		{"very deep HCL", "f.hcl", "a = " + strings.Repeat("[", 5<<20), "nested deeper than 100 levels"},
		{"deep YAML", "f.yaml", "a: " + strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "nested deeper than 100 levels"},
		{"a very long task name", "f.yaml", "task: {name: " + strings.Repeat("x", 10_000) + ", module: ./m, condition: {consul-kv: {path: a}}}",
			`f.yaml:1: task[0].name: the task name "` + strings.Repeat("x", 60) + `"... (10000 characters) is too long; at most 200 bytes: it names a directory and a Terraform workspace`},
		{"a very large number", "f.json", `{"terraform_provider": {"a": {"x": 1e999999999}}}`, "f.json:1: terraform_provider.a.x: not a usable number"},
		{"infinity", "f.yaml", `terraform_provider: {a: {x: .inf}}`, `f.yaml:1: terraform_provider.a.x: not a usable number: ".inf"`},
		{"an argument that is no name", "f.yaml", `terraform_provider: {a: {"x y": 1}}`, `not the name of an argument: "x y"`},
		{"a provider that is no name", "f.yaml", `terraform_provider: {"a b": {}}`, `not a provider's name: "a b"`},
		{"two conditions in one map", "f.yaml", "task: {name: t, module: ./m, condition: {services: {names: [a]}, schedule: {cron: '@daily'}}}",
			"f.yaml:1: task[0].condition: expected only one condition but got 2: services, schedule; make a task for each"},
		{"a deep filter", "f.yaml", "task: {name: t, module: ./m, condition: {services: {names: [a], filter: '" + strings.Repeat("(", 1<<20) + "'}}}", ": nested too deep"},
		{"a deep variable", "f.yaml", "task: {name: t, module: ./m, variables: {x: '" + strings.Repeat("- ", 1<<20) + "1'}, condition: {consul-kv: {path: a}}}", "nested deeper than 10000 levels"},
		{"a block that is a word", "f.yaml", "consul: localhost", "f.yaml:1: consul: must be a block, not a string"},
		{"a task that is a word", "f.yaml", "task: t", "f.yaml:1: task: must be a block or a list of blocks, not a string"},
		{"a backend that is a word", "f.yaml", "driver: {terraform: {backend: s3}}", "f.yaml:1: driver.terraform.backend: must be a labelled block, not a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := mistakes(t, tt.file, tt.content)
			if !strings.Contains(got, tt.want) {
				t.Errorf("said:\n%.500s\nwant:\n%s", got, tt.want)
			}
			if len(got) > 5000 {
				t.Errorf("said %d bytes", len(got))
			}
		})
	}
}

func TestLoad_RefusesAFileThatIsTooLarge(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "f.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(50 << 20); err != nil {
		t.Fatal(err)
	}
	want := "f.yaml: read f.yaml: the file is too large: 52428800 bytes, and at most 10485760 are read"
	if got := mistakesIn(t, options(dir, ".")); got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
}

func TestLoad_SymbolicLinkToNowhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege on Windows")
	}
	dir := write(t, "real/f.hcl", "port = 1")
	for link, target := range map[string]string{"loop.hcl": "loop.hcl", "linked.hcl": "real/f.hcl", "up.hcl": ".", ".#linked.hcl": "someone@host.1:2"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	want := "-config-file: stat loop.hcl: too many levels of symbolic links; remove it or correct the link"
	if got := mistakesIn(t, options(dir, ".")); got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
	if err := os.Remove(filepath.Join(dir, "loop.hcl")); err != nil {
		t.Fatal(err)
	}
	if cfg := mustLoad(t, options(dir, ".")); cfg.Port != 1 {
		t.Errorf("port %d: the link to a file should be read, the one to a folder skipped", cfg.Port)
	}
}

func TestLoad_FileWithAByteOrderMark(t *testing.T) {
	for _, name := range []string{"f.hcl", "f.json", "f.yaml"} {
		content := map[string]string{"f.hcl": "port = 1\r\n", "f.json": "{\"port\": 1}\r\n", "f.yaml": "port: 1\r\n"}[name]
		if cfg := load(t, name, "\xef\xbb\xbf"+content); cfg.Port != 1 {
			t.Errorf("%s: port %d", name, cfg.Port)
		}
	}
}
