package consul

import (
	"maps"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/condition"
)

// Change is what differs between two observations: the names of their
// elements, sorted.
type Change struct {
	Added, Removed, Changed []string
}

// Diff compares the elements of two observations.
func Diff(before, after map[string]string) Change {
	var c Change
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if old, ok := before[name]; !ok {
			c.Added = append(c.Added, name)
		} else if old != after[name] {
			c.Changed = append(c.Changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}

// String says it in plain words, such as "added web-3.node.dc1; changed
// web-1.node.dc1", and shortens long lists. Without a difference it is
// "nothing changed".
func (c Change) String() string {
	var clauses []string
	for _, list := range []struct {
		verb  string
		names []string
	}{{"added", c.Added}, {"removed", c.Removed}, {"changed", c.Changed}} {
		if len(list.names) > 0 {
			clauses = append(clauses, list.verb+" "+condition.Shorten(list.names))
		}
	}
	if len(clauses) == 0 {
		return "nothing changed"
	}
	return strings.Join(clauses, "; ")
}
