package rootmodule

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Terraform takes the square of the number of entries to convert a map of
// objects or lists: go-cty compares the type of each entry with that of each
// other. 10,000 services took 22 s of a plain apply on 2 cores, and 20,000
// catalog services 13 s. So the root module passes a large input in groups: each
// is converted by itself, and merge joins them without a conversion. The module
// gets the same value. Measured with Terraform 1.11.4: 6 s and 3.5 s. A map of
// strings, as consul_kv is, takes linear time and is not grouped.
const (
	// groupedFrom is the number of entries from which an input is grouped. Below
	// it a conversion takes less than 0.1 s.
	groupedFrom = 500
)

// grouped reports whether the variable is a map of groups.
func (m Module) grouped(v *condition.Variable) bool {
	if !v.Grouped {
		return false
	}
	for _, block := range m.Blocks {
		if block.Variable == v.Name {
			return block.Entries != nil && block.Entries.Len() >= groupedFrom
		}
	}
	return false
}

// groupedType is the type of one group. If the module declares fewer attributes
// than the variable has, it is the module's own type: the result of merge then
// needs no further conversion, which would be quadratic in all entries. If the
// module's type differs in another way, Terraform converts as usual.
func (m Module) groupedType(v *condition.Variable) string {
	if theirs, ok := m.narrower(v); ok {
		return typeexpr.TypeString(theirs)
	}
	text, _ := typeOf(v, m.Types)
	return text
}

// attributes are the attributes of an entry to write; nil if an entry is no
// object. Of a grouped variable, they are those that its module declares: with 2
// of 16 attributes, Terraform needs a tenth of the time and a third of the memory.
func (m Module) attributes(v *condition.Variable) map[string]bool {
	_, t := typeOf(v, m.Types)
	if theirs, ok := m.narrower(v); ok && m.grouped(v) {
		t = theirs
	}
	if !t.ElementType().IsObjectType() {
		return nil
	}
	names := map[string]bool{}
	for name := range t.ElementType().AttributeTypes() {
		names[name] = true
	}
	return names
}

// narrower is the type that the module declares for a variable, if it is a map of
// objects that have some of the variable's attributes, each with its type.
func (m Module) narrower(v *condition.Variable) (cty.Type, bool) {
	_, ours := typeOf(v, m.Types)
	theirs, ok := parseType(m.Types[v.Name])
	if !ok || !theirs.IsMapType() || !theirs.ElementType().IsObjectType() || !ours.ElementType().IsObjectType() {
		return cty.NilType, false
	}
	of := ours.ElementType()
	for name, t := range theirs.ElementType().AttributeTypes() {
		if !of.HasAttribute(name) || !of.AttributeType(name).Equals(t) {
			return cty.NilType, false
		}
	}
	return theirs, true
}

// typeOf is the type that the root module declares for a variable. declared are
// the types that the module declares.
func typeOf(v *condition.Variable, declared map[string]string) (text string, parsed cty.Type) {
	source := []byte(v.Declaration(declared[v.Name]))
	file, diags := hclsyntax.ParseConfig(source, VariablesFile, hcl.InitialPos)
	if diags.HasErrors() {
		panic(diags) // a constant of package condition
	}
	expr := file.Body.(*hclsyntax.Body).Blocks[0].Body.Attributes["type"].Expr
	text = string(expr.Range().SliceBytes(source))
	parsed, _ = parseType(text)
	return text, parsed
}

// InputTypes returns the types of what the task's module gets from Consul, by
// the names of the variables. declared are the types that the module declares.
func InputTypes(t *config.Task, declared map[string]string) map[string]cty.Type {
	types := map[string]cty.Type{}
	for _, v := range inputs(t) {
		_, types[v.Name] = typeOf(v, declared)
	}
	if getsChanges(t, declared) {
		types[changesVariable] = changesType
	}
	return types
}

func parseType(text string) (cty.Type, bool) {
	expr, diags := hclsyntax.ParseExpression([]byte(text), VariablesFile, hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilType, false
	}
	t, diags := typeexpr.TypeConstraint(expr)
	return t, !diags.HasErrors()
}
