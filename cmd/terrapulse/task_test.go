package main

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// What a script of a CTS user sees, to the letter where it may look.
func TestTask_PrintsWhatScriptsLookFor(t *testing.T) {
	const plan = `    Plan: 
    Terraform will perform the following actions:

      # module.web.local_file.out will be created
      + resource "local_file" "out" {
          + filename = "/tmp/a/rather/long/path/that/is/wider/than/what/prose/is/wrapped/at/web.txt"
        }

    Plan: 1 to add, 0 to change, 0 to destroy.

`
	const prompt = ` - This cannot be undone.
     - Terraform may do something else if what the task watches in Consul changes meanwhile.

    Only 'yes' will be accepted to approve, enter 'no' or leave blank to reject.

    Enter a value: 
`
	inspectNew := `==> Inspecting changes to resource if creating task 'newt'...

    Generating plan that Consul-Terraform-Sync will use Terraform to execute

    Request ID: 7f0c2f8e-9a38-4a0a-8a6b-b8a0a4f7d3a1
    Request Payload:
    {
      "task": {
        "condition": {
          "services": {
            "cts_user_defined_meta": {},
            "datacenter": "",
            "filter": "",
            "names": [
              "web"
            ],
            "namespace": "",
            "use_as_module_input": true
          }
        },
        "description": "",
        "enabled": true,
        "module": "./mod",
        "name": "newt",
        "providers": [],
        "variables": {},
        "version": ""
      }
    }

` + plan
	askNew := `==> Creating the task will perform the actions described above.
    Do you want to perform these actions for 'newt'?

    ` + prompt
	created := `==> Creating and running task 'newt'...

==> Task 'newt' created

`
	inspectDis := `==> Inspecting changes to resource if enabling 'dis'...

    Generating plan that Consul-Terraform-Sync will use Terraform to execute

` + plan
	askDis := `==> Enabling the task will perform the actions described above.
    Do you want to perform these actions for 'dis'?

    ` + prompt
	enabled := `==> Enabling and running 'dis'...

==> 'dis' enable complete!

`
	askDelete := `==> Do you want to delete 'dis'?

     - This cannot be undone.
     - What the task has made is kept, and so is its Terraform state.
     - A task that is running is deleted when its run has ended.

    Only 'yes' will be accepted to approve, enter 'no' or leave blank to reject.

    Enter a value: 
`
	deleted := `==> Marking task 'dis' for deletion...

==> Task 'dis' has been marked for deletion and will be deleted when not running.

`
	file := taskFile(t, "task.hcl", newTask)
	for _, test := range []struct {
		answer string
		args   []string
		stdout string
		asked  []string
	}{
		{"yes\n", []string{"create", "-task-file", file}, inspectNew + askNew + created, []string{"POST /v1/tasks?run=inspect", "POST /v1/tasks?run=now"}},
		{"yes", []string{"create", "-task-file", file}, inspectNew + askNew + created, []string{"POST /v1/tasks?run=inspect", "POST /v1/tasks?run=now"}},
		{"", []string{"create", "-auto-approve", "-task-file", file}, inspectNew + created, []string{"POST /v1/tasks?run=inspect", "POST /v1/tasks?run=now"}},
		{"y\n", []string{"create", "-task-file", file}, inspectNew + askNew + "    Cancelled creating task 'newt'\n\n", []string{"POST /v1/tasks?run=inspect"}},
		{"yes\n", []string{"enable", "dis"}, inspectDis + askDis + enabled, []string{"PATCH /v1/tasks/dis?run=inspect", "PATCH /v1/tasks/dis?run=now"}},
		{"", []string{"enable", "-auto-approve", "dis"}, inspectDis + enabled, []string{"PATCH /v1/tasks/dis?run=inspect", "PATCH /v1/tasks/dis?run=now"}},
		{"", []string{"enable", "dis", "-auto-approve"}, inspectDis + enabled, []string{"PATCH /v1/tasks/dis?run=inspect", "PATCH /v1/tasks/dis?run=now"}},
		{"\n", []string{"enable", "dis"}, inspectDis + askDis + "    Cancelled enabling task 'dis'\n\n", []string{"PATCH /v1/tasks/dis?run=inspect"}},
		{"", []string{"disable", "dis"}, "==> Waiting to disable 'dis'...\n\n==> 'dis' disable complete!\n\n", []string{"PATCH /v1/tasks/dis"}},
		{"yes\r\n", []string{"delete", "dis"}, askDelete + deleted, []string{"DELETE /v1/tasks/dis"}},
		{"", []string{"delete", "-auto-approve", "dis"}, deleted, []string{"DELETE /v1/tasks/dis"}},
		{"no\n", []string{"delete", "dis"}, askDelete + "    Cancelled deleting task 'dis'\n\n", nil},
	} {
		s := newStandIn(t)
		r := s.task(t, ctsName, test.answer, test.args...)
		if r.code != exitOK || r.stderr != "" {
			t.Errorf("task %v ends with %d: %s", test.args, r.code, r.stderr)
		}
		if diff := cmp.Diff(test.stdout, r.stdout); diff != "" {
			t.Errorf("task %v with the answer %q prints (-want +got):\n%s", test.args, test.answer, diff)
		}
		if diff := cmp.Diff(test.asked, s.asked); diff != "" {
			t.Errorf("task %v with the answer %q asks the API for (-want +got):\n%s", test.args, test.answer, diff)
		}
	}
}

