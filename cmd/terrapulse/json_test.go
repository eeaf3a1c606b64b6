package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestJSON_OfOnceInspectAndValidate(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb) + s.task("off", "enabled = false\n"+onWeb))

	var inspected struct{ Tasks []inspectReport }
	r := s.run("inspect", "-json", "-detailed-exitcode", "-config-file", file)
	wantCode(t, r, exitChanges)
	r.code = exitOK
	decode(t, r, &inspected)
	if len(inspected.Tasks) != 2 {
		t.Fatalf("inspected: %+v", inspected)
	}
	if lb := inspected.Tasks[0]; lb.Name != "lb" || !lb.Enabled || !lb.ChangesPresent || lb.Changes.Add != 1 || !strings.Contains(lb.Plan, "local_file.out will be created") ||
		len(lb.Data.Resources) != 1 || lb.Data.Resources[0].Action != driver.Create {
		t.Errorf("inspected: %+v", lb)
	}
	if off := inspected.Tasks[1]; off.Enabled || off.ChangesPresent || off.Error != "" {
		t.Errorf("inspected: %+v", off)
	}

	var once onceReport
	decode(t, s.run("start", "-once", "-json", "-config-file", file), &once)
	if len(once.Tasks) != 2 || once.Tasks[0].Outcome != "succeeded" || once.Tasks[0].Run.Changes.Add != 1 || once.Tasks[1].Outcome != "disabled" ||
		once.Tasks[1].Run != nil || once.Seconds <= 0 {
		t.Errorf("once: %+v", once)
	}

	var valid struct {
		Valid            bool
		Errors, Warnings []string
	}
	decode(t, s.run("validate", "-json", "-config-file", file), &valid)
	if !valid.Valid || len(valid.Errors) > 0 {
		t.Errorf("valid: %+v", valid)
	}
	r = s.run("validate", "-json", "-config-file", s.config(s.task("lb", "nonsense = 1\n"+onWeb)))
	wantCode(t, r, exitConfig)
	r.code = exitOK
	decode(t, r, &valid)
	if valid.Valid || len(valid.Errors) != 1 || !strings.Contains(valid.Errors[0], "tasks.hcl:21: ") || r.stderr != "" {
		t.Errorf("not valid: %+v %s", valid, r.stderr)
	}
	wantCode(t, s.run("start", "-json", "-config-file", file), exitFlags)
}

// withoutJSON are the commands that take no -json, and why.
var withoutJSON = map[string]string{
	"task":    "a group: it prints its help alone",
	"runner":  "it prints nothing but its log",
	"bundle":  "a group: it prints its help alone",
	"migrate": "a group: it prints its help alone",
	"plan":    "a group: it prints its help alone",
	"notify":  "a group: it prints its help alone",
	"token":   "a group: it prints its help alone",
}

func TestJSON_EveryCommandTakesItAndItsShapeIsDocumented(t *testing.T) {
	section := commandPage(t, "commands-json.md")
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.+?`) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			name, _, _ = strings.Cut(strings.Trim(name, "`"), " -")
			documented[name] = true
		}
	}
	for _, c := range (&app{}).commands() {
		command, takes := c.flags.Name(), c.flags.Lookup("json") != nil
		why, exempt := withoutJSON[command]
		switch {
		case exempt && (takes || documented[command]):
			t.Errorf("%s takes -json or has a row in docs/reference/commands-json.md, though %s", command, why)
		case !exempt && !takes:
			t.Errorf("%s takes no -json", command)
		case !exempt && !documented[command]:
			t.Errorf("docs/reference/commands-json.md does not say what %s prints", command)
		}
		delete(documented, command)
	}
	for command := range documented {
		t.Errorf("docs/reference/commands-json.md describes %q, which is no command", command)
	}
}

// one fails unless a text is one value of JSON, and returns that without
// indentation.
func one(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatalf("it is not one value of JSON: %v:\n%s", err, text)
	}
	return b.String()
}

