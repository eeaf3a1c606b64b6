package decide

import (
	"cmp"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// opposite is the opposite order of a tick: what comes after a task, directly or along a chain, is
// destroyed first. A task that stays is not waited for, except while something may be applied for it.
type opposite struct {
	first map[int][]int // inputs that are destroyed before another one
	busy  map[int][]int // inputs that come after another one, and for which something may be applied

	behind map[int][]string // all tasks that come after another one
}

// beforeDestroy returns the first task that has to end before another one is destroyed; nil if there is none, and
// all tasks that come after it.
func (o *order) beforeDestroy(name string) (*blocker, []string) {
	if o.opposite == nil {
		o.opposite = o.orderDestroys()
	}
	i := o.at[name]
	if busy := o.opposite.busy[i]; len(busy) > 0 {
		in := &o.inputs[busy[0]]
		b := &blocker{task: in.Task.Name, reason: *in.underWay(), stuck: in.Corrupt != nil}
		if in.Lost != nil {
			b.due = o.now // the end is known, and this tick records it
		}
		return b, nil
	}
	if first := o.opposite.first[i]; len(first) > 0 {
		d := o.decision(first[0])
		reason := failing(d, d.Reason)
		reason.Text = "it comes after this task, and is destroyed first: " + reason.Text
		return &blocker{task: d.Task.Name, reason: reason, stuck: stuck(d)}, nil
	}
	for _, name := range o.opposite.behind[i] {
		if b := o.begun(name); b != nil {
			return b, nil
		}
	}
	return nil, o.opposite.behind[i]
}

// begun is the blocker of a destroy if this tick has decided to apply something for a task that comes after; nil if
// it has not.
func (o *order) begun(name string) *blocker {
	i, ok := o.at[name]
	if !ok || o.decided[i] == nil || !begins(*o.decided[i]) {
		return nil
	}
	return &blocker{task: name, reason: state.Reason{Code: state.ReasonRunning, Text: "it comes after this task, and begins now: " + o.decided[i].Reason.Text}}
}

// begins reports whether a run is decided on that applies something.
func begins(d Decision) bool {
	return (d.Action == Run || d.Action == Resume) && d.Kind != state.KindDestroy
}

// orderDestroys finds which inputs are destroyed before which. The definitions of removed tasks may be
// of different times, and form a cycle: then one of them begins.
func (o *order) orderDestroys() *opposite {
	c := o.newChains()
	after, all := map[int][]int{}, []int{}
	next := &opposite{first: map[int][]int{}, busy: map[int][]int{}, behind: map[int][]string{}}
	for _, name := range c.links {
		for _, i := range c.before(name) {
			next.behind[i] = append(next.behind[i], name)
		}
	}
	for j := range o.inputs {
		in := &o.inputs[j]
		leaves, busy := in.leaves(), in.underWay() != nil
		if leaves {
			all = append(all, j)
		}
		if !leaves && !busy {
			continue
		}
		for _, i := range c.before(in.Task.Name) {
			if leaves {
				after[i] = append(after[i], j)
			}
			if busy {
				next.busy[i] = append(next.busy[i], j)
			}
		}
	}
	const open, done = 1, 2
	marks := map[int]int{}
	var visit func(i int)
	visit = func(i int) {
		marks[i] = open
		for _, j := range after[i] {
			if marks[j] == open {
				continue
			}
			if marks[j] != done {
				visit(j)
			}
			next.first[i] = append(next.first[i], j)
		}
		marks[i] = done
	}
	for _, i := range all {
		if marks[i] != done {
			visit(i)
		}
	}
	return next
}

// leaves reports whether what a task has made is to be destroyed: not if a person has rejected or
// cancelled that.
func (in *Input) leaves() bool {
	s := &in.State
	switch {
	case in.Corrupt != nil:
		return false
	case s.Destroy != nil || s.Run != nil && s.Run.Destroys():
		return true
	case !in.Removed || !in.Destroy && in.Undestroyable == nil:
		return false
	}
	last := s.Ended.Last
	return last == nil || last.Kind != state.KindDestroy || last.State != state.RunCancelled
}

// underWay says that something is applied for the task, or may be; nil if nothing is. A run that only
// plans, or that waits for a person, applies nothing before it is decided on again. An end counts once it is
// recorded: a runner that was thought to be dead may prevent that.
func (in *Input) underWay() *state.Reason {
	says := func(code state.ReasonCode, format string, args ...any) *state.Reason {
		return &state.Reason{Code: code, Text: "it comes after this task, and " + fmt.Sprintf(format, args...)}
	}
	if in.Corrupt != nil {
		return says(state.ReasonCorrupt, "it is not known whether a run of it is under way: %s", state.Cut(in.Corrupt.Error()))
	}
	s := in.State
	if wait := s.Waits(); wait != nil && in.Remote != nil && s.LiveRemote() != nil && wait.For.EndedBy(in.Remote.Phase) {
		s.NoteRemote(*in.Remote)
	}
	switch left := s.GivenUp(); {
	case s.Run != nil && s.Run.Wait == nil:
		return says(state.ReasonRunning, "its run %s is under way", s.Run.ID)
	case s.Elsewhere():
		return says(state.ReasonRunning, "its run %s %s", s.Run.ID, s.Run.Wait)
	case left != nil && !left.OfOther(in.Driver):
		return says(state.ReasonRunning, "its remote run %s is to be stopped first", left.ID)
	}
	return nil
}

// chains find what comes before a task, directly or along tasks that stay.
type chains struct {
	*order
	leaving map[string]int      // inputs to be destroyed, by task
	links   []string            // tasks that are to be destroyed, or that come after others
	linked  map[string]bool     // the same
	entries map[string][]string // links that an entry of `after` names
	found   map[string][]int    // what comes before a task
}

func (o *order) newChains() *chains {
	c := &chains{order: o, leaving: map[string]int{}, linked: map[string]bool{}, entries: map[string][]string{}, found: map[string][]int{}}
	link := func(name string) {
		if !c.linked[name] {
			c.links, c.linked[name] = append(c.links, name), true
		}
	}
	for i := range o.inputs {
		in := &o.inputs[i]
		leaves := in.leaves()
		if leaves {
			c.leaving[in.Task.Name] = i
		}
		if leaves || in.Removed && (len(in.Task.After) > 0 || in.movedTo() != "") {
			link(in.Task.Name)
		}
	}
	for _, name := range o.Tasks.Tasks() {
		link(name)
	}
	return c
}

// before returns the inputs to be destroyed that come before a task.
func (c *chains) before(task string) []int {
	if found, known := c.found[task]; known {
		return found
	}
	c.found[task] = nil // definitions of different times may form a cycle
	var all []int
	has := map[int]bool{}
	add := func(i int) {
		if !has[i] {
			all, has[i] = append(all, i), true
		}
	}
	for _, name := range c.after(task) {
		i, leaves := c.leaving[name]
		switch {
		case name == task:
		case leaves:
			add(i)
		default:
			for _, i := range c.before(name) {
				add(i)
			}
		}
	}
	c.found[task] = all
	return all
}

// after returns the links that the `after` of a task names. A renamed task has the one of its new name.
func (c *chains) after(task string) (names []string) {
	if i, ok := c.at[task]; ok && c.inputs[i].Removed {
		if to := c.inputs[i].movedTo(); to != "" {
			return []string{to}
		}
		for _, entry := range c.inputs[i].Task.After {
			names = append(names, c.named(entry)...)
		}
		return names
	}
	for _, p := range c.Tasks.Before(task) {
		if names = append(names, c.named(p.Entry)...); p.Renamed != "" {
			names = append(names, p.Tasks...)
		}
	}
	return names
}

// named returns the links that an entry of `after` names. Many tasks may have the same pattern.
func (c *chains) named(entry string) []string {
	if c.linked[entry] {
		return []string{entry}
	}
	names, known := c.entries[entry]
	if known {
		return names
	}
	p := config.Predecessors{Entry: entry}
	for _, name := range c.links {
		if p.Matches(name) {
			names = append(names, name)
		}
	}
	c.entries[entry] = names
	return names
}

// movedTo is the name under which a removed task is, or will be; "" if it was not renamed.
func (in *Input) movedTo() string { return cmp.Or(in.MovedTo, in.State.Gone.MovedTo) }
