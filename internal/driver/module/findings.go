package module

import (
	"fmt"
	"maps"
	"os"
	"path"
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

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Findings returns what Terraform would refuse about the task's module and
// about what the task gives it: syntax errors, variables that are missing, not
// declared or of the wrong type, and references to what is not declared, also in
// the local modules that it calls. It reads the files itself: Terraform needs
// the module's providers first, which a check should not download. inputs are
// the types of what the module gets from Consul.
func Findings(t *config.Task, inputs map[string]cty.Type) []config.Diagnostic {
	f := &findings{task: t, modules: map[string]*tfconfig.Module{}}
	if !t.LocalModule() {
		if err := checkAddress(t); err != nil {
			f.add(t.Source, "%s", err)
		}
		return f.all
	}
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
		if !ok {
			f.add(t.VariablePosition(name), "%s", undeclared(t, name))
			continue
		}
		_, input := inputs[name]
		f.fits(name, given[name], declared, input)
	}
	for _, name := range slices.Sorted(maps.Keys(module.Variables)) {
		if _, ok := given[name]; !ok && module.Variables[name].Required {
			f.add(t.Source, "task %s does not set the variable %q, which its module requires (%s): set it in variables or variable_files", t.Name, name, at(module.Variables[name].Pos))
		}
	}
	return f.all
}

type findings struct {
	task    *config.Task
	all     []config.Diagnostic
	modules map[string]*tfconfig.Module // that were checked, by directory; nil if they cannot be parsed
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

// module checks the files of a module, once. It returns nil if they cannot be parsed.
func (f *findings) module(dir string) *tfconfig.Module {
	dir = filepath.Clean(dir)
	if module, ok := f.modules[dir]; ok {
		return module
	}
	f.modules[dir] = nil
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
		for _, d := range diags {
			if d.Severity == hcl.DiagError {
				wrong = true
				f.invalid(d.Subject, d.Summary, d.Detail)
			}
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
			var at *hcl.Range
			if d.Pos != nil {
				at = &hcl.Range{Filename: d.Pos.Filename, Start: hcl.Pos{Line: d.Pos.Line}}
			}
			f.invalid(at, d.Summary, d.Detail)
		}
	}
	f.modules[dir] = module
	if len(bodies) == len(names) { // a file in JSON may declare what others refer to
		f.references(bodies, module)
	}
	for _, body := range bodies {
		for _, block := range body.Blocks {
			if block.Type == "module" && len(block.Labels) == 1 && module.ModuleCalls[block.Labels[0]] != nil {
				f.call(dir, module.ModuleCalls[block.Labels[0]], block)
			}
		}
	}
	return module
}

func (f *findings) invalid(at *hcl.Range, summary, detail string) {
	pos := f.task.Source
	if at != nil {
		pos = start(*at)
	}
	f.add(pos, "the module is not valid: %s: %s", summary, detail)
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
	f.add(start(to.SourceRange()), "the module refers to the %s %q, which it does not declare", what, attr.Name)
}

// metaArguments of a module block are not variables of the module.
var metaArguments = []string{"source", "version", "providers", "count", "for_each", "depends_on"}

// call checks a local module that a module calls, and what it is given.
func (f *findings) call(dir string, call *tfconfig.ModuleCall, block *hclsyntax.Block) {
	if !strings.HasPrefix(call.Source, "./") && !strings.HasPrefix(call.Source, "../") {
		return
	}
	pos := start(block.DefRange())
	called := filepath.Join(dir, filepath.FromSlash(call.Source))
	if info, err := os.Stat(called); err != nil || !info.IsDir() {
		f.add(pos, "the module %q is not there: there is no directory %s", call.Name, called)
		return
	}
	root, _, _ := strings.Cut(f.task.Module, "//") // of the package
	if inside, err := filepath.Rel(root, called); err != nil || !filepath.IsLocal(inside) {
		f.add(pos, "the module %q is not below the module of task %s (%s), so that Terraform refuses it: move %s there", call.Name, f.task.Name, root, called)
		return
	}
	module := f.module(called)
	if module == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(block.Body.Attributes)) {
		if module.Variables[name] == nil && !slices.Contains(metaArguments, name) {
			f.add(start(block.Body.Attributes[name].NameRange), "the module %q has no variable %q", call.Name, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(module.Variables)) {
		if v := module.Variables[name]; v.Required && block.Body.Attributes[name] == nil {
			f.add(pos, "the module %q is not given the variable %q, which it requires (%s)", call.Name, name, at(v.Pos))
		}
	}
}

// moduleFiles returns the files of a module that Terraform reads.
func moduleFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var files []string
	for _, e := range entries {
		if ok, _ := path.Match("[^.#]*.tf", strings.TrimSuffix(e.Name(), ".json")); ok && !e.IsDir() {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

func position(p tfconfig.SourcePos) config.Position {
	return config.Position{File: p.Filename, Line: p.Line}
}

func at(p tfconfig.SourcePos) string { return position(p).String() }

// start is where a range begins.
func start(r hcl.Range) config.Position {
	return config.Position{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
}