func TestTaskEnable_WithoutChangesDoesNotAsk(t *testing.T) {
	s := newStandIn(t)
	s.answers["PATCH /v1/tasks/dis?run=inspect"] = `200 {"inspect":{"changes_present":false,"plan":"No changes. Your infrastructure matches the configuration."}}`
	r := s.task(t, ownName, "", "enable", "dis")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "Generating plan that Terrapulse will use", "No changes. Your infrastructure", "==> 'dis' enable complete!")
	if strings.Contains(r.stdout, "Enter a value") {
		t.Errorf("it asks although nothing would change:\n%s", r.stdout)
	}
}

func TestTask_PrintsThePageInHCPTerraform(t *testing.T) {
	s := newStandIn(t)
	s.answers["PATCH /v1/tasks/dis?run=inspect"] = `200 {"inspect":{"changes_present":false,"plan":"No changes.","tfc_run_url":"https://hcp/1"}}`
	wantText(t, s.task(t, ownName, "", "enable", "dis").stdout, "    Terraform Cloud Run URL: https://hcp/1\n")
	wantText(t, s.task(t, ownName, "", "enable", "-json", "-auto-approve", "dis").stdout, `"tfc_run_url": "https://hcp/1"`)
}

func TestTask_WithoutApprovalNothingIsChanged(t *testing.T) {
	s := newStandIn(t)
	r := s.task(t, ownName, "", "delete", "dis")
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "==> Error: unable to delete 'dis'", "cannot prompt: standard input is closed; nothing is changed; use -auto-approve")

	t.Setenv("CTS_ADDRESS", s.URL)
	ctx, cancel := context.WithCancel(t.Context())
	typing, _ := io.Pipe() // and never ends a line
	var stdout, stderr testtools.Output
	a := &app{ctx: ctx, program: ownName, stdin: typing, stdout: &stdout, stderr: &stderr}
	code := make(chan int)
	go func() { code <- a.run([]string{"task", "delete", "dis"}) }()
	eventually(t, "it asks", func() bool { return strings.Contains(stdout.String(), "Enter a value") })
	cancel()
	select {
	case c := <-code:
		wantCode(t, result{c, stdout.String(), stderr.String()}, exitError)
		wantText(t, stderr.String(), "interrupted before there was an answer")
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on waiting for an answer after an interrupt")
	}
	if len(s.asked) > 0 {
		t.Errorf("the API was asked for %q", s.asked)
	}
}

