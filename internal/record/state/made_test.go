package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestResourceType_IsFoundBehindModulesAndKeys(t *testing.T) {
	for address, want := range map[string]string{
		"aws_lb.front":                                       "aws_lb",
		`aws_lb.front["a.b"]`:                                "aws_lb",
		"module.web.aws_lb.front[0]":                         "aws_lb",
		`module.web["module.x.y"].module.in.local_file.a`:    "local_file",
		`module.web["quote \" and . dot"].local_file.a["x"]`: "local_file",
		"":  "",
		"x": "x",
	} {
		if got := state.ResourceType(address); got != want {
			t.Errorf("%s is of the type %q, want %q", address, got, want)
		}
	}
}

func TestNewMade_CountsAndIsBounded(t *testing.T) {
	made, text := state.NewMade("r1", []string{"b_two.y", "a_one.x", `module.m.b_two.z["k"]`})
	if made.Count != 3 || made.Types != "a_one:1 b_two:2" || made.Run != "r1" || text != "a_one.x\nb_two.y\nmodule.m.b_two.z[\"k\"]\n" {
		t.Errorf("%+v\n%s", made, text)
	}
	var many []string
	for i := range 50_000 {
		many = append(many, fmt.Sprintf("type_%03d.name[%d]", i%100, i))
	}
	made, text = state.NewMade("r1", many)
	if made.Count != 50_000 || len(made.Types) > 400 || strings.Count(text, "\n") > state.MaxMade || len(text) > 256<<10 {
		t.Errorf("%d resources take %d bytes of types and %d of addresses", made.Count, len(made.Types), len(text))
	}
	sum := 0
	for _, n := range made.Types.Each() {
		sum += n
	}
	if sum != 50_000 {
		t.Errorf("the types are those of %d resources", sum)
	}
}

func TestMade_FollowsTheTask(t *testing.T) {
	made, _ := state.NewMade("r1", []string{"a.x"})
	run := state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunSucceeded, Work: state.Work{Made: made}}
	task, _ := state.Task{}.Conclude(run, "D")
	if task.Applied.Made != made {
		t.Fatalf("after an apply, the task has %+v", task.Applied.Made)
	}
	renamed, left := state.Rename{From: "web", To: "www"}.Take(task, state.Task{})
	if renamed.Applied.Made == nil || renamed.Applied.Made.Task != "web" || renamed.Applied.Made.Types != "a:1" || left.Applied.Made != nil || made.Task != "" {
		t.Errorf("under its new name it has %+v, under the former one %+v", renamed.Applied.Made, left.Applied.Made)
	}
	again, _ := state.Rename{From: "www", To: "w3"}.Take(renamed, state.Task{})
	if again.Applied.Made.Task != "web" {
		t.Errorf("after another rename, its addresses are looked for under %s", again.Applied.Made.Task)
	}
	for end, want := range map[state.RunState]bool{state.RunSucceeded: false, state.RunFailed: true, state.RunLost: true} {
		destroyed, _ := task.Conclude(state.Run{ID: "r2", Task: "web", Kind: state.KindDestroy, State: end}, "D")
		if (destroyed.Applied.Made != nil) != want {
			t.Errorf("after a destroy that has %s, the task has %+v", end, destroyed.Applied.Made)
		}
	}
}
