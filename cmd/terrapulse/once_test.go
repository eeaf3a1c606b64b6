package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestOnceAppliesWhatConsulSays(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))

	r := s.run("-once", "-config-file", file)
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "TASK", "lb", "succeeded")
	if got, want := s.read("lb.txt"), "web 10.0.0.1:8080 passing\n"; got != want {
		t.Fatalf("the module wrote %q, want %q", got, want)
	}
	if _, err := os.Stat(s.path("work/lb/terraform.tfstate.d/lb/terraform.tfstate")); err != nil {
		t.Errorf("the state is not where CTS keeps it: %v", err)
	}

	s.register("web", "web-2", 8081, "passing")
	wantCode(t, s.run("start", "-once", "-config-file", file), exitOK)
	if got := s.read("lb.txt"); !strings.Contains(got, "8081") {
		t.Errorf("the second run wrote %q, which lacks the new instance", got)
	}

	r = s.run("runs", "lb")
	wantCode(t, r, exitOK)
	if n := strings.Count(r.stdout, "succeeded"); n != 2 {
		t.Errorf("%d succeeded runs are listed, want 2:\n%s", n, r.stdout)
	}
	wantText(t, s.run("logs", "lb").stdout, "Apply complete!")
	wantText(t, s.run("status").stdout, "lb", "applied", "on change")
}

func TestInspectAndValidateChangeNothing(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	before := tree(t, s.dir)

	r := s.run("validate", "-config-file", file, "-consul")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "valid: 1 task.", s.consul.Addr())
	r = s.run("-inspect", "-config-file", file, "-detailed-exitcode")
	wantCode(t, r, exitChanges)
	wantText(t, r.stdout, "Task lb", "local_file.out", "will be created", "1 to add")
	if after := tree(t, s.dir); after != before {
		t.Errorf("inspecting left files behind:\n%s", after)
	}

	wantCode(t, s.run("-once", "-config-file", file), exitOK)
	before = tree(t, s.dir)
	r = s.run("inspect", "-config-file", file, "-detailed-exitcode", "lb")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "No changes")
	if after := tree(t, s.dir); after != before {
		t.Errorf("inspecting an applied task left files behind:\n%s", after)
	}

	r = s.run("-inspect-task", "nope", "-config-file", file)
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "task not found: nope")
}

// tree lists the files below a folder.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		b.WriteString(path + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestNothingIsRunWithoutAUsableTerraform(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	s.write("tasks.hcl", strings.Replace(s.read("tasks.hcl"), `driver "terraform" {`, fmt.Sprintf("driver \"terraform\" {\n  path = %q", s.path("bin")), 1))
	for program, text := range map[string]string{
		"echo '{\"terraform_version\": \"0.12.31\"}'": "unsupported Terraform version",
		"exit 1": "incompatible Terraform binary",
	} {
		s.write("bin/terraform", "#!/bin/sh\n"+program+"\n")
		for _, command := range []string{"start", "-once", "inspect"} {
			r := s.run(command, "-config-file", file)
			if r.code != exitTerraform {
				t.Errorf("%s: exit code %d, want %d", command, r.code, exitTerraform)
			}
			wantText(t, r.stderr, text, s.path("bin/terraform"), `path in the driver "terraform" block`)
		}
	}
	if _, err := os.Stat(s.path("work")); err == nil {
		t.Error("a run was begun")
	}
}

func TestExitCodesOfTheCommandLine(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	for _, tt := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"-version"}, exitOK, "terrapulse"},
		{[]string{"--version"}, exitOK, "terrapulse"},
		{[]string{"version"}, exitOK, "terrapulse " + buildinfo.Version + "\n"},
		{[]string{"-h"}, exitOK, "Usage"},
		{[]string{"help"}, exitOK, "Usage"},
		{[]string{"help", "start"}, exitOK, "-config-dir"},
		{[]string{"help", "bundle", "push"}, exitOK, "-allow-literal-secrets"},
		{[]string{"help", "bogus"}, exitUnknown, `unknown command "bogus": `},
		{[]string{"stauts", "-json"}, exitUnknown, "unknown command \"stauts\": did you mean `terrapulse status`?"},
		{[]string{"bundel", "push"}, exitUnknown, "did you mean `terrapulse bundle`?"},
		{[]string{"task", "enabel", "-http-addr=http://127.0.0.1:1", "lb"}, exitUnknown, "unknown command \"task enabel\": did you mean `terrapulse task enable -http-addr=http://127.0.0.1:1 lb`?"},
		{[]string{"plan", "lb"}, exitUnknown, "unknown command \"plan lb\": did you mean `terrapulse plan show lb`?"},
		{[]string{"plan"}, exitMissing, "missing subcommand: terrapulse plan show"},
		{[]string{"start", "-h"}, exitOK, "-config-dir"},
		{[]string{"status", "-help"}, exitOK, "-json"},
		{[]string{}, exitMissing, "-config-file"},
		{[]string{"-bogus"}, exitFlags, "-bogus"},
		{[]string{"nothing"}, exitUnknown, "unknown command \"nothing\": `terrapulse -help` lists the commands"},
		{[]string{"start", "more"}, exitFlags, "start takes no arguments"},
		{[]string{"status", "more"}, exitFlags, "status takes no arguments, got [\"more\"]: `terrapulse status -name=more` shows only this task, `terrapulse runs more` its runs"},
		{[]string{"validate", "-config-file", "a.hcl", "b.hcl"}, exitFlags, "b.hcl"},
		{[]string{"start", "-parallel", "0"}, exitFlags, "from 1 on"},
		{[]string{"runs", "lb", "dns"}, exitMissing, "TASK"},
		{[]string{"logs"}, exitMissing, "RUN"},
		{[]string{"-config-file", "nowhere.hcl"}, exitConfig, "nowhere.hcl"},
		{[]string{"status", "-store", "redis:x"}, exitConfig, "sqlite"},
		{[]string{"status", "-store", "file:x"}, exitConfig, "sqlite"},
		{[]string{"status", "-store", "sqlite:" + s.path("none.db")}, exitError, "none.db"},
	} {
		var stdout, stderr testtools.Output
		code := run(t.Context(), tt.args, &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String()+stderr.String(), tt.text) {
			t.Errorf("%q: exit code %d, want %d, with %q in:\n%s%s", tt.args, code, tt.code, tt.text, &stdout, &stderr)
		}
	}
}
