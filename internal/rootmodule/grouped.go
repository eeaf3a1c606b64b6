package rootmodule

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/terrapulse/terrapulse/internal/config"
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

	// groupSize is the number of entries of a group. From 30 to 200 it makes no
	// difference that could be measured.
	groupSize = 100
)

// grouped reports whether the variable of an input is a map of groups.
func (m Module) grouped(variable string) bool {
	for _, block := range m.Blocks {
		if block.Variable == variable {
			return max(len(block.Services), len(block.Catalog)) >= groupedFrom
		}
	}
	return false
}

// groupedType is the type of one group. Where the module declares fewer
// attributes than an input has, it is the module's own type: what merge joins
// then needs no further conversion, which would be quadratic in all entries.
// Where the module's type differs in another way, Terraform converts as usual.
func (m Module) groupedType(variable string) string {
	if theirs, ok := m.narrower(variable); ok {
		return typeexpr.TypeString(theirs)
	}
	text, _ := declaredType(variable, m.WantsPorts())
	return text
}

// wanted are the attributes of a grouped input that its module declares; nil if
// all of them are written. With 2 of 16 attributes, Terraform needs a tenth of
// the time and a third of the memory.
func (m Module) wanted(variable string) map[string]bool {
	if !m.grouped(variable) {
		return nil
	}
	theirs, ok := m.narrower(variable)
	if !ok {
		return nil
	}
	names := map[string]bool{}
	for name := range theirs.ElementType().AttributeTypes() {
		names[name] = true
	}
	return names
}

// narrower is the type that the module declares for an input, if it is a map of
// objects that have some of the input's attributes, each with its type.
func (m Module) narrower(variable string) (cty.Type, bool) {
	_, ours := declaredType(variable, m.WantsPorts())
	theirs, ok := parseType(m.Types[variable])
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

// declaredType is the type that declarations has for an input.
func declaredType(variable string, ports bool) (text string, parsed cty.Type) {
	source := []byte(declaration(variable, ports))
	file, diags := hclsyntax.ParseConfig(source, VariablesFile, hcl.InitialPos)
	if diags.HasErrors() {
		panic(diags) // a constant of this package
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
	for _, name := range Inputs(t) {
		_, types[name] = declaredType(name, WantsPorts(declared))
	}
	return types
}

// WantsPorts reports whether the module declares the attribute ports of its
// services.
func (m Module) WantsPorts() bool { return WantsPorts(m.Types) }

// WantsPorts reports whether a module with these types of variables declares
// the attribute ports of its services, with a type that can take them. An
// optional attribute of another type is the module's own.
func WantsPorts(types map[string]string) bool {
	expr, diags := hclsyntax.ParseExpression([]byte(types[ServicesVariable]), VariablesFile, hcl.InitialPos)
	if diags.HasErrors() {
		return false
	}
	t, _, diags := typeexpr.TypeConstraintWithDefaults(expr) // with optional attributes
	if diags.HasErrors() || !t.IsMapType() || !t.ElementType().IsObjectType() || !t.ElementType().HasAttribute("ports") {
		return false
	}
	ports, theirs := cty.Map(cty.Number), t.ElementType().AttributeType("ports")
	return theirs.Equals(ports) || convert.GetConversion(ports, theirs) != nil
}

func parseType(text string) (cty.Type, bool) {
	expr, diags := hclsyntax.ParseExpression([]byte(text), VariablesFile, hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilType, false
	}
	t, diags := typeexpr.TypeConstraint(expr)
	return t, !diags.HasErrors()
}
