//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestRemoval_IsDestroyedAfterAnApproval(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	const destroy = onWeb + "\n  on_removal = \"destroy\""
	const head = "keep_removed = \"1s\"\n"
	own := s.module("own", s.read("mod/main.tf"))
	other := strings.ReplaceAll(s.task("other", destroy), s.path("mod"), own)
	file := s.config(head + s.task("lb", destroy) + other + s.task("stays", onWeb))
	p := s.start("-config-file", file)
	for _, task := range []string{"lb", "other", "stays"} {
		eventually(t, task+" is applied", func() bool { return s.read(task+".txt") != "" })
		s.awaitPhase(task, apispec.PhaseApplied, "")
	}

	// Nothing is destroyed before the approval. The folder of a module goes with its task.
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	s.config(head)
	s.awaitPhase("lb", apispec.PhaseWaiting, "everything that the task has made would be destroyed")
	s.awaitPhase("other", apispec.PhaseWaiting, "`terrapulse approve -plan=")
	s.awaitPhase("stays", "", "")
	if s.read("lb.txt") == "" || s.read("other.txt") == "" {
		t.Error("something was destroyed")
	}
	shown := s.run("plan", "show", "-config-file", file, "other")
	wantCode(t, shown, exitOK)
	wantText(t, shown.stdout, "0 to add, 0 to change, 1 to destroy", "local_file.out")

	// A task that is back stays.
	s.config(head + s.task("lb", destroy))
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	wantCode(t, s.run("approve", "-config-file", file, "-comment", "decommissioned", "other"), exitOK)
	eventually(t, "the other task is destroyed", func() bool { return s.read("other.txt") == "" })
	s.awaitPhase("other", "", "")
	if s.read("lb.txt") == "" {
		t.Error("a task that is back was destroyed")
	}
	if s.read("stays.txt") == "" {
		t.Error("a task without on_removal was destroyed")
	}
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestDestroy_TaskIsHeldAfterIt(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	p := s.start("-config-file", file)
	api := "-http-addr=" + p.served()
	eventually(t, "lb is applied", func() bool { return s.read("lb.txt") != "" })
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	for _, args := range [][]string{{"destroy", api, "-auto-approve", "nope"}, {"destroy", api, "nope"}} {
		r := s.bare(args[0], args[1:]...)
		wantCode(t, r, exitError)
		wantText(t, r.stdout+r.stderr, "a task with name 'nope' does not exist")
		if strings.Contains(r.stdout, "Do you want") {
			t.Errorf("the program asks before it says that there is no such task:\n%s", r.stdout)
		}
	}

	// A rejected plan changes nothing.
	wantCode(t, s.bare("destroy", api, "-auto-approve", "lb"), exitOK)
	s.awaitPhase("lb", apispec.PhaseWaiting, "everything that the task has made would be destroyed")
	wantCode(t, s.run("reject", "-config-file", file, "-comment", "not yet", "lb"), exitOK)
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	if s.read("lb.txt") == "" {
		t.Error("it was destroyed")
	}

	wantCode(t, s.bare("destroy", api, "-auto-approve", "lb"), exitOK)
	s.awaitPhase("lb", apispec.PhaseWaiting, "`terrapulse approve -plan=")
	wantCode(t, s.run("approve", "-config-file", file, "lb"), exitOK)
	s.awaitPhase("lb", apispec.PhaseStopped, "everything that it had made was destroyed")
	if s.read("lb.txt") != "" {
		t.Error("it was not destroyed")
	}
	stays := func(when string) {
		t.Helper()
		if phase, why := s.phase("lb"); phase != apispec.PhaseStopped || !strings.Contains(why, "was destroyed") || s.read("lb.txt") != "" {
			t.Errorf("%s, it is %s (%s), and its file has %q", when, phase, why, s.read("lb.txt"))
		}
	}
	// Neither new input nor a start brings it back, also not -once beside the instance and without it.
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "the change is seen", func() bool { return strings.Contains(s.run("events", "-config-file", file).stdout, "change seen") })
	stays("with new input")
	once := func() {
		t.Helper()
		r := s.run("-once", "-config-file", file)
		wantCode(t, r, exitWaits)
		wantText(t, r.stdout, "lb", "stopped")
		stays("with -once")
	}
	once()
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	once()
	p = s.start("-config-file", file)
	api = "-http-addr=" + p.served()
	stays("after a restart")
	wantCode(t, s.bare("run", api, "lb"), exitOK)
	if got := s.read("lb.txt"); !strings.Contains(got, "8081") {
		t.Errorf("a request has made %q", got)
	}
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