func TestTask_InterruptedCommandSaysWhatMayStillHappen(t *testing.T) {
	s := newStandIn(t)
	s.hang = "PATCH /v1/tasks/dis?run=now"
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr testtools.Output
	a := &app{ctx: ctx, program: ownName, stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
	code := make(chan int)
	go func() { code <- a.run([]string{"task", "enable", "-auto-approve", "-http-addr", s.URL, "dis"}) }()
	eventually(t, "it is enabled", func() bool { return strings.Contains(stdout.String(), "Enabling and running") })
	cancel()
	wantCode(t, result{<-code, stdout.String(), stderr.String()}, exitError)
	wantText(t, stderr.String(), "interrupted; what the API was asked for last may still be done")
}

func TestTask_PrintsRefusalsOfTheAPI(t *testing.T) {
	s := newStandIn(t)
	s.answers["POST /v1/tasks?run=inspect"] = `400 {"error":{"message":"task with name newt already exists"},"request_id":"7f0c2f8e"}`
	file := taskFile(t, "task.hcl", newTask)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"create", "-task-file", file}, `==> Error: unable to generate plan for 'newt'

    400 Bad Request: task with name newt already exists, see logs for more details (Request ID: 7f0c2f8e)
`},
		{[]string{"enable", "nope"}, `==> Error: unable to generate plan for 'nope'

    request returned 404 status code with error: a task with name 'nope' does not exist or has not been initialized yet
`},
		{[]string{"disable", "nope"}, `==> Error: unable to disable 'nope'

    request returned 404 status code with error: a task with name 'nope' does not exist or has not been initialized yet
`},
		{[]string{"delete", "-auto-approve", "nope"}, `==> Error: unable to delete 'nope'

    404 Not Found: a task with name 'nope' does not exist or has not been initialized yet
`},
	} {
		r := s.task(t, ctsName, "", test.args...)
		wantCode(t, r, exitError)
		if diff := cmp.Diff(test.want, r.stderr); diff != "" {
			t.Errorf("task %v says (-want +got):\n%s", test.args, diff)
		}
	}
}

func TestTaskDelete_WarnsOfATaskThatComesBack(t *testing.T) {
	s := newStandIn(t)
	s.note = "dis is a task of tasks.hcl: it comes back when its block there is changed, so take it out there, too"
	r := s.task(t, ownName, "", "delete", "-auto-approve", "dis")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "    dis is a task of tasks.hcl: it comes back when")
}

func TestTask_HasTheExitCodesOfCTS(t *testing.T) {
	s := newStandIn(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"two.hcl":     newTask + strings.Replace(newTask, "newt", "other", 1),
		"twice.hcl":   newTask + newTask,
		"none-in.hcl": "port = 1\n",
		"old.hcl":     strings.Replace(newTask, "condition \"services\" {\n    names = [\"web\"]\n  }", "services = [\"web\"]", 1),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 1, "Usage: consul-terraform-sync task create|enable|disable|delete"},
		{[]string{"frobnicate"}, 1, "Usage: consul-terraform-sync task"},
		{[]string{"create"}, exitMissing, "==> Error: no task file provided\n\n    For additional help try 'consul-terraform-sync task create --help'\n"},
		{[]string{"enable"}, exitMissing, "==> Error: name one task\n\n    For additional help try 'consul-terraform-sync task enable --help'\n"},
		{[]string{"disable", "a", "b"}, exitMissing, "name one task"},
		{[]string{"delete", ""}, exitMissing, "name one task"},
		{[]string{"disable", "-bogus", "a"}, exitFlags, "-bogus"},
		{[]string{"create", "-task-file", "two.hcl", "extra"}, exitError, "Warning: arguments after the flags are ignored: [\"extra\"]"},
		{[]string{"create", "-task-file", "two.hcl"}, exitError, "task file 'two.hcl' cannot contain more than 1 task, contains 2 tasks"},
		{[]string{"create", "-task-file", "twice.hcl"}, exitError, "task file 'twice.hcl' cannot contain more than 1 task, contains 2 tasks\n"},
		{[]string{"create", "-task-file", "none-in.hcl"}, exitError, "task file 'none-in.hcl' contains no task"},
		{[]string{"create", "-task-file", "old.hcl"}, exitError, "old.hcl:5: the 'services' field in the task block is no longer supported"},
		{[]string{"create", "-task-file", "none.hcl"}, exitError, "-task-file: stat none.hcl: no such file"},
		{[]string{"create", "-task-file", taskFile(t, "empty.txt", "")}, exitError, "with -task-file"},
		{[]string{"disable", "-http-addr", "ftp://x", "a"}, exitError, "only http and https"},
		{[]string{"disable", "-port", "70000", "a"}, exitError, "not a valid port"},
	} {
		r := s.task(t, ctsName, "", test.args...)
		if r.code != test.code || !strings.Contains(r.stderr, test.want) || r.stdout != "" {
			t.Errorf("task %v ends with %d, want %d and %q:\n%s%s", test.args, r.code, test.code, test.want, r.stdout, r.stderr)
		}
	}
	r := s.task(t, ownName, "", "create", "-task-file", "two.hcl", "extra")
	wantCode(t, r, exitFlags)
	wantText(t, r.stderr, "takes no arguments")
	if len(s.asked) > 0 {
		t.Errorf("the API was asked for %q", s.asked)
	}
}

