package main

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// everySecond checks a task for drift every second.
const everySecond = "drift {\n schedule = \"* * * * * * *\"\n action = \"%s\"\n}\n"

// drift is what the checks of the task lb have shown.
func (s *site) drift() apispec.TaskDrift { return apispec.Deref(s.overview().Drift) }

func TestDrift_IsReportedAndEndsWithARun(t *testing.T) {
	s := newParallelSite(t)
	s.instances(1, 3, true)
	file := s.config(s.task("lb", strings.Replace(everySecond, "%s", "report", 1)+onWeb))
	p := s.start("-config-file", file)
	eventually(t, "a check finds no drift", func() bool { return s.drift().Checked != nil })
	if got := s.overview(); got.Phase != apispec.PhaseApplied || got.Drift.Found != nil {
		t.Errorf("%+v", got)
	}

	s.remove("lb.txt")
	s.inPhase(apispec.PhaseDrifted, "1 resource differs: module.lb.local_file.out (is missing)")
	shown := s.run("plan", "show", "-config-file", file, "lb")
	wantCode(t, shown, exitOK)
	wantText(t, shown.stdout, "drifted since", "1 to add, 0 to change, 0 to destroy", "module.lb.local_file.out will be created", "Nothing waits for an approval")
	wantCode(t, s.run("approve", "-config-file", file, "lb"), exitError)
	found := s.drift().Found
	if found == nil || found.Count != 1 || found.Resources[0].Address != "module.lb.local_file.out" || found.Changes.Add != 1 {
		t.Errorf("%+v", found)
	}
	first := s.drift().Checked
	eventually(t, "it is checked again", func() bool { return s.drift().Checked.After(*first) })
	if s.read("lb.txt") != "" || strings.Count(p.stderr.String(), "the task is drifted") != 1 {
		t.Errorf("it is applied, or reported twice: %q\n%s", s.read("lb.txt"), p.stderr)
	}

	at := "-http-addr=" + p.served()
	wantCode(t, s.run("run", at, "lb"), exitOK)
	s.inPhase(apispec.PhaseApplied, "")
	wantText(t, p.stderr.String(), "the task is not drifted any more")
	if s.applied() != 3 {
		t.Errorf("%d instances are applied", s.applied())
	}
	var runs []apispec.Run
	decode(t, s.run("runs", "-json", "lb"), &runs)
	if len(runs) > 5 || s.overview().LastRun.Kind != apispec.RunKindApply {
		t.Errorf("the history is full of checks: %+v", runs)
	}
}

func TestDrift_IsAppliedAfterItsApproval(t *testing.T) {
	s := newParallelSite(t)
	s.instances(1, 3, true)
	file := s.config(s.task("lb", strings.Replace(everySecond, "%s", "apply", 1)+"approval = \"always\"\n"+onWeb))
	p := s.start("-config-file", file)
	s.inPhase(apispec.PhaseWaiting, "every plan of the task needs an approval")
	wantCode(t, s.run("approve", "-config-file", file, "lb"), exitOK)
	eventually(t, "a check finds no drift", func() bool { return s.drift().Checked != nil })

	s.remove("lb.txt")
	s.inPhase(apispec.PhaseWaiting, "every plan of the task needs an approval")
	if reason := s.overview().Run.Reason; reason.Code != state.ReasonDrift || s.read("lb.txt") != "" {
		t.Errorf("the run is for %+v", reason)
	}
	wantCode(t, s.run("approve", "-config-file", file, "lb"), exitOK)
	s.inPhase(apispec.PhaseApplied, "")
	if s.applied() != 3 {
		t.Errorf("%d instances are applied", s.applied())
	}
	before := apispec.Deref(s.drift().Checked)
	eventually(t, "a check finds no drift", func() bool { return apispec.Deref(s.drift().Checked).After(before) })
	wantText(t, p.stderr.String(), "the task is drifted", "the task is not drifted any more")
	if got := s.overview(); got.Phase != apispec.PhaseApplied {
		t.Errorf("%+v", got)
	}
}
