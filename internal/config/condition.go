package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config/block"
)

// A kindBlock is a block of a task file with one block for each kind.
type kindBlock interface {
	// keysOf returns the keys of a kind's block, which are made if the block was not
	// set.
	keysOf(*condition.Kind) condition.Keys
	// written reports whether keysOf has made them.
	written(*condition.Kind) bool
	// described returns new keys of the kind's block and what it is; nil if there is
	// no such block.
	described(*condition.Kind) (condition.Keys, string)
}

type kindKeys map[*condition.Kind]condition.Keys

func (b kindKeys) written(k *condition.Kind) bool { return b[k] != nil }

func (b *kindKeys) make(k *condition.Kind, make func() condition.Keys) condition.Keys {
	if *b == nil {
		*b = kindKeys{}
	}
	if (*b)[k] == nil {
		(*b)[k] = make()
	}
	return (*b)[k]
}

// set returns the kinds whose block a file has.
func (b kindKeys) set() []*condition.Kind {
	var kinds []*condition.Kind
	for _, k := range condition.Kinds {
		if b[k] != nil && b[k].Place().Set {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

type conditionBlocks struct{ kindKeys }

func (b *conditionBlocks) keysOf(k *condition.Kind) condition.Keys { return b.make(k, k.Keys) }

func (*conditionBlocks) described(k *condition.Kind) (condition.Keys, string) { return k.Keys(), k.Doc }

type inputBlocks struct{ kindKeys }

func (b *inputBlocks) keysOf(k *condition.Kind) condition.Keys { return b.make(k, k.InputKeys) }

func (*inputBlocks) described(k *condition.Kind) (condition.Keys, string) {
	if k.InputKeys == nil {
		return nil, ""
	}
	return k.InputKeys(), k.InputDoc
}

// kindsOf returns the keys of a block that are kinds.
func kindsOf(t reflect.Type) []key {
	b, ok := reflect.New(t).Interface().(kindBlock)
	if !ok {
		return nil
	}
	var keys []key
	for _, k := range condition.Kinds {
		if of, doc := b.described(k); of != nil {
			keys = append(keys, key{
				name: k.Name, kind: k, typ: reflect.TypeOf(of).Elem(),
				tag: reflect.StructTag(fmt.Sprintf("doc:%q", doc)),
			})
		}
	}
	return keys
}

// kindNames lists the names of kinds for a hint.
func kindNames(input bool) string {
	var names []string
	for _, k := range condition.Kinds {
		if !input || k.InputKeys != nil {
			names = append(names, k.Name)
		}
	}
	last := len(names) - 1
	if input {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// condition returns a task's condition, or none.
func (l *loader) condition(raw *rawCondition) Condition {
	kinds := raw.set()
	switch {
	case len(kinds) == 0:
		if raw.Set {
			l.Missing(raw.Origin, "the condition has no type", "write one of "+kindNames(false)+` after condition, as in condition "services" { ... }`)
		}
		return Condition{}
	case len(kinds) > 1:
		var names []string
		for _, k := range kinds {
			names = append(names, k.Name)
		}
		l.Fail(raw.Origin, fmt.Sprintf("expected only one condition but got %d: %s", len(kinds), strings.Join(names, ", ")), "make a task for each")
	}
	keys := raw.keysOf(kinds[0])
	c := Condition{Spec: keys.Spec(&l.Report, "condition")}
	if use, ok := keys.(interface{ AsModuleInput(*block.Report) bool }); ok {
		c.UseAsModuleInput = use.AsModuleInput(&l.Report)
	}
	return c
}

func (l *loader) moduleInputs(raw []rawModuleInput) []condition.Spec {
	var inputs []condition.Spec
	for i := range raw {
		r := &raw[i]
		kinds := r.set()
		if len(kinds) == 0 {
			l.Missing(r.Origin, "the module_input is empty", "write "+kindNames(true)+` after module_input, as in module_input "services" { ... }`)
		}
		for _, k := range kinds {
			inputs = append(inputs, r.keysOf(k).Spec(&l.Report, "module_input"))
		}
	}
	return inputs
}

// uniqueVariables reports module inputs that render the same variable of the
// module as another, or as the condition.
func (l *loader) uniqueVariables(of *condition.Kind, inputs []rawModuleInput) {
	seen := map[*condition.Variable]bool{}
	for i := range inputs {
		in := &inputs[i]
		for _, k := range in.set() {
			if of != nil && k.Variable == of.Variable {
				l.Fail(in.Origin, fmt.Sprintf("task's condition block and module_input block both monitor %q variable type", k.Variable.Name),
					"condition and module_input variable type must be unique: remove the module_input")
			}
			if seen[k.Variable] {
				l.Fail(in.Origin, fmt.Sprintf("more than one 'module_input' block for the %q variable", k.Variable.Name), "variable types must be unique: join the blocks")
			}
			seen[k.Variable] = true
		}
	}
}
