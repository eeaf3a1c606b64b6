package config

import (
	"bytes"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/terrapulse/terrapulse/internal/config/block"
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
		root, diags := parsers[extension(file)](file, bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")))
		if root == nil {
			return nil, Errors(diags)
		}
		root.literals(keep)
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

// literals calls f for every scalar of a file.
func (n *node) literals(f func(Literal)) {
	repeated := map[string]int{}
	for _, e := range n.entries {
		path := e.key
		if (path == "task" || path == "service") && e.value.kind == kindObject {
			path = block.Indexed(e.key, repeated[e.key])
			repeated[e.key]++
		}
		e.scalars(path, f)
	}
}

// scalars also finds values that have no effect.
func (e *entry) scalars(path string, f func(Literal)) {
	e.value.scalars(path, e.key, f)
	for _, old := range e.superseded {
		old.value.scalars(path, e.key, f)
	}
}

func (n *node) scalars(path, name string, f func(Literal)) {
	switch n.kind {
	case kindNull:
	case kindList:
		for i, item := range n.items {
			item.scalars(block.Indexed(path, i), name, f)
		}
	case kindObject:
		variables := name == "variables" && strings.HasPrefix(path, "task")
		for _, e := range n.entries {
			if variables && e.value.kind == kindString {
				e.value.source(block.Joined(path, e.key), e.key, f)
				continue
			}
			e.scalars(block.Joined(path, e.key), f)
		}
	default:
		f(Literal{n.pos, path, name, n.text})
	}
}

// source is scalars for a text that is Terraform source itself.
func (n *node) source(path, name string, f func(Literal)) {
	expr, diags := hclsyntax.ParseExpression([]byte(n.text), n.pos.File, hcl.InitialPos)
	if diags.HasErrors() {
		return
	}
	expressionLiterals(expr, path, name, func(found Literal) {
		found.Position = n.pos
		f(found)
	})
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
