package api

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config"
)

// Define returns the definition of a task as the API shows it, and takes it: as
// it was configured, with what every task has.
func Define(t *config.Task) apispec.Task {
	def := apispec.Task{
		Name:        t.Name,
		Description: &t.Description,
		Enabled:     &t.Enabled,
		Module:      t.WrittenModule(),
		Version:     &t.Version,
		Providers:   ref(list(t.Providers)),
		Variables:   ref(variables(t)),
		Condition:   conditionOf(t.Condition),
		ModuleInput: ref(definitions(t.ModuleInputs...)),
	}
	if b := t.BufferPeriod; t.OwnBufferPeriod() != (config.OwnBufferPeriod{}) {
		def.BufferPeriod = &apispec.BufferPeriod{Enabled: &b.Enabled, Min: ref(b.Min.String()), Max: ref(b.Max.String())}
	}
	if own := t.OwnRunTimeout(); own != nil {
		def.RunTimeout = ref(own.String())
	}
	return def
}

func ref[T any](v T) *T { return &v }

// optional is nil for the zero value, which JSON then leaves out.
func optional[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

func variables(t *config.Task) map[string]string {
	source := map[string]string{}
	for name, v := range t.Variables {
		source[name] = string(hclwrite.Format(hclwrite.TokensForValue(v).Bytes()))
	}
	maps.Copy(source, t.VariableTemplates)
	return source
}

// definitions are the blocks of kinds, by the names that they have in the API.
func definitions(specs ...condition.Spec) map[string]any {
	shown := map[string]any{}
	for _, spec := range specs {
		shown[spec.Kind().APIName()] = spec.Definition()
	}
	return shown
}

func conditionOf(c config.Condition) apispec.Condition {
	if c.Spec == nil {
		return apispec.Condition{}
	}
	shown := c.Spec.Definition()
	if c.Kind().Variable != nil {
		shown["use_as_module_input"] = c.UseAsModuleInput
	}
	return apispec.Condition{c.Kind().APIName(): shown}
}

// withoutEmpty leaves out of a definition what is empty there in the requests of
// Consul-Terraform-Sync's clients, and would be wrong in a task file.
func withoutEmpty(definition json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(definition, &fields); err != nil {
		return nil, err
	}
	for _, key := range []string{"module_input", "terraform_version", "terraform_cloud_workspace"} {
		var empty bytes.Buffer
		if err := json.Compact(&empty, fields[key]); err == nil && (empty.String() == "{}" || empty.String() == `""`) {
			delete(fields, key)
		}
	}
	return json.Marshal(fields)
}
