package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const bundleURL = "s3://files/some/prefix"

// newBundleStack is a stack with a bucket, and a folder with task files to be in.
func newBundleStack(t *testing.T, answer func(invoke.Request) (invoke.Answer, error)) *fakeStack {
	t.Helper()
	d := newFakeStack(t, answer)
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	bucket := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(bucket.Close)
	t.Setenv("AWS_ENDPOINT_URL_S3", bucket.URL)
	t.Chdir(t.TempDir())
	put(t, "tasks/tasks.yaml", bundleTasks)
	put(t, "lb/main.tf", `variable "services" {}`)
	return d
}

const bundleTasks = `
task:
  - name: lb
    module: ./lb
    condition: {services: {names: [web]}}
  - name: far
    module: example/far/aws
    condition: {schedule: {cron: "@hourly"}}
`

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runs runs the program, which must end like this and say all of that.
func (d *fakeStack) runs(code int, args string, says ...string) string {
	d.t.Helper()
	got, out, errs := d.command(strings.Fields(args)...)
	if got != code {
		d.t.Errorf("%s: exit code %d, want %d\n%s%s", args, got, code, out, errs)
	}
	for _, s := range says {
		if !strings.Contains(out+errs, s) {
			d.t.Errorf("%s does not say %q:\n%s%s", args, s, out, errs)
		}
	}
	return out
}

func TestTaskFilesAreComparedPushedAndPulled(t *testing.T) {
	d := newBundleStack(t, nil)
	const files = " -config-dir=tasks " + bundleURL
	d.runs(exitOK, "bundle diff"+files, "Nothing was pushed yet.", "lb    new     yes", "Of 2 tasks, 2 will run and 0 are removed.")
	d.runs(exitChanges, "bundle diff -detailed-exitcode"+files)
	d.runs(exitError, "bundle pull "+bundleURL+" x", "nothing was pushed to "+bundleURL)

	d.runs(exitOK, "bundle push"+files, "(2 tasks, 1 KB) is pushed to s3://files/some/prefix: it is in force from the next tick on.")
	d.runs(exitOK, "bundle push "+bundleURL+" -config-dir tasks", "is in force already")
	d.runs(exitOK, "bundle diff -detailed-exitcode"+files, "The files are the same.")

	put(t, "lb/main.tf", `variable "services" {} # new`)
	put(t, "tasks/tasks.yaml", strings.Replace(bundleTasks, "name: far", "name: further", 1))
	d.runs(exitChanges, "bundle diff -detailed-exitcode"+files,
		"lb       changed  yes   files of the module", "further  new      yes", "far      removed  no    its infrastructure and state are kept")
	var got bundleDiff
	if err := json.Unmarshal([]byte(d.runs(exitOK, "bundle diff -json"+files)), &got); err != nil || len(got.Changes) != 3 || got.InForce == got.Files {
		t.Errorf("in JSON it is %+v, %v", got, err)
	}
	put(t, "tasks/more.yaml", "log_level: WARN\n")
	put(t, "tasks/tasks.yaml", bundleTasks)
	put(t, "lb/main.tf", `variable "services" {}`)
	d.runs(exitChanges, "bundle diff -detailed-exitcode"+files, "The files differ, but no task does.")

	d.runs(exitOK, "bundle pull "+bundleURL+" pulled", "is unpacked", "-config-file="+filepath.Join("tasks", "tasks.yaml"))
	t.Chdir("pulled")
	d.runs(exitOK, "bundle diff -detailed-exitcode -config-file=tasks/tasks.yaml "+bundleURL, "The files are the same.")
	d.runs(exitError, "bundle pull "+bundleURL+" .", "is not empty")
}

