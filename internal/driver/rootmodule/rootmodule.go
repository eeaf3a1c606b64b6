// Package rootmodule writes the root module of a task: the Terraform
// configuration that calls the task's module with the data from Consul. File names
// and formats are those of Consul-Terraform-Sync, so that every module written
// for it works unchanged.
//
// Rendering is pure: the same configuration and the same answers of Consul give
// the same bytes. Secrets stay out of the files: the values of provider blocks
// leave this package only through ProviderValues, and task_env through Env.
// Backend arguments are the exception, as Terraform reads them from main.tf.
package rootmodule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// The files of a root module.
const (
	MainFile            = "main.tf"
	VariablesFile       = "variables.tf"
	ModuleVariablesFile = "variables.module.tf"   // only if the task has variables
	ModuleValuesFile    = "variables.auto.tfvars" // only if the task has variables
	ProvidersFile       = "providers.auto.tfvars" // a preamble only: provider values are secret
	ValuesFile          = "terraform.tfvars"      // the data from Consul
)

// Module is everything a root module is made from.
type Module struct {
	Config *config.Config
	Task   *config.Task
	// Blocks are the data from Consul, at most one for each variable, in the order
	// in which they are written. An empty services block is added if there is none.
	Blocks []consul.Block
	// Terraform is the version that will read the files; nil for a current one.
	Terraform *version.Version
	// Types are the types that the task's module declares for its variables, as
	// source text. With them, Terraform converts a large input faster. May be nil.
	Types map[string]string
	// Changes are the entries that differ from those that were applied last, for a
	// module that declares a variable for them.
	Changes consul.Names
}

// File is one file of a root module.
type File struct {
	Name   string
	Render func(io.Writer) error // writes the whole file
}

// Files returns the files of the root module, the most important ones first. It
// returns an error if the configuration has a name that Terraform cannot read, or one twice.
func (m Module) Files() ([]File, error) {
	if twice := m.twice(); len(twice) > 0 {
		return nil, config.Errors(twice)
	}
	main, err := m.main()
	if err != nil {
		return nil, err
	}
	variables, err := m.variables()
	if err != nil {
		return nil, err
	}
	files := []File{
		{MainFile, m.whole(main)},
		{VariablesFile, m.whole(variables)},
		{ProvidersFile, m.whole(nil)},
	}
	if len(m.Task.VariableNames()) > 0 {
		declarations, values, err := m.moduleVariables()
		if err != nil {
			return nil, err
		}
		files = append(files, File{ModuleVariablesFile, m.whole(declarations)}, File{ModuleValuesFile, m.whole(values)})
	}
	return append(files, File{ValuesFile, m.renderValues}), nil
}

// whole is a file that is small enough to be built in memory.
func (m Module) whole(body []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(append(m.preamble(), body...))
		return err
	}
}

func (m Module) preamble() []byte {
	var b bytes.Buffer
	b.WriteString("# Written by Terrapulse, from its task files and from what Consul says.\n" +
		"# The next run of the task writes it again: changes made by hand are lost.\n#\n")
	fmt.Fprintf(&b, "# Task: %s\n", strings.Join(strings.Fields(m.Task.Name), " "))
	writeComment(&b, "Description: ", m.Task.Description)
	return b.Bytes()
}

// writeComment writes text as comment lines.
func writeComment(b *bytes.Buffer, label, text string) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(text, "\uFFFD"))
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			label = ""
		}
		b.WriteString(strings.TrimRight("# "+label+line, " \t") + "\n")
	}
}

// Inputs returns the names of the variables with the module's data from Consul, in the
// order of the module block: services always, and those of the condition and the
// module inputs. The module must declare all of them.
func Inputs(t *config.Task) []string {
	return list.Map(inputs(t), func(v *condition.Variable) string { return v.Name })
}

