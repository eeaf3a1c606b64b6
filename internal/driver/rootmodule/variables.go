package rootmodule

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/list"
)

// sensitiveSince is the first Terraform with sensitive variables.
var sensitiveSince = version.Must(version.NewVersion("0.14.0"))

// variables is variables.tf without its preamble.
func (m Module) variables() ([]byte, error) {
	var b bytes.Buffer
	for _, v := range inputs(m.Task) {
		if m.grouped(v) {
			fmt.Fprintf(&b, "\n# Grouped, so that Terraform converts it faster; main.tf joins the groups.\n"+
				"variable %q {\ntype = map(%s)\n}\n", v.Name, m.groupedType(v))
		} else {
			b.WriteString(v.Declaration(m.Types[v.Name]))
		}
	}
	if getsChanges(m.Task, m.Types) {
		b.WriteString(changesDeclaration)
	}
	for _, p := range m.providers() {
		if !p.Configured {
			continue
		}
		if err := checkName("provider", p.Name); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\nvariable %q {\ndefault = null\ndescription = \"Configuration object for %s\"\n", p.Name, p.Name)
		b.WriteString(m.sensitive())
		fmt.Fprintf(&b, "type = %s\n}\n", typeExpr(p.value()))
	}
	return hclwrite.Format(b.Bytes()), nil
}

// sensitive declares a variable as sensitive, if Terraform supports that.
func (m Module) sensitive() string {
	if m.Terraform == nil || m.Terraform.Core().GreaterThanOrEqual(sensitiveSince) {
		return "sensitive = true\n"
	}
	return ""
}

// moduleVariables is variables.module.tf and variables.auto.tfvars without
// their preambles.
func (m Module) moduleVariables() (declarations, values []byte, err error) {
	var decl, vals bytes.Buffer
	vals.WriteString("\n")
	for _, name := range m.Task.VariableNames() {
		if err := checkName("variables of task "+m.Task.Name, name); err != nil {
			return nil, nil, err
		}
		v, written := m.Task.Variables[name]
		if !written { // a template: its value comes with those of the providers
			fmt.Fprintf(&decl, "\nvariable %q {\ndefault = null\n%stype = string\n}\n", name, m.sensitive())
			continue
		}
		fmt.Fprintf(&decl, "\nvariable %q {\ndefault = null\ntype = %s\n}\n", name, typeExpr(v))
		fmt.Fprintf(&vals, "%s = %s\n", name, literal(v))
	}
	vals.WriteString("\n")
	return hclwrite.Format(decl.Bytes()), hclwrite.Format(vals.Bytes()), nil
}

// typeExpr returns the exact type constraint of a value; "any" for null, and for
// objects with keys that are not identifiers.
func typeExpr(v cty.Value) string {
	t := v.Type()
	switch {
	case v.IsNull():
		return "any"
	case t == cty.String, t == cty.Number, t == cty.Bool:
		return t.FriendlyName()
	case t.IsListType():
		return "list(any)"
	case t.IsSetType():
		return "set(any)"
	case t.IsMapType():
		return "map(any)"
	case t.IsTupleType():
		return "tuple([" + strings.Join(list.Map(v.AsValueSlice(), typeExpr), ", ") + "])"
	case t.IsObjectType():
		attrs := v.AsValueMap()
		if len(attrs) == 0 {
			return "object({})"
		}
		var b strings.Builder
		b.WriteString("object({\n")
		for _, name := range slices.Sorted(maps.Keys(attrs)) {
			if !hclsyntax.ValidIdentifier(name) {
				return "any"
			}
			fmt.Fprintf(&b, "%s = %s\n", name, typeExpr(attrs[name]))
		}
		b.WriteString("})")
		return b.String()
	default:
		return "any"
	}
}
