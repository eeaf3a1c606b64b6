package reconcile

import (
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// If somebody renames a task without moved_from, one task vanishes and a new one appears. Which task that vanished
// the new one perhaps is, is guessed here, once, and written to the record of the new one. Everything else
// goes by this record.

// renameTime is how long after a task is removed a new one is taken for the same task
// under another name: somebody may change two files one after the other.
const renameTime = time.Hour

// vanished are the removed tasks that a new one perhaps is, sorted: by shape those that were removed
// just now, and by each former name those that were renamed before.
type vanished struct{ shapes, formers map[string][]string }

// vanished finds the removed tasks that may have made something, or that perhaps were renamed themselves, except those
// of which it is known what they are now.
func (t *tick) vanished(removed []string, states map[string]state.Stored[state.Task], moved map[string]string, now time.Time) vanished {
	v := vanished{map[string][]string{}, map[string][]string{}}
	for _, name := range removed {
		s := states[name].Data
		known := s.Gone.MovedTo != "" || s.Gone.Deleted != nil || moved[name] != "" || t.effective.Problems[name] != nil
		if known || !t.used(name, states) && len(s.Renamed) == 0 {
			continue
		}
		for _, former := range state.Names(s.Former.Moved, s.Former.Moving) {
			v.formers[former] = append(v.formers[former], name)
		}
		if just := !s.Gone.Final || now.Sub(s.Gone.Since) < renameTime; just && len(v.shapes[s.Shape]) < state.MaxRenamed {
			v.shapes[s.Shape] = append(v.shapes[s.Shape], name)
		}
	}
	return v
}

// perhaps returns what a task perhaps was before. That is guessed as long as no run of it has begun: its file may be
// there before the other one is gone, and a process may die before the guess is written. A disabled task
// that is there for longer is not taken for another one.
func (t *tick) perhaps(task task, states map[string]state.Stored[state.Task], gone vanished) []string {
	record := states[task.Name]
	s := record.Data
	switch begun := s.Attempted != (state.Attempt{}) && s.Used(); {
	case len(s.Renamed) > 0 && s.Gone.MovedTo == "": // else it has had this name before
		return s.Renamed
	case task.FromAPI, begun, !task.Enabled && record.Exists() && s.Gone.MovedTo == "":
		return nil
	}
	names := state.Names(gone.formers[task.Name], s.Renamed, gone.shapes[task.shape])
	return names[:min(len(names), state.MaxRenamed)]
}

// suspects are the tasks that wait because each is perhaps a removed one, by the names and the shape of those. A
// record does not name all removed tasks of its shape.
type suspects map[string][]string

func suspectsOf(inputs []decide.Input) suspects {
	all := suspects{}
	for i := range inputs {
		task, s := inputs[i].Task, &inputs[i].State
		names := s.Unclear(task.MovedFrom)
		if len(names) > 0 {
			names = append(names[:len(names):len(names)], s.Shape)
		}
		for _, of := range names {
			if len(all[of]) < state.MaxRenamed {
				all[of] = append(all[of], task.Name)
			}
		}
	}
	return all
}

// keep says why nothing of a removed task is destroyed; "" if it may be.
func (all suspects) keep(name string, s state.Task) string {
	to := state.Names(all[name], all[s.Shape])
	if len(to) == 0 {
		return ""
	}
	return fmt.Sprintf("perhaps it was renamed to %s, which waits until somebody says so", state.Some(to, "or"))
}
