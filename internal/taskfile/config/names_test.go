package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
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

func TestLoad_TenThousandTasksAreFoundAtOnce(t *testing.T) {
	const n = 10_000
	var files strings.Builder
	for i := range n {
		fmt.Fprintf(&files, "task {\n name = \"t-%d\"\n module = \"./m\"\n condition \"services\" {\n names = [\"web\"]\n }\n}\n", i)
	}
	cfg := load(t, "f.hcl", files.String())
	effective, _ := cfg.With([]Change{{Task: "t-0", Enabled: new(false)}})
	for _, c := range []*Config{cfg, effective} {
		took := time.Hour
		for range 3 { // the machine may be busy
			began := time.Now()
			for i := range n {
				if task, ok := c.Task(fmt.Sprint("t-", i)); !ok || task.Name != fmt.Sprint("t-", i) {
					t.Fatalf("task %d: %v", i, task)
				}
			}
			took = min(took, time.Since(began))
		}
		if took > 100*time.Millisecond {
			t.Errorf("to find %d tasks takes %s", n, took)
		}
	}
}
