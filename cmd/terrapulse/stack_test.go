package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
)

// Every command that works with a running instance works with a stack in AWS.
func TestStack_IsNamedInTheSameWayForEveryCommand(t *testing.T) {
	d := newFakeStack(t, func(req invoke.Request) (invoke.Answer, error) { return invoke.Answer{Mode: req.Mode}, nil })
	for _, c := range (&app{}).commands() {
		command := c.flags.Name()
		if c.flags.Lookup("http-addr") == nil || command == "start" || command == "migrate check" || command == "ui" {
			continue
		}
		if c.flags.Lookup("stack") == nil {
			t.Errorf("%s has no -stack", command)
			continue
		}
		if command == "login" || command == "logout" { // requests to a stack are signed with AWS credentials
			if code, _, errs := d.command(command, "-stack=prod"); code != exitMissing || !strings.Contains(errs, "has no sign-in") {
				t.Errorf("%s: %d %s", command, code, errs)
			}
			continue
		}
		t.Run(command, func(t *testing.T) {
			api := newStandIn(t)
			d.api.Store(api.URL)
			args := append(strings.Fields(command), "-stack=prod")
			switch {
			case command == "task create":
				args = append(args, "-auto-approve", "-task-file="+taskFile(t, "new.hcl", newTask))
			case command == "support-bundle":
				args = append(args, "-o="+filepath.Join(t.TempDir(), "report.zip"))
			case command == "reject":
				args = append(args, "-comment=no", "lb")
			case command == "inspect":
				args = append(args, "-without=node=n7")
			case c.args != nil:
				args = append(args, "lb")
			}
			if c.flags.Lookup("auto-approve") != nil {
				args = slices.Insert(args, 2, "-auto-approve")
			}
			if _, out, errs := d.command(args...); len(api.asked) == 0 {
				t.Errorf("%q sent no request to the API of the stack:\n%s%s", args, out, errs)
			}
			args[slices.Index(args, "-stack=prod")] = "-stack=nope"
			if code, _, errs := d.command(args...); code != exitConfig || !strings.Contains(errs, "find stack nope in eu-west-1") {
				t.Errorf("%q: %d %s", args, code, errs)
			}
		})
	}
}

// With Api=none the command serves the API itself, on the table and the bucket.
func TestStack_WithoutAFunctionURLWorksTheSame(t *testing.T) {
	d := newBundleStack(t, func(req invoke.Request) (invoke.Answer, error) { return invoke.Answer{Mode: req.Mode}, nil })
	d.runs(exitOK, "status -stack=prod", "No task has been decided on yet.")
	d.runs(exitOK, "bundle push -config-dir=tasks "+bundleURL)
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"hold -stack=prod -comment=freeze lb", exitOK, "on hold"},
		{"status -stack=prod", exitOK, "why: on hold by " + userAtHost()},
		{"events -stack=prod", exitOK, "EVENT"},
		{"release -stack=prod lb", exitOK, "lb"},
		{"task disable -stack=prod far", exitOK, "far"},
		{"status -stack=prod", exitOK, "far: disabled"},
		{"run -stack=prod -wait=false lb", exitOK, "A run of task lb is requested."},
		{"runs -stack=prod lb", exitOK, "OUTCOME"},
		{"logs -stack=prod lb", exitError, "task lb has no run that has begun"},
		{"plan show -stack=prod lb", exitError, "no plan"},
		{"run -stack=prod nope", exitError, "nope"},
	} {
		d.runs(test.code, test.args, test.says)
	}
	if last := d.asked[len(d.asked)-1]; last.Mode != invoke.Reconcile || !last.Ended {
		t.Errorf("a requested run started no tick: %+v", d.asked)
	}
}

func TestStack_ExcludesOtherPlaces(t *testing.T) {
	d := newFakeStack(t, nil)
	for args, says := range map[string]string{
		"status -stack=prod -store=sqlite:x":             "leave out -store",
		"status -stack=prod -http-addr=http://localhost": "leave out -http-addr",
		"runs -stack=prod -token=x lb":                   "leave out -token",
		"approve -stack=prod -config-file=x lb":          "leave out -config-file",
		"run -stack=prod -port=8558 lb":                  "leave out -port",
		"ui -stack=prod -ca-cert=x":                      "leave out -ca-cert",
		"hold -http-addr=http://localhost -store=x lb":   "leave out -store, -config-file and -config-dir",
	} {
		if code, _, errs := d.command(strings.Fields(args)...); code != exitFlags || !strings.Contains(errs, says) {
			t.Errorf("%s: %d %s", args, code, errs)
		}
	}
	if code, _, errs := d.command("status", "-stack="); code != exitMissing || !strings.Contains(errs, "name the stack") {
		t.Errorf("-stack=: %d %s", code, errs)
	}
}

func TestStack_CompletesTheNamesOfItsTasks(t *testing.T) {
	d := newFakeStack(t, nil)
	api := newStandIn(t)
	api.answers["GET /v1/tasks?limit=1000&name=w%2A"] = `200 {"request_id":"1","tasks":[{"name":"web"}]}`
	d.api.Store(api.URL)
	for _, command := range []string{"run", "logs", "approve"} {
		line := "terrapulse " + command + " -stack=prod w"
		if got := completions(t, "", nil, line); !slices.Equal(got, []string{"web"}) {
			t.Errorf("after %q a shell shows %q", line, got)
		}
	}
}
