package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// renames returns what the moved_from of all tasks says about removed ones: the task that takes over from one, or
// has done so, and why nothing of one is destroyed.
func (t *tick) renames(states map[string]state.Stored[state.Task]) (moved, kept map[string]string) {
	moved, kept = map[string]string{}, map[string]string{}
	for _, task := range t.Reconciler.tasks {
		is, read := states[task.Name] // if it was not read, it rests, and names no removed task that has something
		for _, name := range task.MovedFrom {
			switch was := states[name].Data; {
			case was.Gone.MovedTo != "":
				moved[name] = task.Name
			case read && takesOver(is.Data):
				moved[name], kept[name] = task.Name, "it is renamed to "+task.Name
			case read && !slices.Contains(is.Data.Former.Moved, name) && was.Destroy == nil: // else this is another task with the name
				kept[name] = fmt.Sprintf("the moved_from of task %s names this task, but %[1]s has something of its own by now: remove its name there", task.Name)
			}
		}
	}
	return moved, kept
}

// formers returns the removed tasks that a task's moved_from names. It takes over only what it names: who changes it
// perhaps has no right to what was renamed since.
func (t *tick) formers(task *config.Task, states map[string]state.Stored[state.Task]) []string {
	var all, used []string
	for _, name := range state.Names(task.MovedFrom) {
		if states[name].Data.Gone.MovedTo == task.Name || !states[name].Exists() && !t.disabledByHand(name) {
			continue
		}
		all = append(all, name)
		if t.corrupt[name] != nil || t.used(name, states) {
			used = append(used, name)
		}
	}
	if len(used) > 0 {
		return used
	}
	return all[:min(len(all), 1)]
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

// unmoved says why a task cannot take over what the task has that its moved_from
// names; "" if it can, or if there is nothing to take over.
func (t *tick) unmoved(task *config.Task, states map[string]state.Stored[state.Task]) string {
	s := states[task.Name].Data
	for _, name := range task.MovedFrom {
		if t.configured(name) && !slices.Contains(s.Former.Moved, name) {
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
		case from.Gone.MovedTo != "":
			return fmt.Sprintf("its moved_from names task %s, which was renamed to %s since: use that name, or remove this one", name, from.Gone.MovedTo)
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
func takesOver(s state.Task) bool { return s.Applied.At.IsZero() && s.Run == nil }

// noteStates notes to which one task the Terraform state of each name belongs, if a rename has left
// that open: to the one that has the name, if it is in the configuration and has begun a run, perhaps
// with what another had left; else to a task whose next run takes the state along. A removed task that is
// not destroyed has no next run: another one that names the state, too, gets it.
func (t *tick) noteStates(states map[string]state.Stored[state.Task]) {
	t.owners = map[string]string{}
	for _, task := range slices.Sorted(maps.Keys(states)) {
		for _, name := range states[task].Data.Former.Moving {
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
	if moving := states[task.Name].Data.Former.Moving; len(moving) > 0 && t.moves(task, states[task.Name].Data) == nil {
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
	from := s.Former.Moving
	for _, name := range task.MovedFrom {
		if s.Applied.At.IsZero() && !slices.Contains(s.Former.Moved, name) {
			from = state.Names(from, []string{name})
		}
	}
	from = slices.DeleteFunc(slices.Clone(from), func(name string) bool { return cmp.Or(t.owners[name], task.Name) != task.Name })
	if len(from) == 0 {
		return nil
	}
	return &state.Move{From: from, Expected: !s.Applied.At.IsZero()}
}
