//go:build linux

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// phase is the phase of a task in the store, and why; empty if the task is not there.
func (s *site) phase(task string) (apispec.Phase, string) {
	s.t.Helper()
	r := s.runInTest("status", "-json")
	var shown apispec.Overview
	if json.Unmarshal([]byte(r.stdout), &shown) == nil {
		for _, t := range shown.Tasks {
			if t.Name == task {
				return t.Phase, t.Reason.Text
			}
		}
	}
	return "", ""
}

// awaitPhase waits until a task is in a phase, and its reason has a text.
func (s *site) awaitPhase(task string, phase apispec.Phase, text string) {
	s.t.Helper()
	eventually(s.t, "task "+task+" is "+string(phase)+": "+text, func() bool {
		is, why := s.phase(task)
		return is == phase && strings.Contains(why, text)
	})
}

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

	// Nothing is destroyed before the approval, and a task that is back stays.
	s.config(head)
	s.awaitPhase("lb", apispec.PhaseWaiting, "everything that the task has made would be destroyed")
	s.awaitPhase("other", apispec.PhaseWaiting, "`terrapulse approve other`")
	s.awaitPhase("stays", "", "")
	if s.read("lb.txt") == "" || s.read("stays.txt") == "" {
		t.Error("something was destroyed")
	}
	s.config(head + s.task("lb", destroy))
	s.awaitPhase("lb", apispec.PhaseApplied, "")

	// The folder of a module goes with its task.
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	s.config(head)
	s.awaitPhase("lb", apispec.PhaseWaiting, "`terrapulse approve lb`")
	shown := s.run("plan", "show", "-config-file", file, "lb")
	wantCode(t, shown, exitOK)
	wantText(t, shown.stdout, "0 to add, 0 to change, 1 to destroy", "local_file.out")
	for _, task := range []string{"lb", "other"} {
		wantCode(t, s.run("approve", "-config-file", file, "-comment", "decommissioned", task), exitOK)
		eventually(t, task+" is destroyed", func() bool { return s.read(task+".txt") == "" })
		s.awaitPhase(task, "", "")
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
	wantCode(t, s.bare("destroy", api, "-auto-approve", "nope"), exitError)

	// A rejected plan changes nothing.
	wantCode(t, s.bare("destroy", api, "-auto-approve", "lb"), exitOK)
	s.awaitPhase("lb", apispec.PhaseWaiting, "everything that the task has made would be destroyed")
	wantCode(t, s.run("reject", "-config-file", file, "-comment", "not yet", "lb"), exitOK)
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	if s.read("lb.txt") == "" {
		t.Error("it was destroyed")
	}

	wantCode(t, s.bare("destroy", api, "-auto-approve", "lb"), exitOK)
	s.awaitPhase("lb", apispec.PhaseWaiting, "`terrapulse approve lb`")
	wantCode(t, s.run("approve", "-config-file", file, "lb"), exitOK)
	s.awaitPhase("lb", apispec.PhaseHeld, "everything that it had made was destroyed")
	if s.read("lb.txt") != "" {
		t.Error("it was not destroyed")
	}
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "new input applies it again", func() bool { return strings.Contains(s.read("lb.txt"), "8081") })
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
