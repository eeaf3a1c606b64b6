package driver

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// maxCauses is how many entries one resource names, and maxAllCauses how many all
	// resources of a plan name.
	maxCauses    = 20
	maxAllCauses = 10_000

	// minToken is the shortest id that is searched for in values: a shorter one is
	// perhaps something else.
	minToken = 3
)

// WithCauses returns the plan with the entries that cause the change of each resource.
// entries are those that came, went or changed since the last apply.
//
// An entry causes a change if a key in the resource's address is its name, id, address or
// service, or else if a value that changes names it on the side where it should be: an
// entry that came in the new value only, one that went in the old value only. The other
// resources of the same instance of a module have the same causes. If that is not clear,
// a resource has no cause.
func (p Plan) WithCauses(entries []state.EntryChange) Plan {
	if len(entries) == 0 || len(p.Resources) == 0 {
		return p
	}
	index := newEntryIndex(entries)
	p.Resources = slices.Clone(p.Resources)
	found := make([][]int, len(p.Resources))
	ofModule := map[string][]int{}
	for i, r := range p.Resources {
		if found[i] = index.byKey(r); len(found[i]) == 0 {
			found[i] = index.byValues(r.Attributes)
		}
		if module := moduleInstance(r.Address); module != "" {
			ofModule[module] = firstCauses(slices.Concat(ofModule[module], found[i]))
		}
	}
	left := maxAllCauses
	for i := range p.Resources {
		r := &p.Resources[i]
		causes := found[i]
		if len(causes) == 0 {
			causes = ofModule[moduleInstance(r.Address)]
		}
		causes = causes[:min(len(causes), left)]
		left -= len(causes)
		for _, n := range causes {
			r.Causes = append(r.Causes, entries[n].Name)
		}
	}
	return p
}

// firstCauses returns the entries in their order, each once: maxCauses at most. It
// changes the slice that it gets.
func firstCauses(entries []int) []int {
	slices.Sort(entries)
	entries = slices.Compact(entries)
	return entries[:min(len(entries), maxCauses)]
}

// entryIndex finds entries by what a plan names.
type entryIndex struct {
	entries []state.EntryChange
	tokens  map[string][]token
	groups  map[string][]int // instances by their service
}

// token is a text that stands for an entry.
type token struct {
	entry int
	side  side // on which the text is if the entry causes the change
}

// side is a side of a change.
type side int

const (
	either side = iota
	before
	after
)

func newEntryIndex(entries []state.EntryChange) *entryIndex {
	x := &entryIndex{entries: entries, tokens: map[string][]token{}, groups: map[string][]int{}}
	for n, e := range entries {
		add := func(text string, s side) {
			known := x.tokens[text]
			if again := len(known) > 0 && known[len(known)-1].entry == n; text != "" && !again {
				x.tokens[text] = append(known, token{n, s})
			}
		}
		named := either
		switch e.Action {
		case state.EntryAdded:
			named = after
		case state.EntryRemoved:
			named = before
		}
		add(e.Name, named)
		add(e.ID, named)
		if e.ID != "" {
			x.groups[e.Group] = append(x.groups[e.Group], n)
		}
		if e.Before != "" { // the address has changed
			named = after
			add(e.Before, before)
		}
		add(e.Address, named)
		if was, is := hostOf(e.Before), hostOf(e.Address); was != is {
			add(was, before)
			add(is, named)
		}
	}
	return x
}

// one returns the only entry that a text stands for.
func (x *entryIndex) one(text string) (token, bool) {
	if found := x.tokens[text]; len(found) == 1 {
		return found[0], true
	}
	return token{}, false
}

// keys are the instance keys in an address.
var keys = regexp.MustCompile(`\["((?:[^"\\]|\\.)*)"\]`)

// byKey returns the entries that the innermost possible key in the resource's address
// stands for.
func (x *entryIndex) byKey(r ResourceChange) []int {
	possible := func(n int) bool {
		action := x.entries[n].Action
		return !(r.Action == Delete && action == state.EntryAdded || r.Action == Create && action == state.EntryRemoved)
	}
	found := keys.FindAllStringSubmatch(r.Address, -1)
	for _, match := range slices.Backward(found) {
		key, err := strconv.Unquote(`"` + match[1] + `"`)
		if err != nil {
			key = match[1]
		}
		if t, ok := x.one(key); ok && possible(t.entry) {
			return []int{t.entry}
		}
		var entries []int
		for _, n := range x.groups[key] {
			if len(entries) == maxCauses {
				break
			}
			if possible(n) {
				entries = append(entries, n)
			}
		}
		if len(entries) > 0 {
			return entries
		}
	}
	return nil
}

