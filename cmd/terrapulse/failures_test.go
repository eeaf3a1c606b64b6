package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
)

// put writes a key to the site's Consul.
func (s *site) put(key string, value []byte) {
	s.t.Helper()
	if _, err := s.consul.Client().KV().Put(&api.KVPair{Key: key, Value: value}, nil); err != nil {
		s.t.Fatal(err)
	}
}

// module writes a module's only file, and returns the module's folder.
func (s *site) module(name, text string) string {
	s.write(name+"/main.tf", text)
	return s.path(name)
}

// taskOf is a task of a module.
func taskOf(name, module, body string) string {
	return fmt.Sprintf("\ntask {\n  name = %q\n  module = %q\n  %s\n}\n", name, module, body)
}

// said returns what once-mode told about one task, without line breaks.
func said(t *testing.T, stderr, task string) string {
	t.Helper()
	_, rest, ok := strings.Cut(stderr, "\nTask "+task+" ")
	if !ok {
		return ""
	}
	rest, _, _ = strings.Cut(rest, "\nTask ")
	return unwrapped(rest)
}

func TestOnce_SaysWhatIsWrongWithEachTaskAndRunsTheOthers(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.put("app/json", []byte(`{"a": ["b", "\"c\""]}`))
	s.put("app/braces", []byte("x${y}%{z}"))
	s.put("blob", bytes.Repeat([]byte{0xff, 0x00, 0x80, 0xfe}, 128<<10))

	const services = "variable \"services\" {}\n"
	kv := `condition "consul-kv" {
    path    = "app/"
    recurse = true
  }`
	plain := s.module("plain", services)
	bad := []struct {
		name, module, body string
		want               []string // in what is said about the task
	}{
		{"no_folder", s.path("nowhere"), onWeb, []string{"the module of task no_folder is not there: there is no directory " + s.path("nowhere")}},
		{"a_file", s.path("plain/main.tf"), onWeb, []string{"must be a directory", "main.tf is a file (unpack an archive)"}},
		{"no_services", s.module("empty", ""), onWeb, []string{`has no variable "services": declare it (every module gets the services)`, s.path("empty")}},
		{"no_catalog", plain, `condition "catalog-services" { regexp = "^web$" }`,
			[]string{`has no variable "catalog_services": declare it`, "use_as_module_input = false", "no_catalog"}},
		{"no_kv", plain, kv, []string{`has no variable "consul_kv": declare it`, "use_as_module_input = false", "no_kv"}},
		{"extra", plain, onWeb + "\nvariables { colour = \"1\" }", []string{`has no variable "colour": declare it`, "remove it from variables and variable_files of task extra"}},
		{"unset", s.module("unset", services+"variable \"colour\" {}\n"), onWeb,
			[]string{`the module needs a value for its variable "colour"`, "task unset"}},
		{"syntax", s.module("syntax", services+"resource {\n"), onWeb, []string{"terraform init of task syntax", "main.tf"}},
		{"apply", s.module("apply", services+"resource \"terraform_data\" \"x\" {\n  provisioner \"local-exec\" { command = \"echo no luck >&2; exit 3\" }\n}\n"), onWeb,
			[]string{"terraform apply of task apply", "exit status 3"}},
		{"provider", s.module("provider", services+"terraform {\n  required_providers {\n    nope = { source = \"example/nope\" }\n  }\n}\n"), onWeb,
			[]string{"a provider cannot be fetched", "example/nope"}},
		{"blob", s.path("mod"), `condition "consul-kv" { path = "blob" }`, []string{`key "blob"`, "not UTF-8 text", "base64"}},
		{"far", plain, "condition \"services\" {\n names = [\"web\"]\n datacenter = \"moon\"\n}", []string{`"web"`, "moon", "No path to datacenter", "check the datacenter's name"}},
		{"spaced", plain, "condition \"services\" {\n names = [\"web\"]\n namespace = \"team\"\n}", []string{`"web"`, "team", "this Consul has no namespaces"}},
		{"unprintable", plain, `condition "services" { names = ["two\nlines"] }`, []string{`"two\nlines"`, "Unexpected response code: 400", "characters that cannot be printed"}},
		{"filter", plain, "condition \"services\" {\n names = [\"web\"]\n filter = \"Service.Nonsense == 1\"\n}", []string{`"web"`, "Nonsense", "check the filter"}},
	}
	var tasks strings.Builder
	for _, b := range bad {
		tasks.WriteString(taskOf(b.name, b.module, b.body))
	}
	good := map[string]string{ // task to what its module writes
		"json":       "app/braces=x${y}%{z}\napp/json={\"a\": [\"b\", \"\\\"c\\\"\"]}\n",
		"braces":     "app/braces=x${y}%{z}\n",
		"digits":     "web 10.0.0.1:8080 passing\n",
		"wordy":      "web 10.0.0.1:8080 passing\n",
		"no_key":     "",
		"no_service": "",
	}
	tasks.WriteString(s.task("json", kv))
	tasks.WriteString(s.task("braces", `condition "consul-kv" { path = "app/braces" }`))
	tasks.WriteString(s.task("digits", "condition \"services\" { regexp = \"^w[^\\\\d]b\\\\d*$\" }"))
	tasks.WriteString(s.task("wordy", onWeb+"\ndescription = \"first line\\nresource {\\r\\n\\\" ${x}\""))
	tasks.WriteString(s.task("no_key", `condition "consul-kv" { path = "nowhere" }`))
	tasks.WriteString(s.task("no_service", `condition "services" { names = ["nobody"] }`))

	r := s.run("-once", "-config-file", s.config(tasks.String()))
	wantCode(t, r, exitError)
	for _, b := range bad {
		got := said(t, r.stderr, b.name)
		for _, want := range b.want {
			if !strings.Contains(got, want) {
				t.Errorf("about task %s it is not said %q:\n%s", b.name, want, got)
			}
		}
		if len(got) > 1000 {
			t.Errorf("%d bytes are said about task %s", len(got), b.name)
		}
	}
	for name, want := range good {
		if got := s.read(name + ".txt"); got != want {
			t.Errorf("task %s wrote %q, want %q\n%s", name, got, want, said(t, r.stderr, name))
		}
		if !regexp.MustCompile(`(?m)^` + name + ` +succeeded`).MatchString(r.stdout) {
			t.Errorf("the summary does not say that %s succeeded", name)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}

	// What cannot be read is found without running anything, too.
	r = s.run("validate", "-consul", "-config-file", s.config(tasks.String()))
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "task far: ", "task spaced: ", "task filter: ", "task blob: ")
}