func TestAPIFlags_AddressAndTLS(t *testing.T) {
	s := newStandIn(t)
	secure := httptest.NewTLSServer(s)
	defer secure.Close()
	port := s.URL[strings.LastIndex(s.URL, ":")+1:]
	for _, test := range []struct {
		env  map[string]string
		args []string
		code int
	}{
		{map[string]string{"CTS_ADDRESS": "http://127.0.0.1:1"}, nil, exitError},
		{map[string]string{"CTS_ADDRESS": "http://127.0.0.1:1"}, []string{"-http-addr", s.URL}, exitOK},
		{map[string]string{"CTS_ADDRESS": "http://127.0.0.1:1"}, []string{"-port", port}, exitOK},
		{nil, []string{"-http-addr", s.URL, "-port", "1"}, exitOK},
		{nil, []string{"-http-addr", secure.URL}, exitError},
		{nil, []string{"-http-addr", secure.URL, "-ssl-verify=false"}, exitOK},
		{map[string]string{"CTS_SSL_VERIFY": "false"}, []string{"-http-addr", secure.URL}, exitOK},
		{map[string]string{"CTS_SSL_VERIFY": "false"}, []string{"-http-addr", secure.URL, "-ssl-verify"}, exitError},
		{map[string]string{"CTS_SSL_VERIFY": "maybe"}, []string{"-http-addr", s.URL}, exitError},
	} {
		t.Run(fmt.Sprint(test.env, test.args), func(t *testing.T) {
			for k, v := range test.env {
				t.Setenv(k, v)
			}
			wantCode(t, (&site{t: t}).bare("task", append([]string{"disable", "dis"}, test.args...)...), test.code)
		})
	}
}

// A run that waits for an approval is under way: nothing went wrong.
func TestTask_RunThatWaitsIsNoError(t *testing.T) {
	s := newStandIn(t)
	const why = "the run of task 'newt' waits for an approval: every plan needs one: when it has succeeded, the change is kept, and otherwise the task is not kept"
	for _, asked := range []string{"POST /v1/tasks?run=now", "PATCH /v1/tasks/dis?run=now"} {
		s.answers[asked] = `409 {"error":{"message":"` + why + `"},"request_id":"7f0c2f8e"}`
	}
	file := taskFile(t, "task.hcl", newTask)
	for _, args := range [][]string{{"create", "-auto-approve", "-task-file", file}, {"enable", "-auto-approve", "dis"}} {
		r := s.task(t, ownName, "", args...)
		wantCode(t, r, exitWaits)
		wantText(t, r.stdout, "is requested, and waits", why)
		if r.stderr != "" {
			t.Errorf("%v: standard error has %q", args, r.stderr)
		}
		r = s.task(t, ownName, "", append([]string{args[0], "-json"}, args[1:]...)...)
		wantCode(t, r, exitWaits)
		wantText(t, r.stdout, `"waits": "the run of task 'newt' waits for an approval`)
	}
}