func TestAPushToAStackIsInForceAtOnce(t *testing.T) {
	digest := ""
	d := newBundleStack(t, func(req invoke.Request) (invoke.Answer, error) {
		if !req.Refresh || req.Mode != invoke.Reconcile {
			t.Errorf("the function was asked %+v", req)
		}
		switch digest {
		case "":
			return invoke.Answer{}, errors.New("no")
		case "other":
			return invoke.Answer{Mode: req.Mode, Bundle: "0123456789abcdef", Problem: "the configuration in the bundle is wrong"}, nil
		}
		return invoke.Answer{Mode: req.Mode, Bundle: digest, Runs: []invoke.Run{{Task: "lb", Run: "r1"}}}, nil
	})
	const push = "bundle push -stack=prod -config-dir=tasks"
	d.runs(exitError, push, "the bundle is pushed, and the next tick will read it", "no")
	var diff bundleDiff
	if err := json.Unmarshal([]byte(d.runs(exitOK, "bundle diff -json -stack=prod -config-dir=tasks")), &diff); err != nil {
		t.Fatal(err)
	}
	digest = diff.InForce
	d.runs(exitOK, push, "is in force already", "lb: run r1 was requested")
	digest = "other"
	d.runs(exitError, push, "0123456789ab is still in force", "the configuration in the bundle is wrong")
	d.runs(exitOK, "bundle pull -stack=prod pulled", "is unpacked")
	if len(d.asked) != 3 {
		t.Errorf("the function was asked %d times", len(d.asked))
	}
}

func TestBundlePush_WarnsOfProvidersWithoutABuildAndOfAPausedStack(t *testing.T) {
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/terraform.json" {
			fmt.Fprint(w, `{"providers.v1": "/v1/providers/"}`)
			return
		}
		fmt.Fprint(w, `{"versions": [{"version": "1.0.0", "platforms": [{"os": "linux", "arch": "amd64"}]}]}`)
	}))
	defer registry.Close()
	before := http.DefaultClient
	http.DefaultClient = registry.Client()
	defer func() { http.DefaultClient = before }()
	d := newBundleStack(t, func(req invoke.Request) (invoke.Answer, error) {
		return invoke.Answer{Mode: req.Mode, Skipped: "another tick leads", Paused: &state.Paused{By: "ann", Reason: "maintenance"}}, nil
	})
	put(t, "lb/main.tf", fmt.Sprintf("variable \"services\" {}\nterraform {\n  required_providers {\n    firewall = { source = %q }\n  }\n}\n", strings.TrimPrefix(registry.URL, "https://")+"/own/firewall"))
	d.runs(exitOK, "bundle push -stack=prod -config-dir=tasks", "own/firewall 1.0.0, which Terraform installs, has no build for linux_arm64", "is pushed",
		"paused by ann", "maintenance", "terrapulse resume -stack=prod", "invoke -stack=prod -inspect -wait")
	d.runs(exitOK, "bundle push -stack=prod -config-dir=tasks -json", `"warnings": [`, "has no build for linux_arm64")
	d.runs(exitError, "doctor -stack=prod -quick", "providers: ", "own/firewall 1.0.0, which Terraform installs, has no build for linux_arm64", "To fix it: deploy with the other value of Architecture")
}

func TestWhatIsWrongIsNotPushed(t *testing.T) {
	const aTask = "task: [{name: lb, module: ./lb, condition: {services: {names: [web]}}}]\n"
	tests := []struct {
		name  string
		files map[string]string
		code  int
		says  []string
	}{
		{"task files", map[string]string{"tasks/tasks.yaml": "tasks: []"}, exitConfig, []string{`tasks.yaml:1: tasks: invalid key "tasks"`}},
		{"a module that lacks what it is given", map[string]string{"lb/main.tf": ""}, exitConfig, []string{"services"}},
		{"a module that is not there", map[string]string{"tasks/tasks.yaml": strings.ReplaceAll(aTask, "./lb", "./gone")}, exitConfig, []string{"gone"}},
		{"a secret", map[string]string{"tasks/tasks.yaml": aTask + "consul:\n  token: S3CRET\n"}, exitConfig,
			[]string{"tasks.yaml:3: consul.token: looks like a secret in plain text", "consul_token", "-allow-literal-secrets"}},
		{"certificates of this machine, and state on a container", map[string]string{"tasks/tasks.yaml": aTask + "consul:\n  tls: {ca_cert: /etc/ca.pem}\ndriver: {terraform: {backend: {local: {}}}}\n"}, exitConfig,
			[]string{"tasks.yaml:3: consul.tls.ca_cert", "consul_ca_cert", "backend.local: the state would be on the disk of a container"}},
		{"an absolute path", map[string]string{"tasks/tasks.yaml": strings.ReplaceAll(aTask, "./lb", "DIR/lb")}, exitConfig, []string{"tasks.yaml:1", "is an absolute path"}},
		{"a file that is not there in AWS", map[string]string{"token": "x", "tasks/tasks.yaml": aTask + "vault: {address: \"http://x\", vault_agent_token_file: token}\n"}, exitConfig,
			[]string{"tasks.yaml:2: vault.vault_agent_token_file", "vault_token"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newBundleStack(t, nil)
			here, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			for name, content := range tt.files {
				put(t, name, strings.ReplaceAll(content, "DIR", here))
			}
			d.runs(tt.code, "bundle push -config-dir=tasks "+bundleURL, tt.says...)
			d.runs(exitError, "bundle pull "+bundleURL+" x", "nothing was pushed")
		})
	}

	d := newBundleStack(t, nil)
	put(t, "tasks/secret.yaml", "consul: {token: x}\n")
	d.runs(exitOK, "bundle push -allow-literal-secrets -config-dir=tasks "+bundleURL, "is pushed")
}

