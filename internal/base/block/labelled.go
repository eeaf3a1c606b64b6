package block

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
)

// Labelled is embedded by a block with a label, as in check "name" { ... }. In YAML and
// JSON the label is a key above the block's own.
type Labelled struct {
	Origin
	Label string
}

// SetLabel notes the label.
func (l *Labelled) SetLabel(label string) { l.Label = label }

func (l *Labelled) labelled() *Labelled { return l }

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// IsName reports whether a text can be the name of a block.
func IsName(text string) bool { return nameForm.MatchString(text) }

// Named is what blocks with labels become, such as checks.
type Named[S any] struct {
	What string // for people, such as "check"
	Name func(S) string
	// New returns one with the defaults.
	New func(name string) S
}

// Merge returns what blocks become: those of parents, which a block of the same name changes, and the
// others, sorted by name. Of blocks with the same name, the first counts, and the others are errors.
func Merge[K any, P interface {
	*K
	labelled() *Labelled
}, S any](r *Report, named Named[S], blocks []K, parents []S, convert func(k P, parent S) S) []S {
	all := slices.Clone(parents)
	first := map[string]*Labelled{}
	for i := range blocks {
		k := P(&blocks[i])
		l := k.labelled()
		if other := first[l.Label]; other != nil {
			r.Fail(l.Origin, fmt.Sprintf("another %s (%s) has the name %s", named.What, other.Pos, Quoted(l.Label)), "give each a name of its own")
			continue
		}
		first[l.Label] = l
		if !IsName(l.Label) {
			r.Fail(l.Origin, fmt.Sprintf("not a name for a %s: %s", named.What, Quoted(l.Label)), "letters, digits, '_', '-' and '.'")
		}
		at := slices.IndexFunc(all, func(s S) bool { return named.Name(s) == l.Label })
		if at < 0 {
			at, all = len(all), append(all, named.New(l.Label))
		}
		all[at] = convert(k, all[at])
	}
	list.Sort(all, func(a, b S) int { return strings.Compare(named.Name(a), named.Name(b)) })
	return all
}
