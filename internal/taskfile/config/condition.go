package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// A kindBlock is a block of a task file with one block for each of its kinds, which are registered.
type kindBlock interface {
	kinds() []key
	// keys are those of the blocks that are there.
	keys() kindKeys
}

// kindKeys are the keys of blocks by the names of their kinds.
type kindKeys map[string]placed

type placed interface{ Place() *block.Origin }

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
		if b[k.Name] != nil && b[k.Name].Place().Set {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

type conditionBlocks struct{ kindKeys }

func (conditionBlocks) kinds() (all []key) {
	for _, k := range condition.Kinds {
		all = append(all, kindKey(k.Name, k.Doc, k.Keys))
	}
	return all
}

type inputBlocks struct{ kindKeys }

func (inputBlocks) kinds() (all []key) {
	for _, k := range condition.Kinds {
		if k.InputKeys != nil {
			all = append(all, kindKey(k.Name, k.InputDoc, k.InputKeys))
		}
	}
	return all
}

// kindKey is the key of a kind's block.
func kindKey[K placed](name, doc string, newKeys func() K) key {
	return key{name: name, newKeys: func() placed { return newKeys() }, typ: reflect.TypeOf(newKeys()).Elem(), tag: reflect.StructTag(fmt.Sprintf("doc:%q", doc))}
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
		names := list.Map(kinds, func(k *condition.Kind) string { return k.Name })
		l.Fail(raw.Origin, fmt.Sprintf("expected only one condition but got %d: %s", len(kinds), strings.Join(names, ", ")), "make a task for each")
	}
	keys := raw.kindKeys[kinds[0].Name].(condition.Keys)
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
			inputs = append(inputs, r.kindKeys[k.Name].(condition.Keys).Spec(&l.Report, "module_input"))
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
