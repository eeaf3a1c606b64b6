package overview

import (
	"slices"
	"sync"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// hidden stands for a text that may name other tasks than the viewer may see.
const hidden = "only those who may view all tasks see why"

// Only returns the list as it is for viewers who may see only the tasks for which sees returns true.
// Of the others it has nothing: no count, no digest, and no text that may name them.
func (l *List) Only(sees func(task string) bool) *List {
	only := &List{reader: l.reader, effective: l.effective, rec: l.rec, sees: sees}
	only.digest = sync.OnceValues(only.makeDigest)
	for i := range l.entries {
		if sees(l.entries[i].name) {
			only.entries, only.tasks = append(only.entries, l.entries[i]), append(only.tasks, l.tasks[i])
		}
	}
	only.common = only.restricted(l.common)
	return only
}

// restricted returns what concerns all tasks, without what may name others than those of the list.
func (l *List) restricted(o apispec.Overview) apispec.Overview {
	for _, text := range []**string{&o.Unhealthy, &o.Problem} {
		if *text != nil {
			*text = new(hidden)
		}
	}
	if o.Refused != nil {
		o.Refused = &apispec.Refused{Bundle: o.Refused.Bundle, Error: hidden, Since: o.Refused.Since}
	}
	o.Overrides = slices.DeleteFunc(slices.Clone(o.Overrides), func(of apispec.Override) bool { return !l.sees(of.Task) })
	o.Gates, o.Replaced = nil, l.replaced(o.Replaced) // gates name what tasks watch
	return o
}

// replaced is what a replaced Consul means to the tasks of the list; nil if none waits for it.
func (l *List) replaced(all *apispec.ReplacedConsul) *apispec.ReplacedConsul {
	if all == nil {
		return nil
	}
	own := *all
	own.Tasks, own.Entries, own.Shown = 0, 0, ""
	for i := range l.tasks {
		if !selection.WaitsForReplaced(&l.tasks[i]) {
			continue
		}
		own.Tasks++
		if f := l.entries[i].facts; f != nil {
			if _, entries := f.unapplied(); entries != nil {
				own.Entries += entries.Removed
			}
		}
	}
	if own.Tasks == 0 {
		return nil
	}
	return &own
}
