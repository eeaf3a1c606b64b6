package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestTaskFiles_EveryCommandReportsAllMistakes(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	s.write("conf/a.hcl", `
bogus = 1
driver "terraform" {
  backend "local" {}
  backend "s3" {}
}
task {
  name = "0bad name"
  module = "./m"
  condition "services" {
    names = ["web"]
    regexp = ".*"
  }
  module_input "services" {}
}
terraform_provider {}
terraform_provider "a" "b" {}
`)
	s.write("conf/b.json", `{
  "log_level": "BOGUS",
  "task": [{
    "name": "b",
    "condition": {"schedule": {"cron": "0 0 30 2 *"}},
    "modul": "./m"
  }]
}
`)
	s.write("conf/c.yaml", `port: abc
task:
  - name: c
    module: ./m
    condition:
      consul-kv: {recurse: true}
    providers: [a, a.y]
  - name: c
    module: ./m
    terraform_version: 1.0.0
    condition:
      catalog-services: {regexp: "*"}
`)
	want := []string{
		`a.hcl:2: bogus: invalid key "bogus"`,
		`a.hcl:5: driver.terraform.backend.s3: only one backend can be configured`,
		`a.hcl:8: task[0].name: a task name must start with a letter`,
		`a.hcl:12: task[0].condition.services.regexp: `,
		`a.hcl:14: task[0].module_input[0].services: `,
		`a.hcl:14: task[0].module_input[0]: task's condition block and module_input block both monitor "services"`,
		`a.hcl:16: terraform_provider: the block has no name`,
		`a.hcl:17: terraform_provider.a: the block has two labels`,
		`b.json:2: log_level: invalid log level "BOGUS"`,
		`b.json:3: task[0].module: module for the task is required`,
		`b.json:5: task[0].condition.schedule.cron: the schedule "0 0 30 2 *" never comes due`,
		`b.json:6: task[0].modul: invalid key "modul"; did you mean "module"?`,
		`c.yaml:1: port: cannot parse "abc" as int`,
		`c.yaml:6: task[0].condition.consul-kv.path: path is required`,
		`c.yaml:7: task[0].providers[1]: only one provider instance per task`,
		`c.yaml:8: task[1].name: duplicate task name: "c"`,
		`c.yaml:10: task[1].terraform_version: `,
		`c.yaml:12: task[1].condition.catalog-services.regexp: `,
	}
	before := tree(t, s.dir)
	for _, args := range [][]string{{"validate"}, {"start"}, {"-once"}, {"-inspect"}, {"render"}} {
		args = append(args, "-config-dir", s.path("conf"))
		if args[0] == "render" {
			args = append(args, "c")
		}
		r := s.run(args...)
		if r.code != exitConfig {
			t.Errorf("%v: exit code %d, want %d", args, r.code, exitConfig)
		}
		wantText(t, r.stderr, want...)
		if n := strings.Count(r.stderr, "Error: "); n != len(want) {
			t.Errorf("%v: %d errors are reported, want %d:\n%s", args, n, len(want), r.stderr)
		}
		if after := tree(t, s.dir); after != before {
			t.Fatalf("%v left files behind:\n%s", args, after)
		}
	}
}

func TestTaskFiles_OtherFilesAreRefusedWithTheReason(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	task := "task: {name: %s, module: ./m, condition: {consul-kv: {path: a}}}\n"
	files := map[string]struct{ text, want string }{
		"latin1.yaml":    {"id: caf\xe9\n", "latin1.yaml:1: the file is not UTF-8 text"},
		"latin1.hcl":     {"id = \"caf\xe9\"\n", "latin1.hcl:1: the file is not UTF-8 text"},
		"latin1.json":    {"{\"id\": \"caf\xe9\"}\n", "latin1.json:1: the file is not UTF-8 text"},
		"bomb.yaml":      {bomb, "aliases stand for more than 100000 values"},
		"tabs.yaml":      {"consul:\n\taddress: x\n", "tabs.yaml:2: not valid YAML: found character that cannot start any token; indent with spaces"},
		"duplicate.yaml": {"port: 1\nid: x\nport: 2\n", "duplicate.yaml:3: port: duplicate key: it is already set on line 1"},
		"long.yaml":      {fmt.Sprintf(task, strings.Repeat("x", 10_000)), "(10000 characters) is too long; at most 200 bytes"},
		"huge.yaml":      {strings.Repeat("# nothing\n", 5<<20), "huge.yaml: the file is too large"},
		"unclosed.hcl":   {"task {\n", "unclosed.hcl:2: not valid HCL"},
		"binary.json":    {"\x7fELF\x02\x00\x00", "binary.json:1: "},
	}
	for name, f := range files {
		r := s.run("-once", "-config-file", s.write(name, f.text))
		if r.code != exitConfig {
			t.Errorf("%s: exit code %d, want %d", name, r.code, exitConfig)
		}
		wantText(t, r.stderr, f.want)
		if len(r.stderr) > 2000 {
			t.Errorf("%s: %d bytes are said", name, len(r.stderr))
		}
	}

	if runtime.GOOS != "windows" { // where links need a privilege
		if err := os.MkdirAll(s.path("loop.d"), 0o755); err != nil {
			t.Fatal(err)
		}
		for link, target := range map[string]string{"a.hcl": "b.hcl", "b.hcl": "a.hcl", "around": "."} {
			if err := os.Symlink(target, filepath.Join(s.path("loop.d"), link)); err != nil {
				t.Fatal(err)
			}
		}
		r := s.run("-once", "-config-dir", s.path("loop.d"))
		wantCode(t, r, exitConfig)
		wantText(t, r.stderr, "a.hcl: too many levels of symbolic links", "b.hcl: too many levels of symbolic links")
	}

	s.write("none.d/notes.txt", "x")
	r := s.run("-once", "-config-dir", s.path("none.d"))
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "no configuration files found")
}

func TestCommands_SayWhereTheyLookedForAFileThatDoesNotExist(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("here.hcl", []byte("port = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	api := []string{"status", "-http-addr=https://localhost:1"}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"validate", "-config-file=gone.hcl"}, "there is no gone.hcl in the folder " + here + ": correct the path, or write a first task file with `terrapulse init`"},
		{[]string{"start", "-config-dir=gone/tasks"}, "there is no folder " + filepath.Join(here, "gone") + ": correct the path, or write a first task file with `terrapulse init`"},
		{[]string{"validate"}, "`terrapulse init` writes a first one"},
		{[]string{"inspect", "-config-file=gone.hcl", "-with=gone.yaml"}, "there is no gone.yaml in the folder " + here + ": correct -with"},
		{append(api, "-ca-cert=gone.pem"), "there is no gone.pem in the folder " + here + ": correct -ca-cert (CTS_CACERT)"},
		{append(api, "-ca-path=gone"), "there is no gone in the folder " + here + ": correct -ca-path (CTS_CAPATH)"},
		{append(api, "-client-cert=gone.pem", "-client-key=k.pem"), "there is no gone.pem in the folder " + here + ": correct -client-cert (CTS_CLIENT_CERT)"},
		{append(api, "-token-file=gone"), "there is no gone in the folder " + here + ": correct -token-file (TERRAPULSE_TOKEN_FILE)"},
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), test.args, io.Discard, &stderr)
		if code == exitOK || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%v ends with %d and says:\n%s", test.args, code, &stderr)
		}
	}
}
