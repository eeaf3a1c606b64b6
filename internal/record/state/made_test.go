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
