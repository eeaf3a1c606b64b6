package rootmodule

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Check returns why no root module can be written for a task that Terraform accepts.
func Check(c *config.Config, t *config.Task) []config.Diagnostic {
	m := Module{Config: c, Task: t}
	if twice := m.twice(); len(twice) > 0 {
		return twice
	}
	if _, err := m.Files(); err != nil {
		return []config.Diagnostic{{Position: t.Source, Problem: err.Error()}}
	}
	return nil
}

// twice finds variables that the root module would declare twice: it has one for each input from Consul, for
// each provider block, and for each variable of the task.
func (m Module) twice() (all []config.Diagnostic) {
	of := map[string]string{}
	for _, name := range Inputs(m.Task) {
		of[name] = "Terrapulse sets it with data from Consul"
	}
	add := func(name, what string, pos config.Position) {
		if of[name] == "" {
			of[name] = what
			return
		}
		all = append(all, config.Diagnostic{Position: pos, Problem: fmt.Sprintf("the root module of task %s would have two variables %q: %s, and %s", m.Task.Name, name, of[name], what)})
	}
	for _, p := range m.providers() {
		if p.Configured {
			add(p.Name, fmt.Sprintf("one has the values of the terraform_provider block %q", p.Name), m.Task.Source)
		}
	}
	for _, name := range m.Task.VariableNames() {
		add(name, "variables or variable_files of the task set it: remove or rename that one", m.Task.VariablePosition(name))
	}
	return all
}