func inputs(t *config.Task) []*condition.Variable {
	var all []*condition.Variable
	for _, k := range condition.Kinds {
		if k.Variable != nil && k.Variable.Always {
			all = append(all, k.Variable)
		}
	}
	add := func(k *condition.Kind) {
		if k != nil && k.Variable != nil && !slices.Contains(all, k.Variable) {
			all = append(all, k.Variable)
		}
	}
	if t.Condition.UseAsModuleInput {
		add(t.Condition.Kind())
	}
	for _, in := range t.ModuleInputs {
		add(in.Kind())
	}
	return all
}

// provider is a provider that the task uses. Configured is false if it has no
// terraform_provider block.
type provider struct {
	config.Provider
	Configured bool
}

// providers returns the task's providers, sorted by name.
func (m Module) providers() []provider {
	var out []provider
	for _, id := range m.Task.Providers {
		p, ok := m.Config.Provider(id)
		if !ok {
			p.Name, _, _ = strings.Cut(id, ".")
		}
		out = append(out, provider{p, ok})
	}
	slices.SortStableFunc(out, func(a, b provider) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// value returns the value of a provider's variable: its arguments, its nested blocks
// as objects (or tuples of objects, if a block is repeated), and Terrapulse's two
// arguments.
func (p provider) value() cty.Value {
	attrs := p.Body.Value().AsValueMap()
	if attrs == nil {
		attrs = map[string]cty.Value{}
	}
	if p.Alias != "" {
		attrs["alias"] = cty.StringVal(p.Alias)
	}
	if p.AutoCommit {
		attrs["auto_commit"] = cty.True
	}
	return cty.ObjectVal(attrs)
}

// secretValues returns the values of the task's provider blocks, and those of its
// variables that are templates.
func secretValues(t *config.Task, c *config.Config, variables map[string]string) map[string]cty.Value {
	all := map[string]cty.Value{}
	for _, p := range (Module{Config: c, Task: t}).providers() {
		if p.Configured {
			all[p.Name] = p.value()
		}
	}
	for name, value := range variables {
		all[name] = cty.StringVal(value)
	}
	return all
}

// SecretValues returns the values of the task's provider blocks, and those of its
// variables that are templates, as a Terraform variable file in JSON, or nil if
// there are none. They are secret.
func SecretValues(t *config.Task, c *config.Config, variables map[string]string) ([]byte, error) {
	vars := map[string]json.RawMessage{}
	for name, v := range secretValues(t, c, variables) {
		raw, err := ctyjson.Marshal(v, v.Type())
		if err != nil {
			return nil, fmt.Errorf("encode the values of %q: a value cannot be written as JSON", name)
		}
		vars[name] = raw
	}
	if len(vars) == 0 {
		return nil, nil
	}
	return json.Marshal(vars)
}

// SecretLiterals returns what SecretValues returns, each as source text of Terraform's
// language. They are secret.
func SecretLiterals(t *config.Task, c *config.Config, variables map[string]string) map[string]string {
	texts := map[string]string{}
	for name, v := range secretValues(t, c, variables) {
		texts[name] = string(literal(v))
	}
	return texts
}

// Env returns the task_env of the task's providers: variables for the
// environment of Terraform. They are secret.
func Env(t *config.Task, c *config.Config) map[string]string {
	env := map[string]string{}
	for _, p := range (Module{Config: c, Task: t}).providers() {
		maps.Copy(env, p.Env)
	}
	return env
}

// CheckEnv returns an error if Terraform cannot get a part of a task's task_env, wherever it
// runs.
func CheckEnv(task string, env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(name, "TF_VAR_") {
			return fmt.Errorf("task_env of a provider of task %s sets %s: a variable of the module cannot be set in this way, "+
				"use the task's variables or variable_files", task, name)
		}
		if strings.ContainsRune(name+env[name], 0) {
			return fmt.Errorf("task_env of a provider of task %s: %q holds a NUL character, which no environment can carry", task, name)
		}
	}
	return nil
}

// checkName refuses names of arguments, blocks and variables that Terraform cannot
// read.
func checkName(where, name string) error {
	if !hclsyntax.ValidIdentifier(name) {
		return fmt.Errorf("%s: %q is not a name that Terraform can read: use letters, digits, - and _, and begin with a letter", where, name)
	}
	return nil
}
