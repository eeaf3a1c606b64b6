package main

import (
	"strings"
	"testing"
)

func TestJSON_OfOnceInspectRenderAndValidate(t *testing.T) {
	s := newSite(t)
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
	if lb := inspected.Tasks[0]; lb.Name != "lb" || !lb.Enabled || !lb.ChangesPresent || lb.Changes.Add != 1 || !strings.Contains(lb.Plan, "local_file.out will be created") {
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

	var rendered struct {
		Task  string
		Files []struct{ Name, Content string }
	}
	decode(t, s.run("render", "-json", "-config-file", file, "lb"), &rendered)
	if rendered.Task != "lb" || len(rendered.Files) < 3 || rendered.Files[0].Content == "" {
		t.Errorf("rendered: %+v", rendered)
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
