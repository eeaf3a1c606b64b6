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
	// of returns what makes the keys of a kind's block, and what the block is for; nil
	// if there is no such block.
	of(*condition.Kind) (keys func() condition.Keys, doc string)
	// keys are those of the blocks that are there.
	keys() kindKeys
}

type kindKeys map[*condition.Kind]condition.Keys

func (b *kindKeys) keys() kindKeys {
	if *b == nil {
		*b = kindKeys{}
	}
	return *b
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

func (conditionBlocks) of(k *condition.Kind) (func() condition.Keys, string) { return k.Keys, k.Doc }

type inputBlocks struct{ kindKeys }

func (inputBlocks) of(k *condition.Kind) (func() condition.Keys, string) {
	return k.InputKeys, k.InputDoc
}

// kindsOf returns the keys of a block that are kinds.
func kindsOf(t reflect.Type) []key {
	b, ok := reflect.New(t).Interface().(kindBlock)
	if !ok {
		return nil
	}
	var keys []key
	for _, k := range condition.Kinds {
		if of, doc := b.of(k); of != nil {
			keys = append(keys, key{
				name: k.Name, kind: k, typ: reflect.TypeOf(of()).Elem(),
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
	return strings.Join(names[:last], ", ") + map[bool]string{true: " or ", false: " and "}[input] + names[last]
}

// condition returns a task's condition, or none.
func (l *loader) condition(raw *rawCondition) Condition {
	kinds := raw.set()
	if len(kinds) == 0 {
		if raw.Set {
			l.Missing(raw.Origin, "the condition has no type", "write one of "+kindNames(false)+` after condition, as in condition "services" { ... }`)
		}
		return Condition{}
	}
	if len(kinds) > 1 {
		var names []string
		for _, k := range kinds {
			names = append(names, k.Name)
		}
		l.Fail(raw.Origin, fmt.Sprintf("expected only one condition but got %d: %s", len(kinds), strings.Join(names, ", ")), "make a task for each")
	}
	keys := raw.kindKeys[kinds[0]]
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
			inputs = append(inputs, r.kindKeys[k].Spec(&l.Report, "module_input"))
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