// moduleInstance is the part of an address that names the innermost instance of a module
// with a key; "" if there is none.
func moduleInstance(address string) string {
	end := 0
	for _, match := range keys.FindAllStringIndex(address, -1) {
		start := strings.LastIndex(address[:match[0]], ".") + 1
		if strings.HasSuffix(address[:start], "module.") {
			end = match[1]
		}
	}
	return address[:end]
}

// byValues returns the entries that changed values name. A line that both sides have says
// nothing, such as that of another server in a file.
func (x *entryIndex) byValues(attributes []AttributeChange) []int {
	was, is := map[string]bool{}, map[string]bool{}
	for _, a := range attributes {
		if !a.Sensitive {
			prefix := ""
			for _, match := range keys.FindAllStringSubmatch(a.Path, -1) {
				prefix += match[1] + " "
			}
			addLines(was, prefix, a.Before)
			addLines(is, prefix, a.After)
		}
	}
	found := map[int]*evidence{}
	x.collect(found, was, is, before)
	x.collect(found, is, was, after)
	var causes []int
	for n, e := range found {
		if e.caused() {
			causes = append(causes, n)
		}
	}
	return firstCauses(causes)
}

// evidence is where the lines that only one side has name an entry.
type evidence struct {
	right, wrong bool          // on the side where the text should be, or should not be
	on           map[side]bool // the sides that name an entry that may be on either
	shared       bool          // such a line names another entry, too
}

// caused reports whether the entry causes the change. An entry that changed and is named
// on both sides does only if the lines are about nothing else.
func (e evidence) caused() bool { return !e.wrong && (e.right || len(e.on) == 1 || !e.shared) }

// collect adds what the lines of a side say that the other side does not have.
func (x *entryIndex) collect(found map[int]*evidence, lines, other map[string]bool, s side) {
	for line := range lines {
		if other[line] {
			continue
		}
		here, entries := map[token]bool{}, map[int]bool{}
		for _, word := range strings.FieldsFunc(line, between) {
			for _, text := range candidates(word) {
				if t, ok := x.one(text); ok && len(text) >= minToken {
					here[t], entries[t.entry] = true, true
				}
			}
		}
		for t := range here {
			e := found[t.entry]
			if e == nil {
				e = &evidence{on: map[side]bool{}}
				found[t.entry] = e
			}
			switch t.side {
			case either:
				e.on[s] = true
				e.shared = e.shared || len(entries) > 1
			case s:
				e.right = true
			default:
				e.wrong = true
			}
		}
	}
}

// between reports whether a character is not part of a name, an id or an address.
func between(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_.:/@[]%-", r)
}

// candidates are the texts in a word that may stand for an entry: the word, the parts of a
// path or URL, and the hosts of these.
func candidates(word string) []string {
	word = strings.Trim(word, ".:/")
	all := []string{word, strings.Trim(word, "[]")}
	if parts := strings.Split(word, "/"); len(parts) > 1 {
		for _, part := range parts {
			all = append(all, strings.Trim(part, ".:"))
		}
	}
	for _, text := range all {
		if host := hostOf(text); host != "" {
			all = append(all, host)
		}
	}
	return all
}

// hostOf is the host of an address with a port; "" if the text is none.
func hostOf(text string) string {
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		return ""
	}
	return host
}

// addLines adds the lines of all texts in a value, each after a prefix.
func addLines(lines map[string]bool, prefix string, value any) {
	switch v := value.(type) {
	case nil:
	case []any:
		for _, element := range v {
			addLines(lines, prefix, element)
		}
	case map[string]any:
		for key, element := range v {
			addLines(lines, prefix+key+" ", element)
		}
	default:
		for line := range strings.Lines(fmt.Sprint(v)) {
			lines[prefix+strings.TrimSpace(line)] = true
		}
	}
}
