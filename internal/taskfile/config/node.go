package config

import (
	"iter"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// A node is one value of a configuration file. The three formats are read into
// the same tree, so that there is one decoder and one set of errors.
type node struct {
	kind    kind
	pos     Position
	text    string  // of a string, number or bool, as written
	items   []*node // of a list
	entries []entry // of an object, in order; only HCL blocks repeat a key
}

// An entry is one key of an object. A labelled block of HCL, `a "b" {}`, is the
// entry a with an object whose one entry is b, as in JSON: {"a": {"b": {}}}.
type entry struct {
	key   string
	pos   Position
	form  form
	label bool // the key was written as a label of a block
	value *node

	// superseded are the earlier values of a key that a file sets more than once.
	superseded []entry
}

type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindList
	kindObject
)

func (k kind) String() string {
	return [...]string{"null", "a bool", "a number", "a string", "a list", "a block or map"}[k]
}

// A form is how an entry was written. HCL tells a block from an attribute;
// JSON and YAML do not.
type form int

const (
	formPlain     form = iota // JSON, YAML
	formAttribute             // HCL: key = value
	formBlock                 // HCL: key { }
)

// maxDepth limits how deep values may be nested: a small file of brackets could
// exhaust the stack. No real file needs more than a dozen levels.
const maxDepth = 100

// objects returns the blocks of a value: itself, or each element of a list of
// objects. Null is an empty block, as in the YAML `local:`.
func (n *node) objects() ([]*node, bool) {
	switch n.kind {
	case kindNull:
		return []*node{{kind: kindObject, pos: n.pos}}, true
	case kindObject:
		return []*node{n}, true
	case kindList:
		for _, item := range n.items {
			if item.kind != kindObject {
				return nil, false
			}
		}
		return n.items, true
	default:
		return nil, false
	}
}

// repeated are the keys whose blocks have a number in paths.
var repeated = []string{"task", "service", "module_input", "source_input", "notify", "window"}

// below returns all entries below n with their paths, each before those below itself.
// The element of a list has the key of the list.
func (n *node) below(path, key string) iter.Seq2[string, entry] {
	return func(yield func(string, entry) bool) { n.yieldBelow(path, key, yield) }
}

func (n *node) yieldBelow(path, key string, yield func(string, entry) bool) bool {
	for i, item := range n.items {
		at := block.Indexed(path, i)
		if !yield(at, entry{key: key, pos: item.pos, value: item}) || !item.yieldBelow(at, key, yield) {
			return false
		}
	}
	indexes := map[string]int{}
	for _, e := range n.entries {
		at := block.Joined(path, e.key)
		if e.value.kind == kindObject && slices.Contains(repeated, e.key) {
			at = block.Indexed(at, indexes[e.key])
			indexes[e.key]++
		}
		if !yield(at, e) || !e.value.yieldBelow(at, e.key, yield) {
			return false
		}
	}
	return true
}

// set adds an entry, in place of what the object says of the key so far.
func (n *node) set(e entry) {
	for i := range n.entries {
		if n.entries[i].key == e.key && n.entries[i].form == e.form {
			e.superseded = append(n.entries[i].superseded, n.entries[i])
			n.entries[i] = e
			return
		}
	}
	n.entries = append(n.entries, e)
}

func identifier(s string) bool { return hclsyntax.ValidIdentifier(s) }