func TestJSON_OfCommandsThatChangeTasks(t *testing.T) {
	api := newStandIn(t)
	api.note = "it comes back"
	api.answers["POST /v1/tasks/gone/forget"] = "200 {}"
	file := taskFile(t, "newt.hcl", newTask)
	plan, err := json.Marshal(planText)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CTS_ADDRESS", api.URL)
	for _, test := range []struct {
		args string
		want string
	}{
		{"task create -auto-approve -task-file " + file, `{"task":"newt","changes_present":true,"plan":` + string(plan) + `}`},
		{"task enable -auto-approve dis", `{"task":"dis","changes_present":true,"plan":` + string(plan) + `}`},
		{"task disable dis", `{"task":"dis"}`},
		{"task delete -auto-approve dis", `{"task":"dis","note":"it comes back"}`},
		{"forget gone", `{"task":"gone"}`},
	} {
		for _, name := range []string{ownName, ctsName} {
			var stdout, stderr testtools.Output
			a := &app{ctx: t.Context(), program: name, stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
			if code := a.run(append(strings.Fields(test.args), "-json")); code != exitOK || stderr.String() != "" {
				t.Errorf("%s ends with %d and says %s", test.args, code, &stderr)
				continue
			}
			if got := one(t, stdout.String()); got != test.want {
				t.Errorf("%s prints\n%s, want\n%s", test.args, got, test.want)
			}
		}
	}
}

func TestJSON_NeedsApprovalBeforeAnythingIsRequested(t *testing.T) {
	api := newStandIn(t)
	for _, args := range [][]string{
		{"create", "-json", "-task-file", taskFile(t, "newt.hcl", newTask)}, {"enable", "-json", "dis"}, {"delete", "-json", "dis"},
	} {
		r := api.task(t, ownName, "yes\n", args...)
		wantCode(t, r, exitMissing)
		wantText(t, r.stderr, "-json cannot ask for approval", "-auto-approve")
		if r.stdout != "" {
			t.Errorf("task %v prints %s", args, r.stdout)
		}
	}
	if len(api.asked) > 0 {
		t.Errorf("requested: %q", api.asked)
	}
}

func TestJSON_OfACommandThatFailsIsEmpty(t *testing.T) {
	api := newStandIn(t)
	for _, args := range [][]string{{"enable", "-json", "-auto-approve", "nope"}, {"disable", "-json", "nope"}, {"delete", "-json", "-auto-approve", "nope"}} {
		r := api.task(t, ownName, "", args...)
		wantCode(t, r, exitError)
		wantText(t, r.stderr, "a task with name 'nope' does not")
		if r.stdout != "" {
			t.Errorf("task %v prints %s", args, r.stdout)
		}
	}
}

func TestJSON_OfVersion(t *testing.T) {
	s := &site{t: t}
	for _, args := range [][]string{{"version", "-json"}, {"-version", "-json"}} {
		var got versionReport
		decode(t, s.bare(args[0], args[1:]...), &got)
		if got.Version != buildinfo.Version || got.GoVersion != runtime.Version() {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestJSON_OfBundlePushAndPull(t *testing.T) {
	digest := "other"
	var paused *state.Paused
	d := newBundleStack(t, func(req invoke.Request) (invoke.Answer, error) {
		return invoke.Answer{Mode: req.Mode, Bundle: digest, Paused: paused, Runs: []invoke.Run{{Task: "lb", Run: "r1"}}}, nil
	})
	push := func(code int, args string) (got pushReport) {
		t.Helper()
		if err := json.Unmarshal([]byte(d.runs(code, "bundle push -json -config-dir=tasks "+args)), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := push(exitOK, bundleURL)
	if first.Location != bundleURL || len(first.Digest) != 64 || first.By == "" || first.Pushed.IsZero() || !first.Changed || first.Tasks != 2 || first.Warnings == nil || first.Answer != nil {
		t.Errorf("pushed: %+v", first)
	}
	// It is in force in the bucket, and the function has not read it.
	if got := push(exitError, "-stack=prod"); got.Changed || got.Digest != first.Digest || got.Answer == nil || got.Answer.Bundle != "other" {
		t.Errorf("pushed: %+v", got)
	}
	digest = first.Digest
	if got := push(exitOK, "-stack=prod"); len(got.Answer.Runs) != 1 {
		t.Errorf("pushed: %+v", got)
	}
	paused = &state.Paused{By: "ann"}
	if got := push(exitOK, "-stack=prod"); got.Answer == nil || got.Answer.Paused == nil || !strings.Contains(got.Note, "terrapulse resume -stack=prod") {
		t.Errorf("pushed: %+v", got)
	}

	var pulled pullReport
	if err := json.Unmarshal([]byte(d.runs(exitOK, "bundle pull -json "+bundleURL+" pulled")), &pulled); err != nil {
		t.Fatal(err)
	}
	if pulled.Digest != first.Digest || pulled.Location != bundleURL || pulled.By != first.By || !pulled.Pushed.Equal(first.Pushed) || len(pulled.Files) != 1 {
		t.Errorf("pulled: %+v", pulled)
	}
	if _, err := os.Stat(filepath.Join(pulled.Folder, pulled.Files[0])); err != nil {
		t.Error(err)
	}
}

func TestJSON_OfInvokeThatWaitsIsOneReport(t *testing.T) {
	var d *fakeStack
	d = newFakeStack(t, func(req invoke.Request) (invoke.Answer, error) {
		id, outcome := "r1", state.Run{Kind: state.KindApply, State: state.RunFailed, Work: state.Work{Error: "no such module"}}
		if req.Mode == invoke.Inspect {
			id, outcome = "r2", state.Run{State: state.RunSucceeded, Kind: state.KindPlan}
			if err := state.SaveLog(t.Context(), d.store, "web", id, []byte("Plan: 1 to add\n"), time.Time{}); err != nil {
				return invoke.Answer{}, err
			}
		}
		return invoke.Answer{Mode: req.Mode, Runs: []invoke.Run{d.run("web", id, outcome)}}, nil
	})
	for _, test := range []struct {
		mode    string
		code    int
		outcome string
		plan    string
	}{{"-once", exitError, "failed", ""}, {"-inspect", exitOK, "succeeded", "Plan: 1 to add"}} {
		code, out, errs := d.command("invoke", "-stack=prod", test.mode, "-wait", "-json")
		if code != test.code {
			t.Errorf("%s ends with %d: %s", test.mode, code, errs)
		}
		var got onceReport
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v:\n%s", test.mode, err, out)
		}
		if len(got.Tasks) != 1 || got.Tasks[0].Name != "web" || got.Tasks[0].Outcome != test.outcome || got.Tasks[0].Run == nil || got.Tasks[0].Plan != test.plan {
			t.Errorf("%s: %+v", test.mode, got)
		}
	}
}
