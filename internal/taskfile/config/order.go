package config

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// Order says which tasks come after which: the predecessors of a task are those that its `after` names.
// Patterns are resolved once for a configuration, and tasks with the same pattern share what it matches.
type Order struct {
	before map[string][]*Predecessors // by task, in the order of its `after`
	tasks  []string                   // that come after others, in the order of the configuration
}

// Predecessors are the tasks that one entry of `after` names.
type Predecessors struct {
	Entry   string // as it was written
	Tasks   []string
	Renamed string // the former name that Entry is; "" if it is the name of a task, or a pattern
	Missing bool   // Entry is a name, and no task has it
}

// entryPattern is the form of an entry of `after`: the name of a task, or a pattern.
const entryPattern = `^[\p{L}\p{Nl}_*?][\p{L}\p{Nl}\p{M}\p{N}\p{Pc}*?-]*$`

var entryForm = regexp.MustCompile(entryPattern)

// isPattern reports whether an entry of `after` may match several tasks.
func isPattern(entry string) bool { return strings.ContainsAny(entry, "*?") }

// matches reports whether an entry names a task.
func matches(entry, task string) bool {
	if !isPattern(entry) {
		return entry == task
	}
	ok, err := path.Match(entry, task)
	return ok && err == nil
}

// ComesAfter reports whether the `after` of the task names another one, which need not be in
// the configuration.
func (t *Task) ComesAfter(other string) bool {
	return other != t.Name && slices.ContainsFunc(t.After, func(entry string) bool { return matches(entry, other) })
}

// Order returns the order of the tasks; nil if no task comes after another one.
func (c *Config) Order() *Order {
	if n := c.names; n != nil && len(c.Tasks) > 0 && n.n == len(c.Tasks) && n.of == &c.Tasks[0] {
		return n.order()
	}
	return newOrder(c.Tasks)
}

func newOrder(tasks []Task) *Order {
	if !slices.ContainsFunc(tasks, func(t Task) bool { return len(t.After) > 0 }) {
		return nil
	}
	r := newResolver(tasks)
	o := &Order{before: map[string][]*Predecessors{}}
	for i := range tasks {
		t := &tasks[i]
		if len(t.After) == 0 {
			continue
		}
		o.tasks = append(o.tasks, t.Name)
		for _, entry := range t.After {
			o.before[t.Name] = append(o.before[t.Name], r.without(entry, t.Name))
		}
	}
	return o
}

// Before returns the predecessors of a task, by the entries of its `after`.
func (o *Order) Before(task string) []*Predecessors {
	if o == nil {
		return nil
	}
	return o.before[task]
}

