package config

import (
	"slices"
	"testing"
)

func TestConfig_TaskIsFoundByItsName(t *testing.T) {
	c := &Config{Tasks: []Task{{Name: "a", Module: "1"}, {Name: "b"}, {Name: "a", Module: "2"}}}
	named := *c
	named.nameTasks()
	other, fewer := named, named
	other.Tasks = append(slices.Clone(named.Tasks), Task{Name: "c"})
	fewer.Tasks = named.Tasks[:1]
	for name, test := range map[string]struct {
		*Config
		want string
	}{"made by hand": {c, "ab"}, "loaded": {&named, "ab"}, "a copy with another task": {&other, "abc"}, "a copy with fewer tasks": {&fewer, "a"}} {
		found := ""
		for _, task := range []string{"a", "b", "c", ""} {
			if got, ok := test.Task(task); ok && got.Name == task {
				found += task
			}
		}
		if first, _ := test.Task("a"); found != test.want || first.Module != "1" {
			t.Errorf("%s: found %q, want %q", name, found, test.want)
		}
	}
}
