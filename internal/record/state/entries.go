package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// KeptEntries is how many entries of each action a record names.
	KeptEntries = 20

	// keptEntryBytes is how long the texts of these are together, about.
	keptEntryBytes = 8 << 10

	// saidEntries is how many entries of each action a sentence names.
	saidEntries = 5
)

// EntryChanges are the entries of the condition and the module inputs that came, went
// and changed since the last apply: service instances, services, keys and the like.
type EntryChanges struct {
	Added   int           `json:"added"`
	Removed int           `json:"removed"`
	Changed int           `json:"changed"`
	Entries []EntryChange `json:"entries,omitempty"` // the first of each action; removed ones first
}

// EntryAction is what happened to an entry.
type EntryAction string

// The actions, in the order in which they are listed.
const (
	EntryRemoved EntryAction = "removed"
	EntryChanged EntryAction = "changed"
	EntryAdded   EntryAction = "added"
)

// marks are what the actions are in a sentence.
var marks = map[EntryAction]string{EntryRemoved: "-", EntryChanged: "~", EntryAdded: "+"}

// EntryChange is one entry that came, went or changed.
type EntryChange struct {
	Action EntryAction `json:"action"`
	Name   string      `json:"name"`  // its key in the module's variable
	Group  string      `json:"group"` // the service of an instance, the kind of a config entry or resource; of others, what they are in the plural

	// Of a service instance, where it is known:
	ID      string `json:"id,omitempty"`
	Address string `json:"address,omitempty"` // with the port; of a removed instance, the last one
	// Before is the former address, if it is another one now.
	Before string `json:"address_before,omitempty"`
	// Attributes are those that changed.
	Attributes []string `json:"attributes,omitempty"`
}

// Count counts entries, and lists the first of them. entry is called for these alone.
func (c *EntryChanges) Count(action EntryAction, names []string, entry func(name string) EntryChange) {
	switch action {
	case EntryRemoved:
		c.Removed += len(names)
	case EntryChanged:
		c.Changed += len(names)
	case EntryAdded:
		c.Added += len(names)
	}
	listed, size := 0, 0
	for _, e := range c.Entries {
		size += e.size()
		if e.Action == action {
			listed++
		}
	}
	for _, name := range names[:min(len(names), max(0, KeptEntries-listed))] {
		e := entry(name)
		e.Action, e.Name = action, name
		if size += e.size(); size > keptEntryBytes {
			break
		}
		c.Entries = append(c.Entries, e)
	}
	order := []EntryAction{EntryRemoved, EntryChanged, EntryAdded}
	slices.SortStableFunc(c.Entries, func(a, b EntryChange) int {
		return cmp.Compare(slices.Index(order, a.Action), slices.Index(order, b.Action))
	})
}

func (e EntryChange) size() int {
	return len(e.Name) + len(e.Group) + len(e.ID) + len(e.Address) + len(e.Before) + len(strings.Join(e.Attributes, ""))
}

// Any reports whether an entry came, went or changed. It is false if that is not known.
func (c *EntryChanges) Any() bool { return c != nil && c.Added+c.Removed+c.Changed > 0 }

// OnlyRemovals reports whether entries went, and none came or changed.
func (c *EntryChanges) OnlyRemovals() bool { return c.Any() && c.Added+c.Changed == 0 }

// String says it as people who know Consul do, such as
// "web: -web-3 (10.0.0.3:8080), +web-4 (10.0.0.4:8080)". It is "" if nothing changed, or
// if it is not known what.
func (c *EntryChanges) String() string {
	if !c.Any() {
		return ""
	}
	said := map[EntryAction]int{}
	groups := map[string][]string{}
	var order []string
	for _, e := range c.Entries {
		if said[e.Action] == saidEntries {
			continue
		}
		said[e.Action]++
		if groups[e.Group] == nil {
			order = append(order, e.Group)
		}
		groups[e.Group] = append(groups[e.Group], marks[e.Action]+e.String())
	}
	var clauses []string
	for _, group := range order {
		clauses = append(clauses, group+": "+strings.Join(groups[group], ", "))
	}
	text := strings.Join(clauses, "; ")
	var more []string
	for _, rest := range []struct {
		n      int
		action EntryAction
	}{{c.Removed, EntryRemoved}, {c.Changed, EntryChanged}, {c.Added, EntryAdded}} {
		if n := rest.n - said[rest.action]; n > 0 {
			more = append(more, fmt.Sprintf("%d more %s", n, rest.action))
		}
	}
	if len(more) > 0 {
		text = strings.TrimPrefix(text+" and "+strings.Join(more, ", "), " and ")
	}
	return Cut(text)
}

// String is how people call the entry, and what is known of it.
func (e EntryChange) String() string {
	var known []string
	switch {
	case e.Before != "":
		known = append(known, e.Before+" -> "+e.Address)
	case e.Address != "" && len(e.Attributes) == 0:
		known = append(known, e.Address)
	}
	for _, name := range e.Attributes {
		if e.Before == "" || name != "address" && name != "port" { // these are shown already
			known = append(known, name)
		}
	}
	if len(known) == 0 {
		return cmp.Or(e.ID, e.Name)
	}
	return fmt.Sprintf("%s (%s)", cmp.Or(e.ID, e.Name), strings.Join(known, ", "))
}