func TestStore_NothingIsAppliedIfItCannotBeUsed(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	wantCode(t, s.run("-once", "-config-file", file), exitOK)
	good := s.read("state.db")
	s.register("web", "web-2", 8081, "passing")

	newer := func() {
		db, err := sql.Open("sqlite", s.path("state.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("PRAGMA user_version=7"); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		harm   func()
		want   []string // of a command that writes
		status []string // of one that reads
	}{
		{"a store that is cut off", func() { s.write("state.db", good[:len(good)/2]) },
			[]string{"damaged", "it was not changed", "backup"}, []string{"damaged", "backup"}},
		{"a store of a newer version", newer,
			[]string{"a newer version of Terrapulse has written it (format 7, this version supports 1)", "-store"},
			[]string{"a newer version of Terrapulse"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.write("state.db", good)
			tt.harm()
			before := s.read("state.db")
			for _, mode := range []string{"-once", "start"} {
				r := s.run(mode, "-config-file", file)
				wantCode(t, r, exitConfig)
				wantText(t, r.stderr, append(tt.want, s.path("state.db"))...)
			}
			for _, args := range [][]string{{"status"}, {"status", "-json"}, {"runs", "lb"}, {"logs", "lb"}} {
				r := s.run(args...)
				wantCode(t, r, exitError)
				wantText(t, r.stderr, append(tt.status, s.path("state.db"))...)
			}
			if s.read("state.db") != before {
				t.Error("the file was changed")
			}
			if got := s.read("lb.txt"); strings.Contains(got, "8081") {
				t.Errorf("something was applied: %q", got)
			}
		})
	}

	t.Run("a folder that is not there", func(t *testing.T) {
		missing := "sqlite:" + s.path("nowhere/state.db")
		r := s.run("-once", "-config-file", file, "-store", missing)
		wantCode(t, r, exitConfig)
		wantText(t, r.stderr, "there is no folder "+s.path("nowhere"), "create it or choose another place with -store")
		r = s.run("status", "-store", missing)
		wantCode(t, r, exitError)
		wantText(t, r.stderr, "no state yet", s.path("nowhere"))
		if _, err := os.Stat(s.path("nowhere")); err == nil {
			t.Error("the folder was made")
		}
	})
}

func TestConsul_CommandsEndIfItIsUnreachable(t *testing.T) {
	s := newSite(t)
	file := s.config(s.task("lb", onWeb))
	s.consul.Stop()
	before := tree(t, s.dir)
	for _, args := range [][]string{{"-once"}, {"-inspect"}, {"inspect"}, {"validate", "-consul"}} {
		args = append(args, "-config-file", file)
		r := s.run(args...)
		if r.code != exitConfig {
			t.Errorf("%v: exit code %d, want %d", args, r.code, exitConfig)
		}
		wantText(t, r.stderr, s.consul.Addr(), "check that Consul runs there", "CONSUL_HTTP_ADDR")
		if r.stdout != "" {
			t.Errorf("%v printed: %s", args, r.stdout)
		}
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("files were left behind:\n%s", after)
	}
}
