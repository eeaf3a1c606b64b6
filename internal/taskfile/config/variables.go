package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// variables sets the module's input variables. What a file sets wins over
// the variables map, and a later file over an earlier one.
func (l *loader) variables(raw *rawTask, t *Task, vault bool) {
	vars, places, templates := map[string]cty.Value{}, map[string]Position{}, map[string]string{}
	for _, name := range sortedKeys(raw.Variables.V) {
		at := raw.Variables.Entry(name)
		if !identifier(name) {
			l.Fail(at, "not a variable's name: "+block.Quoted(name), identifierHint)
			continue
		}
		src := []byte(raw.Variables.V[name])
		if block.TooDeep(src) {
			l.Fail(at, fmt.Sprintf("nested deeper than %d levels", 100*maxDepth), "")
			continue
		}
		if l.variableTemplate(at.Path, string(src)) {
			l.template(&node{kind: kindString, pos: at.Pos, text: string(src)}, at.Path, vault)
			templates[name], places[name] = string(src), at.Pos
			continue
		}
		expr, diags := hclsyntax.ParseExpression(src, "", hcl.InitialPos)
		v, err := literal(expr, diags)
		if unquoted(at.Pos.File, string(src), v, err) {
			v, err = cty.StringVal(string(src)), nil
		}
		if err != nil {
			l.Fail(at, "not a literal value: "+err.Error(), `the text is Terraform source: a string has quotes of its own, "\"text\""`)
			continue
		}
		vars[name], places[name] = v, at.Pos
	}
	for i, file := range raw.VariableFiles.V {
		at := raw.VariableFiles.Element(i)
		maps.Copy(vars, l.variableFile(file, at, places))
	}
	maps.DeleteFunc(templates, func(name, _ string) bool { _, set := vars[name]; return set })
	t.places = places
	if len(vars) > 0 {
		t.Variables = vars
	}
	if len(templates) > 0 {
		t.VariableTemplates = templates
	}
}

// unquoted reports whether the value of a variable in a YAML file is the text itself: it is no Terraform source, or
// is that of a number which would be written differently, such as a version 1.10.
func unquoted(file, src string, v cty.Value, err error) bool {
	if ext := extension(file); ext != ".yaml" && ext != ".yml" {
		return false
	}
	if err != nil {
		return !strings.ContainsAny(src, `"()[]{}<>$%`)
	}
	return v.Type() == cty.Number && !v.IsNull() && v.AsBigFloat().Text('f', -1) != src && numeral.MatchString(src)
}

// numeral is a number with digits that say nothing as a number.
var numeral = regexp.MustCompile(`^(0[0-9]+|[0-9]+\.[0-9]*0)$`)

func parseVariables(file string, src []byte) (*hcl.File, hcl.Diagnostics) {
	if strings.HasSuffix(file, ".json") {
		return hcljson.Parse(src, file)
	}
	return hclsyntax.ParseConfig(src, file, hcl.InitialPos)
}

// variableFile returns the variables that a file sets, and adds their places.
func (l *loader) variableFile(file string, at block.Origin, places map[string]Position) map[string]cty.Value {
	src, err := l.readFile(file)
	if err != nil {
		l.Fail(at, "the variable file cannot be read: "+readable(err, file), "")
		return nil
	}

	if i := invalidUTF8(src); i >= 0 {
		l.Fail(at, "the variable file "+file+" is not UTF-8 text", "save it as UTF-8")
		return nil
	}
	if block.TooDeep(src) {
		l.Fail(at, fmt.Sprintf("the variable file %s is nested deeper than %d levels", file, 100*maxDepth), "")
		return nil
	}
	f, diags := parseVariables(file, src)
	if diags.HasErrors() {
		l.variableErrors(at, diags)
		return nil
	}
	attrs, diags := f.Body.JustAttributes()
	l.variableErrors(at, diags)
	vars := map[string]cty.Value{}
	for _, name := range sortedKeys(attrs) {
		v, err := literal(attrs[name].Expr, nil)
		if err != nil {
			l.Fail(block.Origin{Pos: position(attrs[name].Expr.Range()), Path: at.Path}, name+" is not a literal value: "+err.Error(), "write the value itself")
			continue
		}
		vars[name], places[name] = v, position(attrs[name].NameRange)
	}
	return vars
}

func (l *loader) variableErrors(at block.Origin, diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			at := at
			if d.Subject != nil {
				at.Pos = position(*d.Subject)
			}
			l.Fail(at, "not a valid variable file: "+sentence(d), "")
		}
	}
}

func position(r hcl.Range) Position {
	return Position{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
}

func sentence(d *hcl.Diagnostic) string {
	if d.Summary == "Invalid JSON keyword" { // the detail quotes the file, which may hold a secret
		return d.Summary + ": a text needs quotes"
	}
	return strings.TrimSuffix(d.Summary+": "+d.Detail, ".")
}

// literal evaluates an expression without any variable or function.
func literal(expr hcl.Expression, diags hcl.Diagnostics) (cty.Value, error) {
	var v cty.Value
	if !diags.HasErrors() {
		v, diags = expr.Value(nil)
	}
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return cty.NilVal, errors.New(sentence(d))
		}
	}
	err := cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.Number && !v.IsNull() && v.IsKnown() && !sane(v.AsBigFloat()) {
			return false, errors.New("a number is too large or too small")
		}
		return true, nil
	})
	return v, err
}
