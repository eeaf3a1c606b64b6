package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// renameTime is how long after a task is removed a new one is taken for the same task
// under another name: somebody may change two files one after the other.
const renameTime = time.Hour

// renames are the tasks that were renamed, or perhaps were.
type renames struct {
	moved  map[string]string   // the task whose moved_from names a removed one
	before map[string][]string // the removed tasks of which a new one is perhaps one
	after  map[string][]string // the new tasks of which a removed one is perhaps one, or that are to take over from it
}

// renames compares new tasks with removed ones. If it is not clear which removed task a
// new one is, or whether it is one, the new one waits, and none of them is destroyed.
func (t *tick) renames(states map[string]state.Stored[state.Task], now time.Time) renames {
	t.noteStates(states)
	t.late = map[string]string{}
	r := renames{t.movedFrom(states), map[string][]string{}, map[string][]string{}}
	for name, to := range r.moved {
		is, read := states[to] // if it was not read, it rests, and was applied
		row, _ := t.summary.Row(to)
		switch {
		case states[name].Data.MovedTo != "":
		case read && takesOver(is.Data):
			r.after[name] = []string{to}
		default:
			delete(r.moved, name)
			took := slices.Contains(is.Data.MovedFrom, name) || !read && row.Took(name)
			if !took { // else this is another task with the name
				t.late[name] = to
			}
		}
	}
	var gone *goneTasks
	named := map[*string]int{} // how many new tasks have the same list: tasks of one shape share theirs
	for _, task := range t.tasks {
		record := states[task.Name]
		if !t.isNew(task.Task, record) {
			continue
		}
		if gone == nil {
			gone = t.gone(states, r.moved, now)
		}
		before := gone.perhaps(task, record.Data)
		if len(before) == 0 || slices.ContainsFunc(task.MovedFrom, func(name string) bool { return contains(before, name) }) {
			continue
		}
		r.before[task.Name] = before
		if named[&before[0]]++; named[&before[0]] > state.MaxRenamed {
			continue // each removed task in it has that many new ones
		}
		for _, name := range before {
			if len(r.after[name]) < state.MaxRenamed {
				r.after[name] = append(r.after[name], task.Name)
			}
		}
	}
	return r
}

// isNew reports whether no run of a task has begun, and no person has said that it is a
// new one. A disabled task that is there for longer is not taken for a removed one.
func (t *tick) isNew(task *config.Task, record state.Stored[state.Task]) bool {
	s := record.Data
	switch {
	case t.opts.Force[task.Name] != "" && !t.opts.All, s.Forced != "", !s.AppliedAt.IsZero(), s.Run != nil, t.corrupt[task.Name] != nil:
		return false
	case len(s.Renamed) > 0, s.MovedTo != "": // it waits already, or it had this name before
		return true
	}
	// A hold and a request to destroy do not say whether it is a new one.
	s.Release()
	s.DropDestroy()
	if s.Last == nil {
		s.EndStop()
	}
	return !task.FromAPI && !s.Used() && (task.Enabled || !record.Exists())
}

// movedFrom returns the tasks whose moved_from names a removed one, by its name.
func (t *tick) movedFrom(states map[string]state.Stored[state.Task]) map[string]string {
	moved := map[string]string{}
	for _, task := range t.Reconciler.tasks {
		for _, name := range task.MovedFrom {
			moved[name] = task.Name
		}
		for _, name := range t.formers(task.Task, states) {
			moved[name] = task.Name
		}
	}
	return moved
}

// formers returns the removed tasks that have what a task's moved_from names: each of
// these names, or the latest name that it has got since. What somebody creates through the API
// takes over only what it names: its sender may not have any right to what was renamed.
func (t *tick) formers(task *config.Task, states map[string]state.Stored[state.Task]) []string {
	var all []string
	for _, name := range task.MovedFrom {
		if !task.FromAPI {
			name = t.latest(name, states)
		}
		if name != task.Name && (states[name].Exists() || t.disabledByHand(name)) {
			all = state.Names(all, []string{name})
		}
	}
	if used := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return t.corrupt[name] == nil && !t.used(name, states) }); len(used) > 0 {
		return used
	}
	return all[:min(len(all), 1)]
}

