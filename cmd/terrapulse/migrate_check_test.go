package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/process/migrate"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// migrate runs `terrapulse migrate check`.
func (s *site) migrate(file string, flags ...string) result {
	s.t.Helper()
	var stdout, stderr testtools.Output
	code := run(s.t.Context(), append([]string{"migrate", "check", "-config-file", file}, flags...), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// everything is all that a check could change by mistake: the files of the site,
// and what Consul holds.
func (s *site) everything() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	digest := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			all[path] = "there"
			return err
		}
		raw, err := os.ReadFile(path)
		all[path] = digest(raw)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	pairs, _, err := s.consul.Client().KV().List("", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range pairs {
		all["kv "+p.Key] = fmt.Sprint(digest(p.Value), p.ModifyIndex, p.LockIndex)
	}
	sessions, _, err := s.consul.Client().Session().List(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, session := range sessions {
		all["session "+session.ID] = session.Name
	}
	return all
}

func TestMigrateCheckPlansAgainstTheStateThatCTSHasLeftAndTouchesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	for _, tt := range []struct {
		name, driver, backend string
		lock                  func(task string) // as a run of CTS does
	}{
		{"local", "driver \"terraform\" {\n  backend \"local\" {}\n}", `backend "local" {}`, func(string) {}},
		{"consul", "", fmt.Sprintf("backend \"consul\" {\n    address = %q\n    gzip    = true\n    path    = \"consul-terraform-sync/terraform\"\n  }", s.consul.Addr()),
			func(task string) {
				session, _, err := s.consul.Client().Session().Create(&api.SessionEntry{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				held, _, err := s.consul.Client().KV().Acquire(&api.KVPair{Key: "consul-terraform-sync/terraform-env:" + task + "/.lock", Session: session}, nil)
				if err != nil || !held {
					t.Fatalf("the lock is not held: %v", err)
				}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			task := "from_" + tt.name
			s.leaveAsCTS(task, tt.backend)
			file := s.config(s.task(task, onWeb) + s.task("never_run", onWeb) + s.task("off", "enabled = false\n"+onWeb))
			s.write("tasks.hcl", strings.Replace(s.read("tasks.hcl"), "driver \"terraform\" {\n  backend \"local\" {}\n}", tt.driver, 1))
			tt.lock(task)
			before := s.everything()

			r := s.migrate(file)
			wantCode(t, r, exitOK)
			wantLine(t, r.stdout, task+" nothing")
			wantLine(t, r.stdout, "never_run this it has no state", "1 to add, 0 to change, 0 to destroy")
			wantLine(t, r.stdout, "off nothing it is disabled")

			s.register("web", "web-2", 8081, "passing")
			r = s.migrate(file, "-detailed-exitcode", "-plan")
			wantCode(t, r, exitChanges)
			wantLine(t, r.stdout, task+" this 1 to add, 0 to change, 1 to destroy")
			wantText(t, r.stdout, "### Task "+task, "must be replaced")
			if err := s.consul.Client().Agent().ServiceDeregister("web-2"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, s.everything()); diff != "" {
				t.Errorf("the check changed something: %s", diff)
			}
		})
	}
}

// wantLine looks for a line with these texts, whatever blanks are between words.
func wantLine(t *testing.T, in string, texts ...string) {
	t.Helper()
	for _, line := range strings.Split(in, "\n") {
		line = unwrapped(line)
		all := strings.HasPrefix(line, texts[0])
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return
		}
	}
	t.Errorf("no line %q in:\n%s", texts, in)
}

func TestMigrateCheckSaysWhyATaskCannotBeTakenOver(t *testing.T) {
	s := newSite(t)
	s.write("bad/main.tf", `variable "services" {}`)
	file := s.config(strings.Replace(s.task("bad", onWeb), s.path("mod"), s.path("bad"), 1) + s.task("good", onWeb))
	r := s.migrate(file, "-detailed-exitcode")
	wantCode(t, r, exitError)
	wantLine(t, r.stdout, "bad cannot be taken over", `has no variable "file"`)
	wantLine(t, r.stdout, "good this")
}

// ctsAPI answers as Consul-Terraform-Sync does.
func ctsAPI(t *testing.T, tasks string) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/status/tasks" {
			t.Errorf("asked for %s %s", r.Method, r.URL.Path)
		}
		w.Write([]byte(tasks))
	}))
	t.Cleanup(server.Close)
	return server
}

