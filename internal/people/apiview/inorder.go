package apiview

import (
	"fmt"
	"maps"
	"slices"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// InOrder corrects the verdicts of tasks, by their names: a task waits if one that comes before it, directly or
// not, would not be at rest with everything applied. Of a task without a verdict, or that is not concerned, what
// was so when the what-if was asked counts.
func InOrder(would map[string]*state.Verdict, places []state.Place) {
	o := chain{would: would, after: map[string][]string{}, keeps: map[string]string{}, known: map[string]*obstacle{}, matched: map[string][]string{}}
	names := slices.Collect(maps.Keys(would))
	for _, p := range places {
		for _, name := range p.Tasks {
			names = append(names, name)
			o.after[name] = append(o.after[name], p.After...)
			if p.Keeps != "" {
				o.keeps[name] = p.Keeps
			}
		}
	}
	slices.Sort(names)
	o.names = slices.Compact(names)
	waits := map[string]*obstacle{}
	for name, v := range would {
		if slices.Contains([]state.WouldBe{state.WouldApply, state.WouldHold, state.WouldApprove, state.WouldWindow}, v.Outcome) {
			waits[name] = o.before(name)
		}
	}
	for name, b := range waits {
		if b == nil {
			continue
		}
		v := would[name]
		text := fmt.Sprintf("would not run: waits for %s; after that it %s", b, v.Text)
		would[name] = &state.Verdict{Outcome: state.WouldStop, Text: state.Cut(text), Causes: v.Causes}
	}
}

// Places are those of a question, with why the tasks keep others waiting that cannot be read.
func Places(q state.Question) []state.Place {
	places := slices.Clone(q.Order)
	for _, t := range q.Unreadable {
		places = append(places, state.Place{Tasks: []string{t.Task}, Keeps: "it cannot be read"})
	}
	return places
}

// obstacle is the task for which another one would wait.
type obstacle struct {
	via  string // the nearest task between; "" if there is none
	task string
	why  string // after the name of the task
}

func (b *obstacle) String() string {
	if b.via != "" {
		return b.via + ", which waits for " + b.task + b.why
	}
	return b.task + b.why
}

// chain finds out which tasks would wait for which.
type chain struct {
	would map[string]*state.Verdict
	names []string            // of all tasks, sorted
	after map[string][]string // names and patterns, by task
	keeps map[string]string   // why a task keeps others waiting at present
	known map[string]*obstacle

	matched map[string][]string // tasks that entries of `after` name
}

// named are the tasks that an entry of `after` names.
func (o *chain) named(entry string) []string {
	found, known := o.matched[entry]
	if !known {
		t := config.Task{After: []string{entry}}
		for _, name := range o.names {
			if t.ComesAfter(name) {
				found = append(found, name)
			}
		}
		o.matched[entry] = found
	}
	return found
}

// before returns the first task, directly or not before another one, for which that waits; nil if there is none.
func (o *chain) before(name string) *obstacle {
	if b, known := o.known[name]; known {
		return b
	}
	o.known[name] = nil // in a cycle, which no configuration should have
	for _, entry := range o.after[name] {
		for _, other := range o.named(entry) {
			if b := o.obstacle(other); b != nil && other != name {
				o.known[name] = b
				return b
			}
		}
	}
	return nil
}

// obstacle says why a task keeps those waiting that come after it; nil if it does not.
func (o *chain) obstacle(name string) *obstacle {
	if why := o.restless(name); why != "" {
		return &obstacle{task: name, why: why}
	}
	if behind := o.before(name); behind != nil {
		return &obstacle{via: name, task: behind.task, why: behind.why}
	}
	return nil
}

// restless says why a task would not be at rest with everything applied, after its name; "" if it would.
func (o *chain) restless(name string) string {
	keeps := o.keeps[name]
	if v := o.would[name]; v != nil && v.Outcome != state.WouldNotConcern {
		switch v.Outcome {
		case state.WouldApply:
			return ""
		case state.WouldNotChange, state.WouldLater:
			keeps = v.Keeps
		default:
			return ", which " + Words(v.Outcome)
		}
	}
	if keeps == "" {
		return ""
	}
	return ": " + keeps
}