// latest follows the renames of a task that is in no configuration.
func (t *tick) latest(name string, states map[string]state.Stored[state.Task]) string {
	for seen := map[string]bool{}; !seen[name] && !t.configured(name); {
		seen[name] = true
		to := states[name].Data.MovedTo
		if to == "" {
			return name
		}
		name = to
	}
	return name
}

// used reports whether a removed task may have made something, or whether a person has
// said something about it.
func (t *tick) used(name string, states map[string]state.Stored[state.Task]) bool {
	return states[name].Data.Used() || t.disabledByHand(name)
}

// disabledByHand reports whether a person has disabled a task of the files.
func (t *tick) disabledByHand(name string) bool {
	enabled := t.effective.Overrides[name].Enabled
	return enabled != nil && !*enabled
}

func (t *tick) configured(name string) bool {
	_, ok := t.effective.Config.Task(name)
	return ok
}

// goneTasks are the removed tasks that a new one can be.
type goneTasks struct {
	left    map[string]bool     // all of them
	shapes  map[string][]string // those that were removed just now, by their shape; sorted
	ever    map[string][]string // those removed at any time
	renamed map[string][]string // those that took over from another task, by its name
	states  map[string]state.Stored[state.Task]
}

// gone returns the removed tasks that may have made something, except those whose new
// name is known.
func (t *tick) gone(states map[string]state.Stored[state.Task], moved map[string]string, now time.Time) *goneTasks {
	g := &goneTasks{map[string]bool{}, map[string][]string{}, map[string][]string{}, map[string][]string{}, states}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		s := states[name].Data
		if s.MovedTo != "" || s.Deleted || moved[name] != "" || !t.used(name, states) || t.effective.Problems[name] != nil || t.corrupt[name] != nil || t.configured(name) {
			continue
		}
		g.left[name] = true
		for _, former := range state.Names(s.MovedFrom, s.Moving) {
			g.renamed[former] = append(g.renamed[former], name)
		}
		if s.Shape == "" {
			continue
		}
		g.ever[s.Shape] = append(g.ever[s.Shape], name)
		if s.RemovedAt.IsZero() || now.Sub(s.RemovedAt) < renameTime {
			g.shapes[s.Shape] = append(g.shapes[s.Shape], name)
		}
	}
	return g
}

// contains reports whether a name is in a sorted list.
func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

