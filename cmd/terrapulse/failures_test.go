package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
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
	return strings.Join(strings.Fields(rest), " ")
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

	statement := func(statement string) func() {
		return func() {
			t.Helper()
			db, err := sql.Open("sqlite", s.path("state.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
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
		{"something else than a store", func() { s.write("state.db", strings.Repeat("not a store\n", 1000)) },
			[]string{"it is not a store", "it was not changed"}, []string{"it is not a store"}},
		{"a store of a newer version", statement("PRAGMA user_version=7"),
			[]string{"a newer version of Terrapulse has written it (format 7, this version supports 1)", "-store"},
			[]string{"a newer version of Terrapulse"}},
		{"the database of another program", statement("PRAGMA application_id=7"),
			[]string{"the SQLite database of another program", "-store"}, []string{"another program"}},
		{"a folder", func() { s.write("state.db/x", "") },
			[]string{"is not a file", "-store"}, []string{"is not a file"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.RemoveAll(s.path("state.db")); err != nil {
				t.Fatal(err)
			}
			if tt.name != "a folder" {
				s.write("state.db", good)
			}
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

func TestRights_CommandSaysWhichOneIsMissing(t *testing.T) {
	s := newSite(t, consultest.WithACLs())
	s.register("web", "web-1", 8080, "passing")
	s.put("app/colour", []byte("red"))
	const secret = "0c2a0f0e-7d0b-4dbf-9d3c-5e5bb7a2c0de"
	_, _, err := s.consul.Client().ACL().TokenCreate(&api.ACLToken{SecretID: secret, Description: "may do nothing"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tasks := s.task("lb", onWeb) +
		s.task("flags", `condition "consul-kv" { path = "app/colour" }`) +
		s.task("tree", "condition \"consul-kv\" {\n path = \"app/\"\n recurse = true\n}") +
		s.task("names", `condition "services" { regexp = ".*" }`)
	file := s.config(tasks)
	rights := []string{`service:read on "web" and node:read on its nodes`, `key:read on "app/colour"`, `on prefix "app/"`, "service:read on the services"}

	t.Setenv("CONSUL_HTTP_TOKEN", secret)
	results := map[string]result{
		"validate": s.run("validate", "-consul", "-config-file", file),
		"once":     s.run("-once", "-config-file", file, "-log-level", "TRACE"),
		"inspect":  s.run("-inspect", "-config-file", file, "-log-level", "TRACE"),
		"render":   s.run("render", "-config-file", file, "lb"),
		"status":   s.run("status"),
	}
	for name, r := range results {
		if strings.Contains(r.stdout+r.stderr, secret) {
			t.Errorf("%s shows the token", name)
		}
	}
	wantCode(t, results["validate"], exitConfig)
	wantCode(t, results["once"], exitError)
	for _, name := range []string{"validate", "once", "inspect"} {
		wantText(t, results[name].stderr, rights...)
	}
	wantText(t, results["render"].stderr, rights[0])
	if got := tree(t, s.dir); strings.Contains(got, "lb.txt") {
		t.Errorf("something was applied:\n%s", got)
	}

	t.Setenv("CONSUL_HTTP_TOKEN", "11111111-2222-3333-4444-555555555555")
	r := s.run("-once", "-config-file", file)
	if r.code != exitConfig && r.code != exitError {
		t.Errorf("exit code %d with a token that Consul does not know", r.code)
	}
	wantText(t, r.stderr, "Consul does not know the token", "wrong, expired or deleted")

	_, policyErr := grant(s, secret, `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" } key_prefix "app/" { policy = "list" }`)
	if policyErr != nil {
		t.Fatal(policyErr)
	}
	t.Setenv("CONSUL_HTTP_TOKEN", secret)
	wantCode(t, s.run("validate", "-consul", "-config-file", file), exitOK)
	wantCode(t, s.run("-once", "-config-file", file), exitOK)
	for _, name := range strings.Fields(tree(t, s.dir)) {
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte(secret)) {
			t.Errorf("the token is in %s", name)
		}
	}
}

// grant gives a token the rights of a policy.
func grant(s *site, secret, rules string) (*api.ACLToken, error) {
	acl := s.consul.Client().ACL()
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "granted", Rules: rules}, nil)
	if err != nil {
		return nil, err
	}
	token, _, err := acl.TokenReadSelf(&api.QueryOptions{Token: secret})
	if err != nil {
		return nil, err
	}
	token.Policies = []*api.ACLLink{{ID: policy.ID}}
	token, _, err = acl.TokenUpdate(token, nil)
	return token, err
}

func TestStart_TaskThatCannotRunDoesNotStopOthers(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.put("app/blob", bytes.Repeat([]byte{0xff, 0x00, 0x80, 0xfe}, 128<<10))
	file := s.config(s.task("lb", onWeb) +
		s.task("blob", "condition \"consul-kv\" {\n path = \"app/\"\n recurse = true\n}") +
		s.task("far", "condition \"services\" {\n names = [\"web\"]\n datacenter = \"moon\"\n}") +
		s.task("far_keys", "condition \"consul-kv\" {\n path = \"a\"\n datacenter = \"moon\"\n}") +
		s.task("spaced", "condition \"services\" {\n regexp = \"web\"\n namespace = \"team\"\n}") +
		s.task("filter", "condition \"services\" {\n names = [\"web\"]\n filter = \"Service.Nonsense == 1\"\n}"))
	p := s.start("-config-file", file)
	eventually(t, "the first apply", func() bool { return strings.Contains(s.read("lb.txt"), "8080") })
	eventually(t, "the binary value fails its task", func() bool { return strings.Contains(s.runInTest("status").stdout, "not UTF-8 text") })
	for i := 1; i <= 3; i++ {
		port := 8080 + i
		s.register("web", fmt.Sprintf("web-%d", i+1), port, "passing")
		eventually(t, "a change is applied", func() bool { return strings.Contains(s.read("lb.txt"), fmt.Sprint(port)) })
	}
	reasons := map[string]apispec.TaskOverview{}
	eventually(t, "the binary value's task is between two attempts", func() bool {
		var st apispec.Overview
		r := s.runInTest("status", "-json")
		wantCode(t, r, exitOK)
		if err := json.Unmarshal([]byte(r.stdout), &st); err != nil {
			t.Fatal(err)
		}
		for _, task := range st.Tasks {
			reasons[task.Name] = task
		}
		return reasons["blob"].Run == nil
	})
	for name, want := range map[string]string{"far": "check the datacenter's name", "far_keys": "check the datacenter's name",
		"spaced": "this Consul has no namespaces", "filter": "check the filter"} {
		if got := reasons[name]; got.Phase != apispec.PhaseUnreadable || !strings.Contains(got.Reason.Text, want) {
			t.Errorf("status of task %s: %q, %q; want %q", name, got.Phase, got.Reason.Text, want)
		}
	}
	if got := reasons["blob"]; got.Phase != apispec.PhaseFailing || got.LastRun == nil || !strings.Contains(apispec.Deref(got.LastRun.Error), `key "app/blob"`) {
		t.Errorf("status of task blob: %+v", got)
	}

	s.put("app/blob", []byte("text now"))
	eventually(t, "the task is run when its value is text", func() bool { return s.read("blob.txt") == "app/blob=text now\n" })
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestConsul_CommandsEndIfItIsUnreachable(t *testing.T) {
	s := newSite(t)
	file := s.config(s.task("lb", onWeb))
	s.consul.Stop()
	before := tree(t, s.dir)
	for _, args := range [][]string{{"-once"}, {"-inspect"}, {"inspect"}, {"validate", "-consul"}, {"render"}} {
		args = append(args, "-config-file", file)
		if args[0] == "render" {
			args = append(args, "lb")
		}
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

func TestStart_ModuleThatComesBackIsApplied(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	p := s.start("-config-file", s.config(s.task("lb", onWeb)))
	eventually(t, "the first apply", func() bool { return strings.Contains(s.read("lb.txt"), "8080") })
	if err := os.Rename(s.path("mod"), s.path("away")); err != nil {
		t.Fatal(err)
	}
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "it says what is missing", func() bool {
		return strings.Contains(s.runInTest("runs", "lb").stdout, "the module of task lb is not there: there is no directory "+s.path("mod"))
	})
	if err := os.Rename(s.path("away"), s.path("mod")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change is applied", func() bool { return strings.Contains(s.read("lb.txt"), "8081") })
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}
