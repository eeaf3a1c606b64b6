package consul

import (
	"cmp"
	"slices"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Names are the names of elements that came, went and changed, sorted.
type Names struct{ Added, Removed, Changed []string }

// Difference is what differs between what was applied and what an observation shows.
type Difference struct {
	Names
	what          string
	applied, now  int               // elements
	before, after map[string]string // details
}

// Diff compares an observation with what was applied. what are the elements in the
// plural, if their details do not say that.
func Diff(what string, applied, details map[string]string, now Observation) Difference {
	d := Difference{what: cmp.Or(what, "entries"), applied: len(applied), now: len(now.Elements), before: details, after: now.Details}
	for name, digest := range now.Elements {
		if old, ok := applied[name]; !ok {
			d.Added = append(d.Added, name)
		} else if old != digest {
			d.Changed = append(d.Changed, name)
		}
	}
	for name := range applied {
		if _, ok := now.Elements[name]; !ok {
			d.Removed = append(d.Removed, name)
		}
	}
	for _, names := range [][]string{d.Added, d.Removed, d.Changed} {
		slices.Sort(names)
	}
	return d
}

// AllNames are the names in all differences.
func AllNames(differences []Difference) Names {
	all := Names{[]string{}, []string{}, []string{}}
	for _, d := range differences {
		all.Added, all.Removed, all.Changed = append(all.Added, d.Added...), append(all.Removed, d.Removed...), append(all.Changed, d.Changed...)
	}
	for _, names := range []*[]string{&all.Added, &all.Removed, &all.Changed} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return all
}

// CountIn counts the difference in c.
func (d Difference) CountIn(c *state.EntryChanges) {
	c.Count(state.EntryRemoved, d.Removed, d.removed)
	c.Count(state.EntryAdded, d.Added, d.added)
	c.Count(state.EntryChanged, d.Changed, d.changed)
}

// Entries are all elements that went, changed and came.
func (d Difference) Entries() []state.EntryChange {
	all := make([]state.EntryChange, 0, len(d.Removed)+len(d.Changed)+len(d.Added))
	add := func(action state.EntryAction, names []string, entry func(name string) state.EntryChange) {
		for _, name := range names {
			e := entry(name)
			e.Action, e.Name = action, name
			all = append(all, e)
		}
	}
	add(state.EntryRemoved, d.Removed, d.removed)
	add(state.EntryChanged, d.Changed, d.changed)
	add(state.EntryAdded, d.Added, d.added)
	return all
}

func (d Difference) removed(name string) state.EntryChange { return d.entry(d.before[name]) }
func (d Difference) added(name string) state.EntryChange   { return d.entry(d.after[name]) }

func (d Difference) changed(name string) state.EntryChange {
	e := d.entry(d.after[name])
	if d.before[name] == "" {
		return e
	}
	was, is := condition.ParseDetail(d.before[name]), condition.ParseDetail(d.after[name])
	if e.Attributes = is.Differs(was); was.Address != is.Address {
		e.Before = was.Address
	}
	return e
}

// Count is how many elements there were and are.
func (d Difference) Count() state.Count {
	return state.Count{Of: d.what, Applied: d.applied, Now: d.now}
}

// Changes are the changes alone.
func (d Difference) Changes() (c state.EntryChanges) {
	d.CountIn(&c)
	return c
}

func (d Difference) entry(detail string) state.EntryChange {
	known := condition.ParseDetail(detail)
	return state.EntryChange{Group: cmp.Or(known.Group, d.what), ID: known.ID, Address: known.Address}
}