func TestMigrateCheckTellsWhatOnlyTheRunningDaemonKnows(t *testing.T) {
	s := newSite(t)
	// An apply that changes nothing: the files say the same as what is there.
	s.write("nothing/main.tf", `variable "services" {}
variable "file" {}`)
	same := func(name, body string) string {
		return strings.Replace(s.task(name, body), s.path("mod"), s.path("nothing"), 1)
	}
	file := s.config(same("same", onWeb) + same("paused", onWeb) + same("woken", "enabled = false\n"+onWeb) + same("added", onWeb) + same("failing", onWeb))
	server := ctsAPI(t, `{
		"same":     {"task_name":"same","status":"successful","enabled":true,"events_url":"","providers":[],"services":[]},
		"paused":   {"task_name":"paused","status":"unknown","enabled":false},
		"woken":    {"task_name":"woken","status":"unknown","enabled":true},
		"failing":  {"task_name":"failing","status":"critical","enabled":true},
		"from_api": {"task_name":"from_api","status":"successful","enabled":true}}`)

	r := s.migrate(file, "-http-addr", server.URL)
	wantCode(t, r, exitOK)
	for _, want := range []string{
		"Note: an API answers at " + server.URL, "Note: task from_api was created through the API", "Note: task paused was disabled through the API",
		"Note: task woken runs, but", "Note: task added is in the files but", "Note: task failing fails where it runs now (critical)",
	} {
		wantLine(t, r.stdout, want)
	}
	if strings.Contains(r.stdout, "task same") {
		t.Errorf("a task that is the same is noted:\n%s", r.stdout)
	}

	// It is found at the configured port, too; what would be lost is a change.
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	s.write("tasks.hcl", strings.Replace(s.read("tasks.hcl"), "port = 0", "port = "+port, 1))
	r = s.migrate(file, "-json", "-detailed-exitcode")
	wantCode(t, r, exitChanges)
	var m migrate.Report
	if err := json.Unmarshal([]byte(r.stdout), &m); err != nil {
		t.Fatalf("%v:\n%s", err, r.stdout)
	}
	if m.API != "http://localhost:"+port || !m.Lost || len(m.Tasks) != 5 || m.Tasks[0].Will != "nothing" || len(m.Notes) < 6 {
		t.Errorf("got %+v", m)
	}

	// It has ended.
	server.Close()
	r = s.migrate(file, "-detailed-exitcode")
	wantCode(t, r, exitOK)
	wantLine(t, r.stdout, "Note: no Consul-Terraform-Sync runs here")
	r = s.migrate(file, "-http-addr", server.URL)
	wantCode(t, r, exitOK)
	wantLine(t, r.stdout, "Note: what runs at "+server.URL+" was not compared")
}

// What docs/migrate.md promises of the way back.
func TestAfterTerrapulseCTSFindsTheStateAndChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	backend := fmt.Sprintf("backend \"consul\" {\n    address = %q\n    gzip    = true\n    path    = \"consul-terraform-sync/terraform\"\n  }", s.consul.Addr())
	s.leaveAsCTS("there_and_back", backend)
	generated := map[string]string{} // by CTS, which writes them anew when it starts
	files, err := filepath.Glob(s.path("work/there_and_back/*.tf*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("CTS left no files: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		generated[file] = string(raw)
	}
	file := s.config(s.task("there_and_back", onWeb))
	s.write("tasks.hcl", strings.Replace(s.read("tasks.hcl"), "driver \"terraform\" {\n  backend \"local\" {}\n}", "", 1))
	wantCode(t, s.run("-once", "-config-file", file), exitOK)

	for file, text := range generated {
		if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-no-color", "-force-copy", "-input=false", "-backend=true", "-get=true", "-upgrade=false"},
		{"workspace", "select", "-no-color", "there_and_back"},
		{"validate", "-no-color", "-json"},
		{"plan", "-no-color", "-input=false", "-detailed-exitcode", "-lock-timeout=0s", "-lock=true", "-parallelism=10", "-refresh=true"},
	} {
		cmd := exec.Command("terraform", args...)
		cmd.Dir = s.path("work/there_and_back")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("terraform %v: %v\n%s", args, err, out)
		}
	}
}

// A folder of CTS may have files of Ansible, or of another program.
func TestMigrateCheck_NamesFilesThatCTSIgnores(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.config(s.task("out", onWeb))
	if err := os.MkdirAll(s.path("conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("conf/cts.hcl", strings.Replace(s.read("tasks.hcl"), `names = ["web"]`, "names = [\"web\"]\n    cts_user_defined_meta { edge = true }", 1))
	s.write("conf/more.yaml", "log_level: debug\n")
	r := s.run("migrate", "check", "-config-dir", s.path("conf"))
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "Note: Consul-Terraform-Sync ignores "+s.path("conf/more.yaml")+", and Terrapulse reads it")
	wantText(t, r.stdout+r.stderr, `cts_user_defined_meta.edge: the module gets "true", and got "1" from Consul-Terraform-Sync`)
	if strings.Contains(r.stdout, "ignores "+s.path("conf/cts.hcl")) {
		t.Errorf("it says that CTS ignores its own file:\n%s", r.stdout)
	}
}
