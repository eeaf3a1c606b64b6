package config

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Change is what was changed about one task beside the files, through the API
// or the command line.
type Change struct {
	Task string // its name
	// Definition is that of a task that no file has: JSON as the API takes it.
	Definition []byte
	// Kept is set if Definition is that of a task that a file had: its variables may be
	// templates.
	Kept bool
	// Enabled, if set, replaces that of the task.
	Enabled *bool
	// Deleted hides a task of a file for as long as the task there is the one
	// that was deleted: it is that task's Identity.
	Deleted string
}

// With returns the configuration with the changes, and why some of them have no
// effect, by task. The receiver does not change; both share what is the same.
func (c *Config) With(changes []Change) (*Config, map[string]error) {
	if len(changes) == 0 {
		return c, nil
	}
	by := map[string]Change{}
	for _, ch := range changes {
		by[ch.Task] = ch
	}
	next := *c
	next.Tasks = nil
	problems := map[string]error{}
	taken := map[string]bool{}
	for _, t := range c.Tasks {
		ch, ok := by[t.Name]
		switch {
		case !ok:
		case ch.Deleted != "" && ch.Deleted == t.Identity(c):
			continue
		case ch.Enabled != nil:
			t.Enabled = *ch.Enabled
		}
		if ok && len(ch.Definition) > 0 {
			problems[t.Name] = fmt.Errorf("task %s was made through the API and is in %s now: what the file says counts; take it out of the file, or delete it through the API to be rid of both",
				block.Quoted(t.Name), t.Source)
		}
		next.Tasks, taken[t.Name] = append(next.Tasks, t), true
	}
	others, modules := next.others(), digestsOfModules(c.Tasks) // also where the task that has the module was deleted
	for _, ch := range changes {
		if taken[ch.Task] || len(ch.Definition) == 0 {
			continue
		}
		t, err := next.parse(ch.Definition, true, ch.Kept, others)
		if err == nil && t.Name != ch.Task {
			err = fmt.Errorf("the definition that is kept for task %s is that of %s", block.Quoted(ch.Task), block.Quoted(t.Name))
		}
		if err != nil {
			problems[ch.Task] = err
			continue
		}
		if ch.Enabled != nil {
			t.Enabled = *ch.Enabled
		}
		t.ModuleDigest = modules[t.Module]
		others.add(t)
		others.move(t.Name, t.MovedFrom)
		next.Tasks, taken[t.Name] = append(next.Tasks, *t), true
	}
	if !slices.ContainsFunc(changes, func(ch Change) bool { return ch.Kept }) {
		next.breakCycles(problems)
	}
	next.nameTasks()
	return &next, problems
}

// Parse reads one more task of the configuration, in the JSON form of the API. It
// reports everything that is wrong with it at once, as Errors; keys begin with
// "task".
func (c *Config) Parse(definition []byte) (*Task, error) {
	t, err := c.parse(definition, false, false, c.others())
	if err != nil {
		return nil, err
	}
	t.ModuleDigest = digestsOfModules(c.Tasks)[t.Module]
	return t, nil
}

// others returns what the tasks have taken, for parse.
func (c *Config) others() taken {
	return (&loader{Options: Options{Dir: c.dir}}).takenBy(c, c.Tasks)
}

// parse reads a task that is being created or, if made is set, was created before. If kept
// is set, a file had it.
func (c *Config) parse(definition []byte, made, kept bool, others taken) (*Task, error) {
	l := loader{
		Options: Options{Dir: c.dir, Getenv: func(string) string { return "" }},
		Report:  block.Report{Now: time.Now(), Existing: made},
		fromAPI: true, kept: kept,
	}
	root, diags := parseJSON("", definition)
	l.Errors = diags
	if root != nil {
		for path, e := range root.below("task", "") {
			for range e.superseded {
				l.Fail(block.Origin{Pos: e.pos, Path: path}, "duplicate key", "keep one of them")
			}
		}
	}
	if root == nil || len(diags) > 0 {
		return nil, Errors(l.Errors)
	}
	dashed(root)
	var raw rawTask
	l.block(root, reflect.ValueOf(&raw).Elem(), "task")
	l.noTemplates(root, "task")
	l.fill(&raw, "")
	t := l.task(&raw, c, nil)
	t.FromAPI, t.Source = true, Position{}
	others.loader = &l // errors are those of this task
	others.refuse(&raw, &t)
	others.refuseMove(&raw)
	if !made {
		l.refuseCycle(&raw, &t, c.Tasks)
	}
	if len(l.Errors) > 0 {
		return nil, Errors(l.Errors)
	}
	return &t, nil
}

// digestsOfModules returns the digests of the modules' files, by module, where the tasks are those
// of a bundle.
func digestsOfModules(tasks []Task) map[string]string {
	digests := map[string]string{}
	for i := range tasks {
		if digest := tasks[i].ModuleDigest; digest != "" {
			digests[tasks[i].Module] = digest
		}
	}
	return digests
}

// dashed gives the types of conditions and module inputs the names that they
// have in task files: the API writes consul_kv for consul-kv. It also writes an
// empty condition for none.
func dashed(task *node) {
	task.entries = slices.DeleteFunc(task.entries, func(e entry) bool {
		return e.key == "condition" && e.value.kind == kindObject && len(e.value.entries) == 0
	})
	names := map[string]string{}
	for _, k := range condition.Kinds {
		names[k.APIName()] = k.Name
	}
	for _, e := range task.entries {
		if e.key != "condition" && e.key != "module_input" {
			continue
		}
		for i, kind := range e.value.entries {
			if name, ok := names[kind.key]; ok {
				e.value.entries[i].key = name
			}
		}
	}
}
