package main

import (
	"encoding/json"
	"log"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestTheLogInJSONIsAnObjectALineWithItsRunAndWithoutSecrets(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	secrets := []string{"secret-of-the-environment", "11111111-2222-3333-4444-555555555555"}
	file := s.config(s.task("lb", onWeb+"\n  providers = [\"local\"]") + `
terraform_provider "local" {
  task_env {
    SOME_PASSWORD = "` + secrets[0] + `"
  }
}
`)
	s.write("tasks.hcl", strings.NewReplacer(`backend "local" {}`, "backend \"local\" {}\n  log = true",
		"address = ", "token = \""+secrets[1]+"\"\n  address = ").Replace(s.read("tasks.hcl")))
	r := s.run("-once", "-log-level", "TRACE", "-log-format", "json", "-config-file", file)
	wantCode(t, r, exitOK)

	seen := map[string]int{}
	for line := range strings.Lines(r.stderr) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("not JSON: %s", line)
			continue
		}
		msg, _ := record["msg"].(string)
		seen[msg]++
		if slices.Contains([]string{"run decided", "run started", "terraform", "run succeeded"}, msg) {
			for _, key := range []string{"task", "run", "fence"} {
				if record[key] == nil {
					t.Errorf("no %s in %s", key, line)
				}
			}
			if begins := msg == "run decided"; begins != (record["launch"] != nil) {
				t.Errorf("only the line with which a run begins names its launch: %s", line)
			}
		}
		if took, ok := record["duration"]; ok && !strings.HasSuffix(took.(string), "s") {
			t.Errorf("a duration without its unit: %v", took)
		}
	}
	if seen["run succeeded"] != 1 || seen["terraform"] < 3 {
		t.Errorf("the log has %v", seen)
	}
	for _, secret := range secrets {
		for what, text := range map[string]string{"log": r.stderr, "summary": r.stdout, "store": s.read("state.db") + s.read("state.db-wal"), "output": s.run("logs", "lb").stdout} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s has %q", what, secret)
			}
		}
	}
}

func TestWhatLibrariesLogIsJSONToo(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	defer log.SetOutput(log.Writer())
	defer log.SetFlags(log.Flags())
	var stderr testtools.Output
	flags := logFlags{format: "json"}
	if _, err := flags.logger(&app{stderr: &stderr}, "INFO"); err != nil {
		t.Fatal(err)
	}
	log.Print("said by a library")
	var record map[string]any
	if err := json.Unmarshal([]byte(stderr.String()), &record); err != nil || record["msg"] != "said by a library" {
		t.Errorf("%v: %s", err, &stderr)
	}
}

func decode(t *testing.T, r result, into any) {
	t.Helper()
	wantCode(t, r, exitOK)
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		t.Fatalf("%v:\n%s", err, r.stdout)
	}
}

func TestOnceThatIsStoppedSaysWhatItDidNotRun(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.write("slow/main.tf", `
variable "services" {}
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "touch `+s.path("begun")+`; exec sleep 600"
  }
}
`)
	file := s.config(taskOf("one", s.path("slow"), onWeb) + taskOf("two", s.path("slow"), onWeb))
	p := s.start("-once", "-parallel", "1", "-config-file", file)
	eventually(t, "an apply is under way", func() bool { _, err := os.Stat(s.path("begun")); return err == nil })
	status := s.run("status").stdout
	wantText(t, status, "why: requested by -once", "soon", "waits for its turn")
	if !regexp.MustCompile(`one +running [0-9]+s`).MatchString(status) {
		t.Errorf("status does not say how long the run has taken:\n%s", status)
	}
	r := s.run("logs", "one")
	wantCode(t, r, exitOK)
	wantText(t, r.stderr, "is under way: -follow prints what comes")
	p.Process.Signal(syscall.SIGTERM)
	<-p.ended
	if code := p.ProcessState.ExitCode(); code != exitError {
		t.Errorf("exit code %d", code)
	}
	wantText(t, p.stdout.String(), "not run")
	wantText(t, p.stderr.String(), "was not run: it never started", "was interrupted: Terrapulse was stopped")
	if strings.Contains(p.stdout.String(), "intended") {
		t.Errorf("a word of the program's inside: %s", p.stdout)
	}
}

func TestASecondSignalEndsTheProgramAtOnce(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.write("bin/terraform", `#!/bin/sh
case "$*" in
*apply*)
	trap '' INT TERM
	touch '`+s.path("begun")+`'
	for _ in $(seq 600); do sleep 0.1; done
	;;
*) exec '`+testtools.Terraform(t)+`' "$@" ;;
esac
`)
	t.Setenv("PATH", s.path("bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	p := s.start("-config-file", s.config(s.task("lb", onWeb)))
	eventually(t, "an apply is under way", func() bool { _, err := os.Stat(s.path("begun")); return err == nil })
	p.Process.Signal(syscall.SIGTERM)
	eventually(t, "the program waits for Terraform", func() bool { return strings.Contains(p.stderr.String(), "waiting for Terraform") })
	p.Process.Signal(syscall.SIGTERM)
	<-p.ended
	if code := p.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	wantText(t, p.stderr.String(), "stopped a second time")
}

// unwrapped is a text with one space where it has spaces or ends of lines.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }
