package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/process/support"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// planted are secrets in the places where secrets may be.
var planted = map[string]string{
	"environment": "6f1c22a9-1d5c-4c2e-8f43-0a9b5f3d0f11",
	"variable":    "planted-in-a-variable",
	"output":      "planted-in-an-output",
	"log":         "planted-in-a-log",
	"error":       "planted-in-an-error",
	"URL":         "planted-in-a-url",
	"header":      "planted-in-a-header",
}

// files returns the files of an archive, by their names without the folder.
func files(t *testing.T, name string) map[string]string {
	t.Helper()
	archive, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	all := map[string]string{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, rel, _ := strings.Cut(f.Name, "/")
		all[rel] = string(text)
	}
	return all
}

func TestSupportBundle_HasWhatAReportNeedsWithoutSecrets(t *testing.T) {
	d := newBundleStack(t, func(req invoke.Request) (invoke.Answer, error) {
		return invoke.Answer{Mode: req.Mode, Checks: []invoke.Check{{Name: "consul", Found: "https://ann:" + planted["URL"] + "@consul.example.com: refused"}}}, nil
	})
	t.Setenv("CONSUL_HTTP_TOKEN", planted["environment"])
	d.aws.noLog = "/settle"
	d.log = fmt.Sprintf(`{"level":"ERROR","msg":"x","error":"token %s","client_secret":%q}`, planted["environment"], planted["log"])
	put(t, "tasks/tasks.yaml", bundleTasks+"    variables: {region: '\""+planted["variable"]+"\"'}\n    verify: {vip: {http: {url: 'https://10.0.0.1', headers: {X-Auth: "+planted["header"]+"}}}}\n")
	d.runs(exitOK, "bundle push -config-dir=tasks "+bundleURL)
	run := state.Run{ID: "r1", Task: "lb", Kind: state.KindApply, State: state.RunFailed, Created: time.Now(), Times: state.Times{Ended: time.Now()}, Work: state.Work{Error: "db_password=" + planted["error"] + " is wrong"}}
	task, _ := state.Task{}.Conclude(run, "")
	if err := state.SaveLog(t.Context(), d.store, "lb", "r1", []byte("+ password = \""+planted["output"]+"\"\nError: it failed\n"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Apply(t.Context(), state.Create(state.RunKey("lb", "r1"), state.Encode(run)), state.Create(state.TaskKey("lb"), state.Encode(task))); err != nil {
		t.Fatal(err)
	}

	var report supportReport
	if err := json.Unmarshal([]byte(d.runs(exitOK, "support-bundle -stack=prod -json")), &report); err != nil {
		t.Fatal(err)
	}
	found := files(t, report.File)
	for name, text := range found {
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
			t.Errorf("%s is not JSON any more:\n%s", name, text)
		}
		for where, secret := range planted {
			if strings.Contains(text, secret) {
				t.Errorf("%s has the secret of the %s:\n%s", name, where, text)
			}
		}
	}
	for name, says := range map[string]string{
		"version.json": "go_version", "status.json": "failing", "events.json": "[", "tasks.json": `"region": "\"(sensitive value)\""`, "stack.json": "prod-reconcile", "doctor.json": "consul",
		"runs/lb.json": "db_password=(removed)", "runs/far.json": "[]", "output/lb.txt": "Error: it failed",
		"logs/reconcile.jsonl": "/terrapulse/prod/1/reconcilepage2: {", "logs/runner-problems.jsonl": `"msg":"x"`,
	} {
		if !strings.Contains(found[name], says) {
			t.Errorf("%s does not have %q:\n%s", name, says, found[name])
		}
	}
	// Everything is listed, also what is missing.
	for _, f := range report.Files {
		if _, ok := found[f.Name]; ok == (f.Problem != "") || !strings.Contains(found[support.Contents], f.Name+" (") {
			t.Errorf("%+v is in the archive: %t; the list is\n%s", f, ok, found[support.Contents])
		}
	}
	settle := slices.IndexFunc(report.Files, func(f support.File) bool { return f.Name == "logs/settle.jsonl" })
	if settle < 0 || !strings.Contains(report.Files[settle].Problem, "refused by the test") {
		t.Errorf("a log that cannot be read is not listed: %+v", report.Files)
	}

	d.runs(exitError, "support-bundle -stack=prod -o "+report.File, "create the archive")
}

func TestSupportBundle_OfAStore(t *testing.T) {
	d := newFakeStack(t, nil)
	name := filepath.Join(t.TempDir(), "report.zip")
	d.runs(exitOK, "support-bundle -store=sqlite:"+d.path+" -o "+name, "status.json", path.Base(name)+" is written")
	if found := files(t, name); found["status.json"] == "" || found["stack.json"] != "" {
		t.Errorf("the archive has %v", found)
	}
}
