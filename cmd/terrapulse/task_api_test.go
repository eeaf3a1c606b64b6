package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// A session of somebody whose scripts call Consul-Terraform-Sync, with an
// instance of Terrapulse behind the API.
func TestASessionOfTheTaskCommands(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	p := s.start("-config-file", s.config(s.task("lb", onWeb)+s.task("dis", "enabled = false\n"+onWeb)))
	env := append(slices.Clip(s.env), "CTS_ADDRESS="+p.served())
	eventually(t, "the first apply", func() bool { return s.read("lb.txt") != "" })
	path := cts(t)

	// The module is relative to where the instance runs, the variables to here.
	here := t.TempDir()
	if err := os.WriteFile(filepath.Join(here, "vars.tfvars"), []byte("file = \""+s.path("newt.txt")+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here, "newt.hcl"), []byte(strings.Replace(newTask, "module", "variable_files = [\"vars.tfvars\"]\n  module", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(stdin string, code int, want string, args ...string) {
		t.Helper()
		r := programIn(t, here, env, path, stdin, append([]string{"task"}, args...)...)
		wantCode(t, r, code)
		said := r.stdout
		if code != exitOK {
			said = r.stderr
		}
		said = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllString(said, "UUID")
		if !regexp.MustCompile(`\A(?s:` + want + `)\z`).MatchString(said) {
			t.Errorf("task %v says\n%s\nwant\n%s", args, said, want)
		}
	}
	const inspectNew = `==> Inspecting changes to resource if creating task 'newt'\.\.\.

    Generating plan that Consul-Terraform-Sync will use Terraform to execute

    Request ID: UUID
    Request Payload:
    \{
      "task": \{
        "condition": \{.*
        "variables": \{
          "file": .*
    \}

    Plan: 
    .*Plan: 1 to add, 0 to change, 0 to destroy\..*

`
	says("no\n", 0, inspectNew+`==> Creating the task will perform the actions described above\.\n    Do you want to perform these actions for 'newt'\?.*    Cancelled creating task 'newt'\n\n`, "create", "-task-file", "newt.hcl")
	if s.read("newt.txt") != "" {
		t.Error("a cancelled task was applied")
	}
	says("yes\n", 0, inspectNew+`==> Creating the task will perform the actions described above\.\n    Do you want to perform these actions for 'newt'\?.*Enter a value: \n==> Creating and running task 'newt'\.\.\.\n\n==> Task 'newt' created\n\n`, "create", "-task-file", "newt.hcl")
	wantText(t, s.read("newt.txt"), "8080")
	says("", exitError, `==> Error: unable to generate plan for 'newt'\n\n    400 Bad Request: task with name newt already exists, see logs for more details \(Request ID: UUID\)\n`,
		"create", "-auto-approve", "-task-file", "newt.hcl")

	says("yes\n", 0, `==> Inspecting changes to resource if enabling 'dis'\.\.\..*==> Enabling the task will perform .*Do you want to perform these actions for 'dis'\?.*==> Enabling and running 'dis'\.\.\.\n\n==> 'dis' enable complete!\n\n`, "enable", "dis")
	wantText(t, s.read("dis.txt"), "8080")
	says("", 0, `==> Waiting to disable 'dis'\.\.\.\n\n==> 'dis' disable complete!\n\n`, "disable", "dis")
	says("", 0, `==> Inspecting changes .*    Plan: \n.*No changes.*\n\n==> Enabling and running 'dis'\.\.\.\n\n==> 'dis' enable complete!\n\n`, "enable", "dis") // without a question

	const deleted = `==> Marking task '%' for deletion\.\.\.\n\n==> Task '%' has been marked for deletion and will be deleted when not running\.\n\n`
	says("yes\n", 0, `==> Do you want to delete 'newt'\?.*Enter a value: \n`+strings.ReplaceAll(deleted, "%", "newt"), "delete", "newt")
	says("", 0, strings.ReplaceAll(deleted, "%", "lb")+`    .*comes back.*\n\n`, "delete", "-auto-approve", "lb")
	for command, unable := range map[string]string{"enable": "generate plan for", "disable": "disable"} {
		says("", exitError, `==> Error: unable to `+unable+` 'newt'\n\n    request returned 404 status code with error: a task with name 'newt' does not exist or has not been initialized yet\n`, command, "newt")
	}
	says("", exitError, `==> Error: unable to delete 'newt'\n\n    404 Not Found: a task with name 'newt' does not exist or has not been initialized yet\n`, "delete", "-auto-approve", "newt")
	if got := completions(t, here, env, "terrapulse task disable "); strings.Join(got, " ") != "dis" {
		t.Errorf("a shell shows the tasks %q", got)
	}
	if s.read("newt.txt") == "" || s.read("lb.txt") == "" {
		t.Error("what a deleted task has made is gone")
	}
}

func TestTheTaskCommandsSpeakMutualTLS(t *testing.T) {
	s := newSite(t)
	ours, theirs := testtools.NewAuthority(t), testtools.NewAuthority(t)
	cert, key := ours.Server("api")
	p := s.start("-config-file", s.config(s.task("lb", "enabled = false\n"+onWeb)+fmt.Sprintf(`
tls {
  cert            = %q
  key             = %q
  ca_cert         = %q
  verify_incoming = true
}
`, cert, key, ours.CA)))
	address := strings.Replace(p.served(), "http://", "https://", 1)
	clientCert, clientKey := ours.Client("script")
	foreignCert, foreignKey := theirs.Client("stranger")
	for _, test := range []struct {
		env  map[string]string
		args []string
		code int
		want string
	}{
		{nil, []string{"-http-addr", address, "-ca-cert", ours.CA, "-client-cert", clientCert, "-client-key", clientKey}, exitOK, "'lb' disable complete!"},
		{map[string]string{"CTS_ADDRESS": address, "CTS_CACERT": ours.CA, "CTS_CLIENT_CERT": clientCert, "CTS_CLIENT_KEY": clientKey}, nil, exitOK, "'lb' disable complete!"},
		{nil, []string{"-http-addr", address, "-ssl-verify=false", "-client-cert", clientCert, "-client-key", clientKey}, exitOK, "'lb' disable complete!"},
		{nil, []string{"-http-addr", address, "-client-cert", clientCert, "-client-key", clientKey}, exitError, "-ca-cert or -ca-path"},
		{nil, []string{"-http-addr", address, "-ca-cert", ours.CA}, exitError, "-client-cert"},
		{nil, []string{"-http-addr", address, "-ca-cert", ours.CA, "-client-cert", foreignCert, "-client-key", foreignKey}, exitError, "-client-cert"},
		{nil, []string{"-http-addr", strings.Replace(address, "https", "http", 1)}, exitError, "give its address with https://"},
	} {
		t.Run(fmt.Sprint(test.env, test.args), func(t *testing.T) {
			for k, v := range test.env {
				t.Setenv(k, v)
			}
			r := (&site{t: t}).bare("task", append([]string{"disable", "lb"}, test.args...)...)
			wantCode(t, r, test.code)
			wantText(t, strings.Join(strings.Fields(r.stdout+r.stderr), " "), test.want)
		})
	}
}
