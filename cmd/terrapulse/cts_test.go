package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cts returns the program by the name of Consul-Terraform-Sync.
func cts(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), ctsName)
	if err := os.Symlink(os.Args[0], path); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	return path
}

// program runs the program to its end, as people do: in the site's folder and without the store of
// the site. The site is of a parallel test.
func (s *site) program(args ...string) result {
	s.t.Helper()
	return s.programBy(os.Args[0], "", args...)
}

// programBy is program with a binary and with an input.
func (s *site) programBy(path, stdin string, args ...string) result {
	s.t.Helper()
	return programIn(s.t, s.dir, s.env, path, stdin, args...)
}

// program runs a binary of the program to its end.
func program(t testing.TB, path, stdin string, args ...string) result {
	t.Helper()
	return programIn(t, "", nil, path, stdin, args...)
}

// programIn is program in a folder, with more variables of its environment.
func programIn(t testing.TB, dir string, env []string, path, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "TERRAPULSE_TEST_AS_PROGRAM=1"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestByItsOtherNameTheProgramAnswersAsThat(t *testing.T) {
	t.Parallel()
	path := cts(t)
	for _, test := range []struct {
		args           []string
		code           int
		stdout, stderr string // regular expressions
	}{
		{[]string{"-version"}, 0, `^consul-terraform-sync 0\.9\.0 \(terrapulse dev\)\nCompatible with Terraform >= 0\.13\.0, <= 1\.14\.3\n$`, `^$`},
		{[]string{"--version"}, 0, `^consul-terraform-sync 0\.9\.0`, `^$`},
		{[]string{"-v"}, 0, `^consul-terraform-sync 0\.9\.0`, `^$`},
		{[]string{"-h"}, 0, `^Usage CLI: consul-terraform-sync <command> \[-help\] \[options\]\n\nCommands:\n(.|\n)*\n    task +`, `^$`},
		{[]string{"start", "-h"}, 0, `Usage: consul-terraform-sync start`, `^$`},
		{[]string{"help"}, 0, `^Usage CLI: consul-terraform-sync <command> \[-help\] \[options\]\n`, `^$`},
		{[]string{"task", "create", "-h"}, 0, `^Usage: consul-terraform-sync task create \[-help\] \[options\] -task-file=<task config>\n(.|\n)*-auto-approve \[Default: false\]\n`, `^$`},
		{[]string{"task", "create", "-help"}, 0, `^Usage: consul-terraform-sync task create \[-help\] \[options\] -task-file=<task config>\n`, `^$`},
		{[]string{"task", "enable", "-help"}, 0, `^Usage: consul-terraform-sync task enable \[-help\] \[options\] <task name>\n(.|\n)*-auto-approve \[Default: false\]\n(.|\n)*Examples:\n  consul-terraform-sync task enable load-balancer\n`, `^$`},
		{[]string{"task", "disable", "-help"}, 0, `^Usage: consul-terraform-sync task disable \[-help\] \[options\] <task name>\n`, `^$`},
		{[]string{"task", "delete", "-help"}, 0, `^Usage: consul-terraform-sync task delete \[-help\] \[options\] <task name>\n(.|\n)*-auto-approve \[Default: false\]\n`, `^$`},
		{[]string{"task"}, 1, `^$`, `Usage: consul-terraform-sync task`},
		{[]string{"frobnicate"}, 127, `^$`, `Usage CLI: consul-terraform-sync <command>`},
		{[]string{"start"}, 13, `^$`, `-config-file`},
		{[]string{"start", "-bogus"}, 14, `^$`, "see `consul-terraform-sync start -help`"},
		{[]string{"start", "-client-type", "other", "-config-file", "x.hcl"}, 14, `^$`, `-client-type other`},
		{[]string{"-once", "-config-file", "/none.hcl"}, 15, `^$`, `^==> Warning: .*deprecated(.|\n)*use 'consul-terraform-sync start'(.|\n)*/none\.hcl`},
		{[]string{"start", "-once", "-config-file", "/none.hcl"}, 15, `^$`, `^Error: `},
		{[]string{"start", "-deprecated-start-up", "-once", "-config-file", "/none.hcl"}, 15, `^$`, `^==> Warning: `},
	} {
		r := program(t, path, "", test.args...)
		if r.code != test.code || !regexp.MustCompile(test.stdout).MatchString(r.stdout) || !regexp.MustCompile(test.stderr).MatchString(r.stderr) {
			t.Errorf("%s %v ends with %d, want %d\nstdout: %s\nstderr: %s", ctsName, test.args, r.code, test.code, r.stdout, r.stderr)
		}
	}
	if r := program(t, os.Args[0], "", "-version"); r.stdout != "terrapulse dev\n" {
		t.Errorf("by its own name its version is %q", r.stdout)
	}
	if r := program(t, os.Args[0], "", "-once", "-config-file", "/none.hcl"); strings.Contains(r.stderr, "deprecated") {
		t.Errorf("by its own name it warns: %s", r.stderr)
	}
	if r := program(t, path, "", "start", "-h"); strings.Contains(r.stdout, "client-type") || strings.Contains(r.stdout, "deprecated-start-up") {
		t.Errorf("the help shows flags that only scripts should use:\n%s", r.stdout)
	}
}

func TestOnceIsLoggedAsScriptsOfCTSLookForIt(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	path := cts(t)
	store := "sqlite:" + s.path("state.db")

	r := s.programBy(path, "", "start", "-store", store, "-once", "-config-file", file)
	wantCode(t, r, exitOK)
	const stamp = `(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d{4}) `
	for _, line := range []string{`task completed: task_name=lb$`, `all tasks completed once$`, `graceful shutdown$`} {
		if n := len(regexp.MustCompile(stamp+`\[INFO\]  ctrl: `+line).FindAllString(r.stderr, -1)); n != 1 {
			t.Errorf("%q is logged %d times:\n%s", line, n, r.stderr)
		}
	}

	s.register("web", "web-2", 8081, "passing")
	s.write("mod/more.tf", "resource \"terraform_data\" \"more\" {}\n")
	r = s.programBy(path, "", "start", "-store", store, "-inspect", "-config-file", s.config(s.task("lb", onWeb)+s.task("off", "enabled = false\n"+onWeb)))
	wantCode(t, r, exitOK)
	if r.stdout != "" {
		t.Errorf("an inspection is printed, too:\n%s", r.stdout)
	}
	for _, line := range []string{
		`\[INFO\]  ctrl: inspection results: task_name=lb\n  plan=\n(  \| .*\n)*  \| (Terraform|OpenTofu) will perform the following actions`,
		`\[INFO\]  ctrl: inspection results: task_name=off plan="Task is disabled, inspection was skipped\."$`,
		`\[INFO\]  ctrl: graceful shutdown\n$`} {
		if !regexp.MustCompile(stamp + line).MatchString(r.stderr) {
			t.Errorf("%q is not logged:\n%s", line, r.stderr)
		}
	}
	wantText(t, r.stderr, "Plan: 2 to add, 0 to change, 1 to destroy.\n")

	bad := s.config("task {\n name = \"broken\"\n module = \"" + s.path("nowhere") + "\"\n " + onWeb + "\n}\n")
	r = s.programBy(path, "", "start", "-store", store, "-once", "-config-file", bad)
	wantCode(t, r, exitError)
	if strings.Contains(r.stderr, "completed") {
		t.Errorf("a failed task is said to be completed:\n%s", r.stderr)
	}
}

func TestTheDaemonLogsAsScriptsOfCTSLookForIt(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	p := s.startProgram(cts(t), "-config-file", s.config(s.task("lb", onWeb)))
	eventually(t, "the task is completed", func() bool {
		return strings.Contains(p.stderr.String(), " [INFO]  ctrl: task completed: task_name=lb\n")
	})
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if !strings.HasSuffix(p.stderr.String(), " [INFO]  ctrl: graceful shutdown\n") {
		t.Errorf("its last line is not that of a graceful shutdown:\n%s", p.stderr)
	}
}

func TestDevelopmentWritesFilesAndRunsNoTerraform(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	t.Setenv("PATH", t.TempDir()) // without a Terraform
	r := s.run("start", "-client-type", "development", "-once", "-config-file", s.config(s.task("lb", onWeb)))
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "Task lb: its files are in "+s.path("work/lb"))
	wantText(t, s.read("work/lb/main.tf"), `module "lb"`)
	wantText(t, s.read("work/lb/terraform.tfvars"), "10.0.0.1")
	if _, err := os.Stat(s.path("state.db")); err == nil {
		t.Error("a store was made")
	}
}

