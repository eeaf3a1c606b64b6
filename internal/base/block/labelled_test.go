package block

import (
	"slices"
	"strings"
	"testing"
)

// rule is what a block of the test becomes.
type rule struct{ name, text string }

type ruleKeys struct {
	Labelled
	Text String
}

func TestMerge_BlockChangesTheOneOfItsNameAndRepeatsAreRefused(t *testing.T) {
	named := Named[rule]{What: "rule", Name: func(r rule) string { return r.name }, New: func(name string) rule { return rule{name, "default"} }}
	keys := func(label, text string, line int) ruleKeys {
		k := ruleKeys{Labelled: Labelled{Origin: Origin{Set: true, Pos: Position{File: "f.hcl", Line: line}}, Label: label}}
		if text != "" {
			k.Text = String{Origin: Origin{Set: true}, V: text}
		}
		return k
	}
	parents := []rule{{"b", "of all tasks"}, {"c", "of all tasks"}}
	var r Report
	merged := Merge(&r, named, []ruleKeys{keys("c", "own", 1), keys("a", "", 2), keys("c", "again", 3)}, parents,
		func(k *ruleKeys, parent rule) rule { return rule{k.Label, k.Text.Or(parent.text)} })
	if want := []rule{{"a", "default"}, {"b", "of all tasks"}, {"c", "own"}}; !slices.Equal(merged, want) {
		t.Errorf("%v, want %v", merged, want)
	}
	if parents[1].text != "of all tasks" {
		t.Error("a task changes what holds for all tasks")
	}
	if len(r.Errors) != 1 || !strings.Contains(r.Errors[0].String(), `f.hcl:3: another rule (f.hcl:1) has the name "c"; give each a name of its own`) {
		t.Errorf("%v", r.Errors)
	}
}
