package rootmodule

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/tfvars"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// changesVariable has the names of the entries that came, went and changed since the
// last apply. Only a module that declares it gets it.
const changesVariable = "changes"

// The names are keys of maps: of a list of 10,000 texts, Terraform takes a second to
// convert the type.
const (
	changesDeclaration = `
# Which entries differ from those that were applied last
variable "changes" {
  description = "Names of the entries that were added, removed and changed since the last apply"
  type = object({
    added   = map(string)
    removed = map(string)
    changed = map(string)
  })
}
`
	changesArgument = `changes = {
  added   = keys(var.changes.added)
  removed = keys(var.changes.removed)
  changed = keys(var.changes.changed)
}
`
)

// changesType is the type of what the module gets.
var changesType = cty.Object(map[string]cty.Type{"added": cty.List(cty.String), "removed": cty.List(cty.String), "changed": cty.List(cty.String)})

// getsChanges reports whether the task's module gets the variable: it declares an object
// of such lists or sets, and the task does not set the variable itself. A variable of another
// type was not meant for this.
func getsChanges(t *config.Task, declared map[string]string) bool {
	if slices.Contains(t.VariableNames(), changesVariable) {
		return false
	}
	expr, diags := hclsyntax.ParseExpression([]byte(declared[changesVariable]), VariablesFile, hcl.InitialPos)
	if diags.HasErrors() {
		return false
	}
	theirs, _, diags := typeexpr.TypeConstraintWithDefaults(expr) // it may have optional attributes
	if diags.HasErrors() || !theirs.IsObjectType() || len(theirs.AttributeTypes()) == 0 {
		return false
	}
	for name, of := range theirs.AttributeTypes() {
		if !changesType.HasAttribute(name) || !of.IsListType() && !of.IsSetType() || of.ElementType() != cty.String {
			return false
		}
	}
	return true
}

// writeChanges writes the value of the variable.
func (m Module) writeChanges(w *tfvars.Writer) {
	w.WriteString("\n" + changesVariable + " = {\n")
	for _, list := range []struct {
		name  string
		names []string
	}{{"added", m.Changes.Added}, {"removed", m.Changes.Removed}, {"changed", m.Changes.Changed}} {
		fmt.Fprintf(w, "  %-7s = {", list.name)
		for i, name := range list.names {
			if i > 0 {
				w.WriteString(", ")
			}
			w.Quoted(name)
			w.WriteString(` = ""`)
		}
		w.WriteString("}\n")
	}
	w.WriteString("}\n")
}
