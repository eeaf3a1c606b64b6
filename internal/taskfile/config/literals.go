package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// A Literal is a text, number or bool of a file.
type Literal struct {
	Position
	Key  string // full path of the key, such as "task[0].variables.size"
	Name string // the key itself, such as "size"; of an element of a list, the list's
	Text string
}

// Literals returns the literals of the files of the configuration and of its
// tasks' variable files. It reads the files again.
func Literals(cfg *Config) ([]Literal, error) {
	l := loader{Options: Options{Dir: cfg.dir}}
	var all []Literal
	keep := func(f Literal) { all = append(all, f) }
	for _, file := range cfg.files {
		src, err := l.readFile(file)
		if err != nil {
			return nil, err
		}
		root, diags := parseFile(file, src)
		if root == nil {
			return nil, Errors(diags)
		}
		root.literals("", "", keep)
	}
	read := map[string]bool{}
	for i := range cfg.Tasks {
		for _, file := range cfg.Tasks[i].VariableFiles {
			if read[file] {
				continue
			}
			read[file] = true
			src, err := l.readFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, VariableLiterals(file, src)...)
		}
	}
	return all, nil
}

// literals calls f for every scalar of a tree, also where a later value supersedes it.
func (n *node) literals(path, key string, f func(Literal)) {
	n.literal(path, key, f)
	for path, e := range n.below(path, key) {
		e.value.literal(path, e.key, f)
		for _, old := range e.superseded {
			old.value.literals(path, e.key, f)
		}
	}
}

// literal calls f for a scalar, or for the scalars of a text that is Terraform source.
func (n *node) literal(path, key string, f func(Literal)) {
	switch {
	case n.kind == kindNull, n.kind == kindList, n.kind == kindObject:
	case n.kind == kindString && variablePath.MatchString(path):
		expr, diags := hclsyntax.ParseExpression([]byte(n.text), n.pos.File, hcl.InitialPos)
		if diags.HasErrors() {
			return
		}
		expressionLiterals(expr, path, key, func(found Literal) {
			found.Position = n.pos
			f(found)
		})
	default:
		f(Literal{n.pos, path, key, n.text})
	}
}

// VariableLiterals returns the literals of a variable file; none if it cannot be
// parsed.
func VariableLiterals(file string, src []byte) []Literal {
	if block.TooDeep(src) {
		return nil
	}
	f, diags := parseVariables(file, src)
	if diags.HasErrors() {
		return nil
	}
	var all []Literal
	attrs, _ := f.Body.JustAttributes()
	for _, name := range sortedKeys(attrs) {
		expressionLiterals(attrs[name].Expr, name, name, func(found Literal) { all = append(all, found) })
	}
	return all
}

// expressionLiterals calls f for every scalar of an expression.
func expressionLiterals(expr hcl.Expression, path, name string, f func(Literal)) {
	if pairs, diags := hcl.ExprMap(expr); !diags.HasErrors() {
		for _, p := range pairs {
			key, diags := p.Key.Value(nil)
			if text, err := convert.Convert(key, cty.String); !diags.HasErrors() && err == nil && text.IsKnown() && !text.IsNull() {
				expressionLiterals(p.Value, block.Joined(path, text.AsString()), text.AsString(), f)
			}
		}
		return
	}
	if items, diags := hcl.ExprList(expr); !diags.HasErrors() {
		for i, item := range items {
			expressionLiterals(item, block.Indexed(path, i), name, f)
		}
		return
	}
	v, diags := expr.Value(nil)
	if diags.HasErrors() {
		return
	}
	if text, err := convert.Convert(v, cty.String); err == nil && text.IsKnown() && !text.IsNull() {
		f(Literal{position(expr.Range()), path, name, text.AsString()})
	}
}
