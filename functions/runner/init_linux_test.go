package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/terrapulse/terrapulse/internal/record/runlog"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// searches is a module that searches the environment of every process of its container.
const searches = `
locals {
  environ = { for f in fileset("/proc", "[0-9]*/environ") : f => try(file("/proc/${f}"), null) }
}
resource "terraform_data" "seen" {
  input = {
    found        = join(",", [for f, text in local.environ : f if text != null && strcontains(coalesce(text, " "), "hunter2")])
    of_process_1 = local.environ["1/environ"] == null ? "closed" : "open"
    own          = anytrue([for text in local.environ : text != null && strcontains(coalesce(text, " "), "TF_CLI_CONFIG_FILE")]) ? "read" : "not read"
  }
}
`

func TestProgram_AsProcess1ModulesFindNoSecretsInTheContainer(t *testing.T) {
	b := newBox(t, searches)
	b.env["TERRAPULSE_SECRET"] = `{"consul_token": "hunter2", "vault_token": "hunter2", "git_ssh_key": "hunter2", "git_known_hosts": "hunter2"}`
	b.launch("l1")
	var out testtools.Output
	if err := b.start("l1", &out).Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	run := b.run("l1", "t0")
	text, err := runlog.Load(t.Context(), b.client, run.Output.URL)
	if err != nil || run.State != state.RunSucceeded {
		t.Fatalf("the run reads %+v, %v\n%s", run, err, text)
	}
	for _, want := range []string{`found        = ""`, `of_process_1 = "closed"`, `own          = "read"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the output lacks %s:\n%s", want, text)
		}
	}
}

func TestProgram_AsProcess1PassesSignalsOn(t *testing.T) {
	b := newBox(t, sleeps)
	b.launch("l1")
	var out testtools.Output
	cmd := b.start("l1", &out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the state is locked", func() bool { return b.locked("t0") })
	if out, err := exec.Command("podman", "kill", "--signal", "TERM", b.name("l1")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if run := b.run("l1", "t0"); run.State != state.RunInterrupted || b.locked("t0") {
		t.Errorf("the run reads %+v, the state is locked: %v", run, b.locked("t0"))
	}
}

func TestCollect_ReapsOrphansAndReturnsTheExitCodeOfTheWorker(t *testing.T) {
	const variable = "TERRAPULSE_TEST_INIT"
	if script := os.Getenv(variable); script != "" { // in a process of its own: it collects every child
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		worker := exec.Command("sh", "-c", script)
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		zombies := make(chan int, 1)
		time.AfterFunc(time.Second, func() { zombies <- zombieChildren(t) })
		code, err := collect(worker.Process.Pid)
		if left := <-zombies; err != nil || left > 0 {
			t.Fatalf("%d zombies are left, %v", left, err)
		}
		os.Exit(code)
	}
	for script, want := range map[string]int{
		"(sleep 0.2 &); sleep 2; exit 3":     3,
		"(sleep 0.2 &); sleep 2; kill -9 $$": 128 + int(syscall.SIGKILL),
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCollect_")
		cmd.Env = append(os.Environ(), variable+"="+script)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != want {
			t.Errorf("%s ends with %v, want %d\n%s", script, err, want, out)
		}
	}
}

// zombieChildren counts the children of this process that have ended and were not collected.
func zombieChildren(t *testing.T) (n int) {
	all, err := procfs.AllProcs()
	if err != nil {
		t.Error(err)
	}
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PPID == os.Getpid() && stat.State == "Z" {
			n++
		}
	}
	return n
}