func TestABundlesPlaceHasToBeNamed(t *testing.T) {
	d := newBundleStack(t, nil)
	d.runs(exitMissing, "bundle push -config-dir=tasks", "s3://BUCKET/PREFIX, or -stack=NAME")
	d.runs(exitMissing, "bundle diff -config-dir=tasks", "-stack=NAME")
	d.runs(exitMissing, "bundle pull", "-stack=NAME DIR")
	d.runs(exitMissing, "bundle pull "+bundleURL, "-stack=NAME DIR")
	d.runs(exitMissing, "bundle push "+bundleURL, "-config-dir")
	d.runs(exitFlags, "bundle push -config-dir=tasks "+bundleURL+" tasks2", "takes one place")
	d.runs(exitConfig, "bundle push -config-dir=tasks files/prefix", "is not a valid S3 URL")
	d.runs(exitConfig, "bundle push -config-dir=tasks -stack=nope", "find stack nope")
	d.runs(exitError, "bundle push -config-dir=tasks s3://gone/x", "there is no bucket gone")
	for _, c := range []string{"push", "diff", "pull"} {
		d.runs(exitOK, "bundle "+c+" -help", "Usage: terrapulse bundle "+c)
	}
	d.runs(exitMissing, "bundle", "missing subcommand: terrapulse bundle push|diff|pull")
	d.runs(exitOK, "bundle -help", "Usage: terrapulse bundle push|diff|pull")
}

// A plan uploads the files and puts nothing into force. It plans what a push would run.
func TestBundlePlan_PlansWhatAPushWouldRun(t *testing.T) {
	var d *fakeStack
	runs := 0
	d = newBundleStack(t, func(req invoke.Request) (invoke.Answer, error) {
		answer := invoke.Answer{Mode: req.Mode}
		for _, task := range req.Tasks {
			runs++
			id := fmt.Sprint("r", runs)
			if err := state.SaveLog(t.Context(), d.store, task, id, []byte("Plan: 1 to add\n"), time.Time{}); err != nil {
				return answer, err
			}
			answer.Runs = append(answer.Runs, d.run(task, id, state.Run{Kind: state.KindPlan, State: state.RunSucceeded}))
		}
		return answer, nil
	})
	const files = " -stack=prod -config-dir=tasks"
	d.runs(exitOK, "bundle diff -plan"+files, "Nothing was pushed yet.", "Of 2 tasks, 2 will run", "### Task lb\nPlan: 1 to add", "### Task far\n")
	if len(d.asked) != 1 || d.asked[0].Mode != invoke.Inspect || len(d.asked[0].Bundle) != 64 || len(d.asked[0].Tasks) != 2 {
		t.Errorf("the function was asked %+v", d.asked)
	}
	d.runs(exitOK, "bundle diff"+files, "Nothing was pushed yet.")

	d.runs(exitOK, "bundle push -config-dir=tasks "+bundleURL)
	d.runs(exitOK, "bundle diff -plan"+files, "The files are the same.", "there is nothing to plan")
	put(t, "lb/main.tf", `variable "services" {} # new`)
	if out := d.runs(exitOK, "bundle diff -plan -json"+files, `"lb"`); strings.Contains(out, `"far"`) {
		t.Errorf("a task that a push would not run is planned:\n%s", out)
	}
	put(t, "tasks/tasks.yaml", bundleTasks+"vault:\n  token: s.0123456789abcdefghijklmn\n")
	d.runs(exitConfig, "bundle diff -plan"+files, "token")
	d.runs(exitMissing, "bundle diff -plan -config-dir=tasks", "-stack=NAME")
}
