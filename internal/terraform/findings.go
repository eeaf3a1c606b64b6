package terraform

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-config-inspect/tfconfig"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/terrapulse/terrapulse/internal/config"
)

// ModuleFindings returns what Terraform would refuse about the task's module and
// about what the task gives it: syntax errors, variables that are missing, not
// declared or of the wrong type, and references to what is not declared, also in
// the local modules that it calls. It reads the files itself: Terraform needs
// the module's providers first, which a check should not download. inputs are
// the types of what the module gets from Consul.
func ModuleFindings(t *config.Task, inputs map[string]cty.Type) []config.Diagnostic {
	if !localSource(t.Module) {
		return nil
	}
	f := &findings{task: t, seen: map[string]bool{}}
	if err := checkDirectory(t); err != nil {
		f.add(t.Source, "%s", err)
		return f.all
	}
	module := f.module(t.Module)
	if module == nil {
		return f.all
	}
	given := map[string]cty.Value{}
	maps.Copy(given, t.Variables)
	for name := range t.VariableTemplates {
		given[name] = cty.UnknownVal(cty.String)
	}
	for name, of := range inputs {
		given[name] = cty.UnknownVal(of)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		declared, ok := module.Variables[name]
		_, input := inputs[name]
		switch {
		case !ok && input:
			f.add(t.Source, "%s", missingVariable(t.Name, fmt.Sprintf("%s of task %s", t.Module, t.Name), name))
		case !ok:
			f.add(t.VariablePosition(name), "%s", missingVariable(t.Name, fmt.Sprintf("%s of task %s", t.Module, t.Name), name))
		default:
			f.fits(name, given[name], declared, input)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(module.Variables)) {
		if _, ok := given[name]; !ok && module.Variables[name].Required {
			f.add(t.Source, "task %s does not set the variable %q, which its module requires (%s): set it in variables or variable_files", t.Name, name, at(module.Variables[name].Pos))
		}
	}
	return f.all
}

type findings struct {
	task *config.Task
	all  []config.Diagnostic
	seen map[string]bool // directories of modules
}

func (f *findings) add(pos config.Position, format string, args ...any) {
	f.all = append(f.all, config.Diagnostic{Position: pos, Problem: strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")})
}

// fits finds a value that cannot become what the module declares. The value
// itself may be secret and is not shown.
func (f *findings) fits(name string, v cty.Value, declared *tfconfig.Variable, input bool) {
	if declared.Type == "" {
		return
	}
	text := declared.Type
	if text == "list" || text == "map" { // short forms that Terraform still knows
		text += "(any)"
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), declared.Pos.Filename, hcl.InitialPos)
	if diags.HasErrors() {
		return // tfconfig has what was written, or nothing
	}
	want, defaults, diags := typeexpr.TypeConstraintWithDefaults(expr)
	if diags.HasErrors() {
		f.add(position(declared.Pos), "variable %q: the type cannot be read: %s", name, diags[0].Detail)
		return
	}
	if defaults != nil && !v.IsNull() && v.IsKnown() {
		v = defaults.Apply(v)
	}
	if _, err := convert.Convert(v, want); err != nil {
		pos, what := f.task.VariablePosition(name), fmt.Sprintf("the value of the variable %q of task %s", name, f.task.Name)
		if input {
			pos, what = position(declared.Pos), fmt.Sprintf("what task %s gets from Consul in the variable %q", f.task.Name, name)
		}
		f.add(pos, "%s does not fit the type that the module declares (%s): %s", what, at(declared.Pos), err)
	}
}

// module checks the files of a module. It returns nil if they cannot be parsed.
func (f *findings) module(dir string) *tfconfig.Module {
	f.seen[filepath.Clean(dir)] = true
	names, err := moduleFiles(dir)
	if err != nil {
		f.add(f.task.Source, "read the module of task %s: %s", f.task.Name, err)
		return nil
	}
	parser, wrong := hclparse.NewParser(), false
	var bodies []*hclsyntax.Body
	for _, name := range names {
		parse := parser.ParseHCLFile
		if strings.HasSuffix(name, ".json") {
			parse = parser.ParseJSONFile
		}
		file, diags := parse(name)
		for _, d := range diags.Errs() {
			wrong = true
			f.diagnostic(d)
		}
		if file == nil {
			continue
		}
		if body, ok := file.Body.(*hclsyntax.Body); ok {
			bodies = append(bodies, body)
		}
	}
	if wrong {
		return nil
	}
	module, diags := tfconfig.LoadModule(dir)
	for _, d := range diags {
		if d.Severity == tfconfig.DiagError {
			pos := f.task.Source
			if d.Pos != nil {
				pos = position(*d.Pos)
			}
			f.add(pos, "the module is not valid: %s: %s", d.Summary, d.Detail)
		}
	}
	if len(bodies) == len(names) { // a file in JSON may declare what others refer to
		f.references(bodies, module)
	}
	f.calls(dir, bodies)
	return module
}

func (f *findings) diagnostic(err error) {
	d, ok := err.(*hcl.Diagnostic)
	if !ok || d.Subject == nil {
		f.add(f.task.Source, "the module is not valid: %s", err)
		return
	}
	f.add(config.Position{File: d.Subject.Filename, Line: d.Subject.Start.Line, Column: d.Subject.Start.Column},
		"the module is not valid: %s: %s", d.Summary, d.Detail)
}

// references finds variables, local values and modules that are used and not
// declared.
func (f *findings) references(bodies []*hclsyntax.Body, module *tfconfig.Module) {
	locals := map[string]bool{}
	for _, body := range bodies {
		for _, block := range body.Blocks {
			if block.Type == "locals" {
				for name := range block.Body.Attributes {
					locals[name] = true
				}
			}
		}
	}
	var check func(body *hclsyntax.Body)
	check = func(body *hclsyntax.Body) {
		for _, a := range body.Attributes {
			for _, traversal := range hclsyntax.Variables(a.Expr) { // without those of a for expression
				f.reference(traversal, module, locals)
			}
		}
		for _, block := range body.Blocks {
			if block.Type != "moved" && block.Type != "removed" { // they name what is not there any more
				check(block.Body)
			}
		}
	}
	for _, body := range bodies {
		check(body)
	}
}

func (f *findings) reference(to hcl.Traversal, module *tfconfig.Module, locals map[string]bool) {
	if len(to) < 2 {
		return
	}
	attr, ok := to[1].(hcl.TraverseAttr)
	if !ok {
		return
	}
	var what string
	switch root := to.RootName(); {
	case root == "var" && module.Variables[attr.Name] == nil:
		what = "variable"
	case root == "local" && !locals[attr.Name]:
		what = "local value"
	case root == "module" && module.ModuleCalls[attr.Name] == nil:
		what = "module"
	default:
		return
	}
	r := to.SourceRange()
	f.add(config.Position{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column},
		"the module refers to the %s %q, which it does not declare", what, attr.Name)
}

// metaArguments of a module block are not variables of the module.
var metaArguments = []string{"source", "version", "providers", "count", "for_each", "depends_on"}

// calls checks the local modules that a module calls, and what they are given.
func (f *findings) calls(dir string, bodies []*hclsyntax.Body) {
	for _, body := range bodies {
		for _, block := range body.Blocks {
			if block.Type != "module" || len(block.Labels) != 1 || block.Body.Attributes["source"] == nil {
				continue
			}
			source, diags := block.Body.Attributes["source"].Expr.Value(nil)
			if diags.HasErrors() || source.IsNull() || source.Type() != cty.String || !strings.HasPrefix(source.AsString(), "./") && !strings.HasPrefix(source.AsString(), "../") {
				continue
			}
			r := block.DefRange()
			pos := config.Position{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
			called := filepath.Join(dir, filepath.FromSlash(source.AsString()))
			if info, err := os.Stat(called); err != nil || !info.IsDir() {
				f.add(pos, "the module %q is not there: there is no directory %s", block.Labels[0], called)
				continue
			}
			var variables map[string]*tfconfig.Variable
			if f.seen[called] {
				module, _ := tfconfig.LoadModule(called)
				variables = module.Variables
			} else if module := f.module(called); module != nil {
				variables = module.Variables
			} else {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(block.Body.Attributes)) {
				if variables[name] == nil && !slices.Contains(metaArguments, name) {
					r := block.Body.Attributes[name].NameRange
					f.add(config.Position{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column},
						"the module %q has no variable %q", block.Labels[0], name)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(variables)) {
				if variables[name].Required && block.Body.Attributes[name] == nil {
					f.add(pos, "the module %q is not given the variable %q, which it requires (%s)", block.Labels[0], name, at(variables[name].Pos))
				}
			}
		}
	}
}

// moduleFiles returns the files of a module that Terraform reads.
func moduleFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") ||
			!strings.HasSuffix(name, ".tf") && !strings.HasSuffix(name, ".tf.json") {
			continue
		}
		files = append(files, filepath.Join(dir, name))
	}
	return files, nil
}

func position(p tfconfig.SourcePos) config.Position {
	return config.Position{File: p.Filename, Line: p.Line}
}

func at(p tfconfig.SourcePos) string { return position(p).String() }
