package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTaskFiles_EveryCommandReportsAllMistakes(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	s.write("conf/a.hcl", "bogus = 1\ntask {\n  name = \"0bad name\"\n  module = \"./m\"\n  module_input \"services\" {}\n}\n")
	s.write("conf/b.json", `{"log_level": "BOGUS", "task": [{"name": "b", "modul": "./m"}]}`)
	s.write("conf/c.yaml", "port: abc\ntask:\n  - name: c\n    module: ./m\n    condition:\n      schedule: {cron: never}\n")
	want := []string{
		`a.hcl:1: bogus: invalid key "bogus"`,
		`a.hcl:3: task[0].name: a task name must start with a letter`,
		`a.hcl:5: task[0].module_input[0].services: `,
		`b.json:1: log_level: invalid log level "BOGUS"`,
		`b.json:1: task[0].module: module for the task is required`,
		`b.json:1: task[0].modul: invalid key "modul"; did you mean "module"?`,
		`c.yaml:1: port: cannot parse "abc" as int`,
		`c.yaml:6: task[0].condition.schedule.cron: unable to parse`,
	}
	before := tree(t, s.dir)
	for _, args := range [][]string{{"validate"}, {"start"}, {"-once"}, {"-inspect"}} {
		args = append(args, "-config-dir", s.path("conf"))
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
