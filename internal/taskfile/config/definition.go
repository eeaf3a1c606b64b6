package config

import (
	"maps"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Definition returns the task in the keys that Parse reads. The HTTP API shows it, and
// it is kept of a task that is applied, so that the task can be destroyed when it is gone.
func (t *Task) Definition() map[string]any {
	variables := map[string]string{}
	for name, v := range t.Variables {
		variables[name] = string(hclwrite.Format(hclwrite.TokensForValue(v).Bytes()))
	}
	maps.Copy(variables, t.VariableTemplates)
	inputs := map[string]any{}
	for _, spec := range t.ModuleInputs {
		inputs[spec.Kind().APIName()] = condition.Definition(spec)
	}
	keys := map[string]any{
		"name":         t.Name,
		"description":  t.Description,
		"enabled":      t.Enabled,
		"module":       t.written,
		"version":      t.Version,
		"providers":    append([]string{}, t.Providers...),
		"variables":    variables,
		"condition":    t.Condition.definition(),
		"module_input": inputs,
	}
	if t.buffer != (OwnBufferPeriod{}) {
		b := t.BufferPeriod
		keys["buffer_period"] = map[string]any{"enabled": b.Enabled, "min": b.Min.String(), "max": b.Max.String()}
	}
	if t.timeout != nil {
		keys["run_timeout"] = t.timeout.String()
	}
	if t.AWSRole != "" {
		keys["aws_role"] = t.AWSRole
	}
	if t.cloud != (CloudWorkspace{}) {
		keys["terraform_cloud_workspace"] = t.cloud.definition()
	}
	if len(t.Labels) > 0 {
		keys["labels"] = t.Labels
	}
	if len(t.MovedFrom) > 0 {
		keys["moved_from"] = t.MovedFrom
	}
	if len(t.After) > 0 {
		keys["after"] = t.After
	}
	if t.AfterTimeout > 0 {
		keys["after_timeout"] = t.AfterTimeout.String()
	}
	maps.Copy(keys, t.rules) // in the keys of task files
	return keys
}

func (c Condition) definition() map[string]any {
	if c.Spec == nil {
		return map[string]any{}
	}
	shown := condition.Definition(c.Spec)
	if c.Kind().Variable != nil {
		shown["use_as_module_input"] = c.UseAsModuleInput
	}
	return map[string]any{c.Kind().APIName(): shown}
}

func (w CloudWorkspace) definition() map[string]string {
	keys := map[string]string{}
	for key, value := range map[string]string{"execution_mode": w.ExecutionMode, "agent_pool_id": w.AgentPoolID,
		"agent_pool_name": w.AgentPoolName, "terraform_version": w.TerraformVersion} {
		if value != "" {
			keys[key] = value
		}
	}
	return keys
}