// perhaps returns the removed tasks of which a new one is perhaps one, sorted: those that it was
// taken for before, those that had its name, and those of its shape that were removed just now.
// Thousands of tasks may have one shape, and be renamed at once.
func (g *goneTasks) perhaps(task task, s state.Task) []string {
	shape := g.shapes[task.shape]
	if len(s.Renamed) == state.MaxRenamed {
		shape = g.ever[task.shape] // the record does not name all of them
	}
	var others []string
	for _, name := range state.Names(s.Renamed, g.renamed[task.Name]) {
		if known := !g.states[name].Exists() || g.left[name]; known && !contains(shape, name) {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return shape
	}
	return slices.Sorted(slices.Values(append(others, shape...)))
}

// unmoved says why a task cannot take over what the task has that its moved_from
// names; "" if it can, or if there is nothing to take over.
func (t *tick) unmoved(task *config.Task, states map[string]state.Stored[state.Task]) string {
	s := states[task.Name].Data
	for _, name := range task.MovedFrom {
		if t.configured(name) && !slices.Contains(s.MovedFrom, name) {
			return fmt.Sprintf("its moved_from names task %s, which is in the configuration", name)
		}
	}
	if !takesOver(s) {
		return ""
	}
	formers := t.formers(task, states)
	for _, name := range formers {
		from := states[name].Data
		switch {
		case t.corrupt[name] != nil:
			return fmt.Sprintf("the record of task %s, which its moved_from names, cannot be read", name)
		case t.effective.Problems[name] != nil:
			return fmt.Sprintf("task %s, which its moved_from names, was created through the API and is without effect: delete it there", name)
		case t.configured(name):
			return fmt.Sprintf("its moved_from names an earlier name of task %s, which is in the configuration", name)
		case from.MovedTo != "": // only of a task from the API
			return fmt.Sprintf("its moved_from names task %s, which was renamed since: create it again with the present name", name)
		case from.Run != nil:
			return fmt.Sprintf("run %s of task %s, which its moved_from names, has not ended", from.Run.ID, name)
		}
	}
	if len(formers) > 1 {
		return fmt.Sprintf("its moved_from names the tasks %s, and each of them has something of its own: leave only the one that it was", state.Some(formers, "and"))
	}
	return ""
}

// takesOver reports whether a task with this record gets the records of the task that
// its moved_from names.
func takesOver(s state.Task) bool { return s.AppliedAt.IsZero() && s.Run == nil }

// noteStates notes to which one task the Terraform state of each name belongs, if a rename has left
// that open: to the one that has the name, if it is in the configuration and has begun a run, perhaps
// with what another had left; else to a task whose next run takes the state along. A removed task that is
// not destroyed has no next run: another one that names the state, too, gets it.
func (t *tick) noteStates(states map[string]state.Stored[state.Task]) {
	t.owners = map[string]string{}
	for _, task := range slices.Sorted(maps.Keys(states)) {
		for _, name := range states[task].Data.Moving {
			is := t.owners[name]
			switch {
			case states[name].Data.Attempted != state.Attempt{} && t.configured(name):
				t.owners[name] = name
			case is == "", t.isLeft(is, states) && !t.isLeft(task, states):
				t.owners[name] = task
			}
		}
	}
}

// isLeft reports whether a removed task is not destroyed: what it has made stays.
func (t *tick) isLeft(name string, states map[string]state.Stored[state.Task]) bool {
	s := states[name].Data
	return !t.configured(name) && s.OnRemoval == "" && s.Destroy == nil
}

// occupied says that the Terraform state under a task's own name is that of another task, whose
// next run takes it along or destroys what it holds, or that the state that this one would take
// along is another task's now; "" if neither is so.
func (t *tick) occupied(task *config.Task, states map[string]state.Stored[state.Task]) string {
	if moving := states[task.Name].Data.Moving; len(moving) > 0 && t.moves(task, states[task.Name].Data) == nil {
		return fmt.Sprintf("its Terraform state was under the name %s, which another task has now: give that task another name", state.Some(moving, "or"))
	}
	owner := t.owners[task.Name]
	switch {
	case owner == "" || owner == task.Name || t.isLeft(owner, states), slices.Contains(t.formers(task, states), owner):
		return ""
	case t.configured(owner):
		return fmt.Sprintf("the Terraform state under its name is that of task %s, which had this name before: it waits until a run of %[1]s has taken the state along", owner)
	}
	return fmt.Sprintf("the Terraform state under its name is that of the removed task %s, which had this name before: it waits until everything that %[1]s has made is destroyed; if it is %[1]s, set moved_from to %[1]q; if all of that is to stay, use `terrapulse forget %[1]s`", owner)
}

// moves returns what the next run of a renamed task takes along; nil if there is nothing,
// or if an earlier run has done it. It is never a state that belongs to another task. If the
// task has something of its own, too, nobody has said which of both counts.
func (t *tick) moves(task *config.Task, s state.Task) *state.Move {
	from := s.Moving
	for _, name := range task.MovedFrom {
		if !slices.Contains(s.MovedFrom, name) && t.late[name] == "" {
			from = state.Names(from, []string{name})
		}
	}
	from = slices.DeleteFunc(slices.Clone(from), func(name string) bool { return cmp.Or(t.owners[name], task.Name) != task.Name })
	if len(from) == 0 {
		return nil
	}
	return &state.Move{From: from, Expected: !s.AppliedAt.IsZero()}
}
