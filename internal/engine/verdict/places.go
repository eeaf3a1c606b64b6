package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Records are those of tasks, by name.
type Records struct {
	Tasks   map[string]state.Task
	Corrupt map[string]error // those that cannot be decoded
}

// Places returns the places of some tasks and of all that come before them, as far as they decide anything
// about the order. Tasks that have the same place share one. read returns the records of the tasks with these
// names; it is not called if none of the tasks comes after another one.
func Places(cfg *config.Config, of []*config.Task, read func(names []string) (Records, error), now time.Time) ([]state.Place, error) {
	order := cfg.Order()
	found := map[string]state.Place{}
	var names []string
	add := func(name string, at state.Place) {
		if _, seen := found[name]; !seen {
			names, found[name] = append(names, name), at
		}
	}
	for _, t := range of {
		if len(order.Before(t.Name)) > 0 {
			add(t.Name, state.Place{})
		}
	}
	for i := 0; i < len(names); i++ {
		var after []string
		for _, p := range order.Before(names[i]) {
			after = append(after, p.Entry)
			switch {
			case p.Missing:
				add(p.Entry, state.Place{Keeps: "there is no such task"})
			case p.Renamed != "":
				add(p.Entry, state.Place{After: p.Tasks})
			}
			for _, next := range p.Tasks {
				add(next, state.Place{})
			}
		}
		if after != nil {
			found[names[i]] = state.Place{After: after}
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	known, err := read(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return found[name].Keeps != "" }))
	if err != nil {
		return nil, err
	}
	most := max(50, min(state.MaxText, maxKeeps/max(1, len(names))))
	for _, name := range names {
		if at := found[name]; at.Keeps == "" {
			at.Keeps = state.CutTo(keeps(cfg, name, known, now), most)
			found[name] = at
		}
	}
	return shared(names, found), nil
}

// maxKeeps is how many bytes the places may have of reasons, as far as they are those of few tasks: a question
// has to fit into one write to each store.
const maxKeeps = 20_000

// shared returns the places in the order of the names of their tasks.
func shared(names []string, found map[string]state.Place) (all []state.Place) {
	at := map[string]int{}
	slices.Sort(names)
	for _, name := range names {
		p := found[name]
		if len(p.After) == 0 && p.Keeps == "" {
			continue
		}
		key := fmt.Sprintf("%q %s", p.After, p.Keeps)
		i, known := at[key]
		if !known {
			i, at[key] = len(all), len(all)
			all = append(all, p)
		}
		all[i].Tasks = append(all[i].Tasks, name)
	}
	return all
}

// keeps says why a task keeps those waiting at present that come after it. A run that is under way, or that a
// change or a request has triggered, is over soon.
func keeps(cfg *config.Config, name string, known Records, now time.Time) string {
	found, configured := cfg.Task(name)
	record, recorded := known.Tasks[name]
	switch err := known.Corrupt[name]; {
	case err != nil:
		return err.Error()
	case !configured || !recorded:
		return ""
	}
	t, said := *found, record.Reason
	t.After = nil
	if wait := record.Waits(); wait == nil || !wait.For.ForPeople() {
		record = record.WithoutRun()
	}
	in := decide.Input{Task: &t, Definition: t.Digest(cfg), State: record}
	if kind := cfg.Driver().Kind(); kind.Remote {
		in.Driver = kind.Name
	}
	why := decide.Keeps(decide.Decide([]decide.Input{in}, now)[0])
	if t.Enabled && lifecycle.RowOf(said.Code).Found {
		return cmp.Or(why, said.Text)
	}
	return why
}
