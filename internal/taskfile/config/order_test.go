package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// inOrder returns the tasks of a configuration, each written as "name: entry entry".
func inOrder(tasks ...string) *Config {
	c := &Config{WorkingDir: "sync-tasks"}
	for _, text := range tasks {
		name, after, _ := strings.Cut(text, ":")
		c.Tasks = append(c.Tasks, Task{Name: name, After: strings.Fields(after), WorkingDir: "sync-tasks/" + name})
	}
	c.nameTasks()
	return c
}

func TestOrder_ResolvesNamesAndPatterns(t *testing.T) {
	c := inOrder("fw-1", "fw-2", "lb: fw-* none", "dns: lb fw-1 lb", "fw-core: fw-? x-*", "web: old")
	c.Tasks[2].MovedFrom = []string{"old"}
	o := c.Order()
	for task, want := range map[string]string{"fw-1": "", "lb": "fw-1 fw-2 fw-core", "dns": "fw-1 lb", "fw-core": "fw-1 fw-2", "web": "lb"} {
		if got := strings.Join(o.Predecessors(task), " "); got != want {
			t.Errorf("%s comes after %q, want %q", task, got, want)
		}
	}
	if got := strings.Join(o.Successors("fw-1"), " "); got != "lb dns fw-core" {
		t.Errorf("after fw-1 come %s", got)
	}
	if p := o.Before("lb")[1]; !p.Missing || p.Entry != "none" {
		t.Errorf("a task that does not exist: %+v", p)
	}
	if p := o.Before("web")[0]; p.Renamed != "old" {
		t.Errorf("a task that was renamed: %+v", p)
	}
	if inOrder("a", "b").Order() != nil || (*Order)(nil).Predecessors("a") != nil || (*Order)(nil).Successors("a") != nil {
		t.Error("tasks without after have an order")
	}
}

func TestOrder_FindsEachCycle(t *testing.T) {
	for _, test := range []struct{ name, tasks, says string }{
		{"of three", "a: b|b: c|c: a|d: a", "a comes after b, b comes after c, c comes after a"},
		{"through a pattern", "a: b*|b1|b2: a", "a comes after b2, b2 comes after a"},
		{"of tasks with one pattern, which both match", "s1: s*|s2: s*", "s1 comes after s2, s2 comes after s1"},
		{"behind a task that is in none", "x: a|a: b|b: a", "a comes after b, b comes after a"},
		{"that would need a task to come after itself by a pattern", "s1: s*|s2|s3", ""},
		{"none, although two ways lead to a task", "a|b: a|c: a|d: b c", ""},
	} {
		o, done, says := inOrder(strings.Split(test.tasks, "|")...).Order(), map[string]bool{}, ""
		for _, task := range o.Tasks() {
			if found := o.cycle(task, done); found != nil {
				says = saysCycle(found)
				break
			}
		}
		if _, cycle, _ := strings.Cut(says, ": "); cycle != test.says {
			t.Errorf("%s: %q, want %q", test.name, says, test.says)
		}
	}
}

// Tasks that are made through the API, changed in files meanwhile, and taken together.
func TestWith_ATaskOfTheAPIThatClosesACycleIsWithoutEffect(t *testing.T) {
	made := func(name, after string) Change {
		return Change{Task: name, Definition: fmt.Appendf(nil, `{"name":%q,"module":"m","after":[%s]}`, name, after)}
	}
	base := inOrder("firewall: dns", "lb: firewall")
	for _, test := range []struct {
		name    string
		changes []Change
		wrong   string
	}{
		{"no cycle", []Change{made("dns", "")}, ""},
		{"a file names the task", []Change{made("dns", `"lb"`)}, "dns"},
		{"a pattern", []Change{made("dns", `"l*"`)}, "dns"},
		{"two of them: the later one", []Change{made("dns", `"site"`), made("site", `"lb"`)}, "site"},
		{"a task that would close it is deleted", []Change{made("dns", `"lb"`), {Task: "lb", Deleted: base.Tasks[1].Identity(base)}}, ""},
	} {
		next, problems := base.With(test.changes)
		var names []string
		for name, err := range problems {
			names = append(names, name)
			if !strings.Contains(err.Error(), "comes after") {
				t.Errorf("%s: %v", test.name, err)
			}
			if _, ok := next.Task(name); ok {
				t.Errorf("%s: %s is in the configuration", test.name, name)
			}
		}
		if got := strings.Join(names, " "); got != test.wrong {
			t.Errorf("%s: without effect: %q, want %q", test.name, got, test.wrong)
		}
	}
}

func TestParse_RefusesACycle(t *testing.T) {
	base := inOrder("firewall: d*", "lb: firewall")
	if says := wrong(t, base, `{"name":"dns","module":"m","after":["lb"]}`); says != "task.after[0]: no task of a cycle could run: dns comes after lb, lb comes after firewall, firewall comes after dns; remove one of them from after" {
		t.Error(says)
	}
	task := right(t, base, `{"name":"web","module":"m","after":["lb"],"after_timeout":"5m"}`)
	if !slices.Equal(task.After, []string{"lb"}) || task.AfterTimeout != 5*time.Minute || !task.ComesAfter("lb") || task.ComesAfter("firewall") {
		t.Errorf("%+v", task)
	}
}

// The order changes no result: no task runs because of it. But the next tick uses it.
func TestDigest_OfTheOrder(t *testing.T) {
	a, b := inOrder("a", "b"), inOrder("a", "b: a")
	if a.Tasks[1].Digest(a) != b.Tasks[1].Digest(b) {
		t.Error("after changes the definition of a task")
	}
	if a.Digest() == b.Digest() {
		t.Error("after does not change the configuration")
	}
}

func TestOrder_OfThousandsOfTasks(t *testing.T) {
	var tasks []string
	for i := range 10000 {
		text := fmt.Sprintf("t%d: fw-*", i)
		if i < 1000 {
			text = fmt.Sprintf("fw-%d", i)
		}
		tasks = append(tasks, text)
	}
	c := inOrder(tasks...)
	began := time.Now()
	o, done := c.Order(), map[string]bool{}
	for _, task := range o.Tasks() {
		if o.cycle(task, done) != nil {
			t.Fatal("a cycle")
		}
	}
	t.Logf("resolved and without a cycle after %s", time.Since(began))
	if shared := o.Before("t5000")[0] == o.Before("t6000")[0]; !shared {
		t.Error("tasks with the same pattern do not share what it matches")
	}
}