// Predecessors returns the names of the tasks that a task comes after, sorted.
func (o *Order) Predecessors(task string) []string {
	var names []string
	for _, p := range o.Before(task) {
		names = append(names, p.Tasks...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Tasks returns the tasks that come after others, in the order of the configuration.
func (o *Order) Tasks() []string {
	if o == nil {
		return nil
	}
	return o.tasks
}

// Successors returns the names of the tasks that come after a task, in the order of the configuration.
func (o *Order) Successors(task string) []string {
	var names []string
	has := map[*Predecessors]bool{} // tasks with the same pattern share them
	for _, name := range o.Tasks() {
		if slices.ContainsFunc(o.before[name], func(p *Predecessors) bool {
			yes, known := has[p]
			if !known {
				yes = slices.Contains(p.Tasks, task)
				has[p] = yes
			}
			return yes
		}) {
			names = append(names, name)
		}
	}
	return names
}

// resolver finds the tasks that entries of `after` name.
type resolver struct {
	tasks   []Task
	names   map[string]bool
	former  map[string]string // tasks by the names that they had before
	entries map[string]*Predecessors
}

func newResolver(tasks []Task) *resolver {
	r := &resolver{tasks, make(map[string]bool, len(tasks)), map[string]string{}, map[string]*Predecessors{}}
	for i := range tasks {
		r.names[tasks[i].Name] = true
		for _, from := range tasks[i].MovedFrom {
			r.former[from] = tasks[i].Name
		}
	}
	return r
}

func (r *resolver) resolve(entry string) *Predecessors {
	if p, ok := r.entries[entry]; ok {
		return p
	}
	p := &Predecessors{Entry: entry}
	switch to, renamed := r.former[entry]; {
	case isPattern(entry):
		for i := range r.tasks {
			if matches(entry, r.tasks[i].Name) {
				p.Tasks = append(p.Tasks, r.tasks[i].Name)
			}
		}
	case r.names[entry]:
		p.Tasks = []string{entry}
	case renamed:
		p.Tasks, p.Renamed = []string{to}, entry
	default:
		p.Missing = true
	}
	r.entries[entry] = p
	return p
}

// without is resolve for a task, which does not come after itself if a pattern matches it.
func (r *resolver) without(entry, task string) *Predecessors {
	p := r.resolve(entry)
	if !matches(entry, task) {
		return p
	}
	own := *p
	own.Tasks = slices.DeleteFunc(slices.Clone(p.Tasks), func(name string) bool { return name == task })
	return &own
}

// step is one step of a cycle: the entry of a task's `after` that leads to the next one.
type step struct {
	task  string
	entry int
}

// cycle returns a cycle of tasks that come after each other, from the first one in the order of the
// names; nil if there is none. Tasks that are done are in no cycle.
func (o *Order) cycle(from string, done map[string]bool) []step {
	var way []step
	passed := map[*Predecessors]bool{} // tasks with the same pattern share them
	at := map[string]int{}
	var visit func(task string) []step
	visit = func(task string) []step {
		if i, seen := at[task]; seen {
			return way[i:]
		}
		if done[task] {
			return nil
		}
		at[task] = len(way)
		for entry, p := range o.before[task] {
			if passed[p] {
				continue
			}
			way = append(way, step{task, entry})
			for _, next := range p.Tasks {
				if found := visit(next); found != nil {
					return found
				}
			}
			way, passed[p] = way[:len(way)-1], true
		}
		delete(at, task)
		done[task] = true
		return nil
	}
	return slices.Clone(visit(from))
}

// saysCycle says a cycle in words, from one of its tasks.
func saysCycle(steps []step) string {
	texts := make([]string, len(steps))
	for i, s := range steps {
		texts[i] = fmt.Sprintf("%s comes after %s", s.task, steps[(i+1)%len(steps)].task)
	}
	return "no task of a cycle could run: " + strings.Join(texts, ", ")
}

const cycleHint = "remove one of them from after"

// after checks the form of the key.
func (l *loader) after(raw *rawTask) ([]string, time.Duration) {
	for i, entry := range raw.After.V {
		at := l.entry(raw, i)
		switch {
		case !entryForm.MatchString(entry):
			l.Fail(at, "after has neither the name of a task nor a pattern: "+block.Quoted(entry), "* is any text, and ? is any character")
		case entry == raw.Name.V:
			l.Fail(at, fmt.Sprintf("task %s cannot come after itself", block.Quoted(entry)), "")
		}
	}
	timeout := raw.AfterTimeout
	switch {
	case timeout.V < 0:
		l.Fail(timeout.Origin, fmt.Sprintf("%s is negative", block.Quoted(timeout.V.String())), `a duration such as "30m", or "0s" for no limit`)
	case timeout.Set && len(raw.After.V) == 0:
		l.Warn(timeout.Origin, "after_timeout has no effect without after", "remove it")
	}
	return raw.After.V, max(timeout.V, 0)
}

// entry is the place of an entry of `after`: the key if it is one name without brackets.
func (l *loader) entry(raw *rawTask, i int) block.Origin {
	if len(raw.After.Parts) == 0 {
		return raw.After.Origin
	}
	return raw.After.Element(i)
}

// order reports the cycles of the tasks, and entries that name no task.
func (l *loader) order(raw []rawTask, tasks []Task) {
	o := newOrder(tasks)
	if o == nil {
		return
	}
	by := make(map[string]*rawTask, len(raw))
	place := make(map[string]int, len(raw))
	for i := range raw {
		if name := raw[i].Name.V; by[name] == nil {
			by[name], place[name] = &raw[i], i
		}
	}
	done := map[string]bool{}
	for _, task := range o.Tasks() {
		found := o.cycle(task, done)
		if found == nil {
			continue
		}
		first := 0
		for i, s := range found {
			done[s.task] = true // one error for a cycle
			if cmp.Compare(place[s.task], place[found[first].task]) < 0 {
				first = i
			}
		}
		found = slices.Concat(found[first:], found[:first])
		l.Fail(l.entry(by[found[0].task], found[0].entry), saysCycle(found), cycleHint)
	}
	for i := range raw {
		for e, p := range o.Before(raw[i].Name.V) {
			if by[raw[i].Name.V] != &raw[i] || e >= len(raw[i].After.V) {
				continue
			}
			at := l.entry(&raw[i], e)
			switch {
			case p.Missing:
				l.Warn(at, fmt.Sprintf("no task file has the task %s: until there is one, task %s does not run", block.Quoted(p.Entry), block.Quoted(raw[i].Name.V)),
					"correct the name, unless the task is created through the API")
			case p.Renamed != "":
				l.Warn(at, fmt.Sprintf("the task %s was renamed to %s", block.Quoted(p.Renamed), block.Quoted(p.Tasks[0])), "use its new name")
			case len(p.Tasks) == 0:
				l.Warn(at, fmt.Sprintf("no other task matches %s", block.Quoted(p.Entry)), "correct the pattern, unless tasks are created through the API")
			}
		}
	}
}

// refuseCycle reports that a task, which is to be added to others, would close a cycle.
func (l *loader) refuseCycle(raw *rawTask, t *Task, others []Task) {
	if len(t.After) == 0 {
		return
	}
	if found := newOrder(append(slices.Clone(others), *t)).cycle(t.Name, map[string]bool{}); found != nil {
		i := max(0, slices.IndexFunc(found, func(s step) bool { return s.task == t.Name }))
		found = slices.Concat(found[i:], found[:i])
		l.Fail(l.entry(raw, found[0].entry), saysCycle(found), cycleHint)
	}
}

// breakCycles takes tasks that were made through the API, the latest first, out of a configuration
// for as long as they close cycles with those of files, and adds why to the problems.
func (c *Config) breakCycles(problems map[string]error) {
	for {
		o, done := newOrder(c.Tasks), map[string]bool{}
		var found []step
		for _, task := range o.Tasks() {
			if found = o.cycle(task, done); found != nil {
				break
			}
		}
		last := -1
		for _, s := range found {
			if i := slices.IndexFunc(c.Tasks, func(t Task) bool { return t.Name == s.task }); c.Tasks[i].FromAPI {
				last = max(last, i)
			}
		}
		if last < 0 {
			return
		}
		name := c.Tasks[last].Name
		i := slices.IndexFunc(found, func(s step) bool { return s.task == name })
		problems[name] = fmt.Errorf("task %s was made through the API, and %s; delete it through the API, or change after in the files", block.Quoted(name), saysCycle(slices.Concat(found[i:], found[:i])))
		c.Tasks = slices.Delete(c.Tasks, last, last+1)
	}
}

// Matches reports whether the entry is a pattern that matches a task which need not be in the configuration.
func (p *Predecessors) Matches(task string) bool { return isPattern(p.Entry) && matches(p.Entry, task) }
