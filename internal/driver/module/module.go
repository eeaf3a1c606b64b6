// Package module reads the module of a task without Terraform: which variables it
// declares, and what Terraform would refuse about it.
package module

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Check finds, before Terraform is started, that the task's module is missing
// or does not declare a variable that it is given: inputs (the data of Consul) or
// the task's own variables. It reads only modules in directories of this machine.
func Check(t *config.Task, inputs []string) error {
	if !t.LocalModule() {
		return nil // Terraform says what is wrong with an address
	}
	if err := checkDirectory(t); err != nil {
		return err
	}
	variables := variablesIn(t.Module)
	for _, name := range slices.Concat(inputs, t.VariableNames()) {
		if variables != nil && variables[name] == nil {
			return errors.New(undeclared(t, name))
		}
	}
	return nil
}

// checkAddress finds an address of a module from elsewhere that Terraform cannot read.
func checkAddress(t *config.Task) error {
	if t.Module == "" {
		return nil // everything is to be destroyed, and the module is gone
	}
	address, _, _ := strings.Cut(t.Module, "//")
	if strings.Count(address, "/") > 1 || strings.Contains(address, ":") {
		return nil
	}
	return fmt.Errorf("the module %q of task %s is no address that Terraform can read: write ./%s for a directory beside the task files, or NAMESPACE/NAME/PROVIDER for a module of a registry",
		t.Module, t.Name, t.Module)
}

// checkDirectory finds what is wrong with the directory of a local module.
func checkDirectory(t *config.Task) error {
	if t.Version != "" {
		return fmt.Errorf("task %s has a version (%q) for the directory %s: only modules of a registry have versions, remove it", t.Name, t.Version, t.Module)
	}
	info, err := os.Stat(t.Module)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the module of task %s is not there: there is no directory %s", t.Name, t.Module)
	case err != nil:
		return fmt.Errorf("read the module of task %s: %w", t.Name, err)
	case !info.IsDir():
		return fmt.Errorf("the module of task %s must be a directory: %s is a file (unpack an archive)", t.Name, t.Module)
	}
	if dir, err := os.Stat(t.WorkingDir); err == nil && os.SameFile(dir, info) {
		return fmt.Errorf("the working directory of task %s is the directory of its module, %s, into which the files of the task would be written: set another working_dir, for all tasks or in the task", t.Name, t.Module)
	}
	return nil
}

// variablesIn returns the variables that the module in a directory declares. It
// returns nil if the module cannot be parsed: Terraform explains what is wrong.
func variablesIn(dir string) map[string]*tfconfig.Variable {
	module, diags := tfconfig.LoadModule(dir)
	if diags.HasErrors() {
		return nil
	}
	return module.Variables
}

// VariableTypes returns the types that the task's module declares for its
// variables, as source text. A module from elsewhere is read where Terraform has
// installed it below dir. The types are empty if the module cannot be read.
func VariableTypes(t *config.Task, dir string) map[string]string {
	module := t.Module
	if !t.LocalModule() {
		module = installed(t.Name, dir).Dir
	}
	types := map[string]string{}
	for name, v := range variablesIn(module) {
		types[name] = v.Type
	}
	return types
}

// SensitiveVariables reports which variables of the task are sensitive by the
// module's declaration. If the module cannot be read, all are.
func SensitiveVariables(t *config.Task) func(name string) bool {
	variables := declared(t)
	return func(name string) bool {
		v, ok := variables[name]
		return !ok || v.Sensitive
	}
}

// Secret returns which variables of the task are sensitive by the module's
// declaration. It is nil if the module cannot be read.
func Secret(t *config.Task) func(name string) bool {
	if declared(t) == nil {
		return nil
	}
	return SensitiveVariables(t)
}

// SensitiveValues returns the texts and long numbers in the values of the task's
// variables that the module declares as sensitive. Terraform hides a variable's value, but not
// what a provider makes of it, such as the output of a terraform_data. If the
// module cannot be read, there are none.
func SensitiveValues(t *config.Task) []string {
	var texts []string
	for name, v := range declared(t) {
		value, ok := t.Variables[name]
		if !ok || !v.Sensitive {
			continue
		}
		_ = cty.Walk(value, func(_ cty.Path, v cty.Value) (bool, error) {
			switch {
			case !v.IsKnown() || v.IsNull():
			case v.Type() == cty.String:
				texts = append(texts, v.AsString())
			case v.Type() == cty.Number:
				if text := v.AsBigFloat().Text('f', -1); len(text) >= redact.ShortestNumber {
					texts = append(texts, text)
				}
			}
			return true, nil
		})
	}
	return texts
}

// declared returns the variables that the task's module declares. A module from
// elsewhere is read where Terraform has installed it for the task. It returns nil
// if the module cannot be read.
func declared(t *config.Task) map[string]*tfconfig.Variable {
	if t.LocalModule() {
		return variablesIn(t.Module)
	}
	module := installed(t.Name, t.WorkingDir)
	if !strings.HasSuffix(module.Source, t.Module) { // a registry's address is written in full
		return nil
	}
	return variablesIn(module.Dir)
}

// installed returns the module that Terraform has installed for a task in a
// directory; zero if it has installed none.
func installed(task, dir string) Entry {
	for _, m := range Installed(dir) {
		if m.Key == task {
			m.Dir = filepath.Join(dir, m.Dir)
			return m
		}
	}
	return Entry{}
}

// Entry is a module in Terraform's list.
type Entry struct {
	Key, Source, Dir string
}

// Installed reads Terraform's list of the modules that are installed in a task's
// directory, the root module among them; nil if there is none.
func Installed(dir string) []Entry {
	raw, err := os.ReadFile(filepath.Join(dir, ".terraform", "modules", "modules.json"))
	var list struct{ Modules []Entry }
	if err != nil || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list.Modules
}

// undeclared explains that the task's module does not declare a variable.
func undeclared(t *config.Task, name string) string {
	return MissingVariable(t.Name, fmt.Sprintf("%s of task %s", t.Module, t.Name), name)
}

// MissingVariable explains that a module does not declare a variable that it gets,
// and what to do.
func MissingVariable(task, module, name string) string {
	s := fmt.Sprintf("the module %s has no variable %q: declare it", module, name)
	for _, k := range condition.Kinds {
		switch {
		case k.Variable == nil || k.Variable.Name != name:
		case k.Variable.Always:
			return s + " (every module gets the " + name + ")"
		case k.InputKeys == nil:
			return s + ", or set use_as_module_input = false in the condition of task " + task
		default:
			return s + ", or set use_as_module_input = false in the condition of task " + task + ", or remove its module_input"
		}
	}
	return s + ", or remove it from variables and variable_files of task " + task
}
