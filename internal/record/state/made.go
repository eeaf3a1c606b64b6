package state

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Made are the resources that a task has, as far as its latest run has found out. It has no values.
type Made struct {
	Run   string   `json:"run"`            // that has found them
	Task  string   `json:"task,omitempty"` // the former name of a renamed task that the run belongs to
	Count int      `json:"count"`
	Types TypeList `json:"types,omitempty"`
	// Addresses is where the addresses are kept, one a line: as many as MaxMade.
	Addresses Kept `json:"addresses,omitzero"`
}

const (
	// MaxMade is how many addresses of a task's resources are kept, and maxMadeBytes how long they
	// are together.
	MaxMade      = 2000
	maxMadeBytes = 128 << 10

	// maxTypes is how many types of resources a TypeList names, and maxTypeName how many bytes of each.
	maxTypes    = 12
	maxTypeName = 64

	// noTypes is the list of a task that is known to have no resources.
	noTypes = "0"

	// OtherTypes stands in a TypeList for all types that it does not name.
	OtherTypes = "…"
)

// TypeList is how many resources there are of each type, as one text: "aws_lb:1 aws_subnet:3". It is ""
// if that is not known.
type TypeList string

// Each returns the types, by name, with their numbers.
func (l TypeList) Each() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for field := range strings.FieldsSeq(string(l)) {
			name, text, _ := strings.Cut(field, ":")
			n, err := strconv.Atoi(text)
			if err == nil && !yield(name, n) {
				return
			}
		}
	}
}

// NewMade returns what a run has found: the addresses of all resources of its task, in any order. It
// sorts them. Addresses is not set; the text is what it is to have.
func NewMade(run string, addresses []string) (made *Made, text string) {
	slices.Sort(addresses)
	made = &Made{Run: run, Count: len(addresses)}
	types := map[string]int{}
	for _, address := range addresses {
		types[ResourceType(address)]++
	}
	names := slices.SortedFunc(maps.Keys(types), func(a, b string) int { return cmp.Or(types[b]-types[a], strings.Compare(a, b)) })
	if len(names) > maxTypes {
		for _, name := range names[maxTypes-1:] {
			types[OtherTypes] += types[name]
		}
		names = append(names[:maxTypes-1], OtherTypes)
	}
	slices.Sort(names)
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%s:%d", name, types[name]))
	}
	made.Types = TypeList(cmp.Or(strings.Join(list, " "), noTypes))
	var kept strings.Builder
	for _, address := range addresses[:min(len(addresses), MaxMade)] {
		if kept.Len()+len(address) < maxMadeBytes {
			kept.WriteString(strings.ReplaceAll(address, "\n", " ") + "\n")
		}
	}
	return made, kept.String()
}

// ResourceType returns the type of the resource with this address: aws_lb of
// module.web["a.b"].aws_lb.front[0].
func ResourceType(address string) string {
	parts := addressParts(address)
	for len(parts) > 2 && parts[0] == "module" {
		parts = parts[2:]
	}
	return strings.Map(func(r rune) rune {
		if r == ':' || r == ' ' {
			return '_' // no type has them
		}
		return r
	}, CutTo(parts[0], maxTypeName))
}

// addressParts splits an address at its dots, except those in the key of an instance.
func addressParts(address string) (parts []string) {
	begin, quoted := 0, false
	for i := 0; i < len(address); i++ {
		switch c := address[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			parts, begin = append(parts, address[begin:i]), i+1
		}
	}
	return append(parts, address[begin:])
}