func TestLogLinesHaveTheFormatOfCTS(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newCTSHandler(&out, slog.LevelInfo)).With("task", "web", "run", "r1")
	log.Debug("unheard")
	log.Info("run started")
	log.Info("run succeeded", "duration", 1500*time.Millisecond, "added", 1)
	log.Info("run succeeded", "kind", "plan")
	log.Warn("two\twords", "why", errors.New("a cause\nof two lines"), slog.Group("g", "k", "v"))
	log.WithGroup("g").Error("failed", "n", 3)
	slog.New(newCTSHandler(&out, slog.LevelDebug-4)).Log(t.Context(), slog.LevelDebug-4, "stopped")
	got := regexp.MustCompile(`(?m)^\d{4}-\S+ `).ReplaceAllString(out.String(), "")
	want := `[INFO]  ctrl: run started: task_name=web run=r1
[INFO]  ctrl: task completed: task_name=web
[INFO]  ctrl: run succeeded: task_name=web run=r1 kind=plan
[WARN]  ctrl: two	words: task_name=web run=r1
  why=
  | a cause
  | of two lines
   g.k=v
[ERROR] ctrl: failed: task_name=web run=r1 g.n=3
[TRACE] ctrl: graceful shutdown
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log is (-want +got):\n%s", diff)
	}
}

// completions asks the program in a folder, with more variables of its environment, what a shell
// would show after a line.
func completions(t testing.TB, dir string, env []string, line string) []string {
	t.Helper()
	env = append(slices.Clip(env), "COMP_LINE="+line, fmt.Sprint("COMP_POINT=", len(line)))
	r := programIn(t, dir, env, os.Args[0], "", ownName, line[strings.LastIndex(line, " ")+1:], "")
	wantCode(t, r, exitOK)
	return strings.Fields(r.stdout)
}
