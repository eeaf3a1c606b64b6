package api

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/terrapulse/terrapulse/internal/apispec"
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
		Condition:   condition(t.Condition),
		ModuleInput: moduleInput(t.ModuleInputs),
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

func condition(c config.Condition) apispec.Condition {
	var out apispec.Condition
	switch use := ref(c.UseAsModuleInput); {
	case len(c.Services) > 0:
		s := services(c.Services)
		out.Services = &apispec.ServicesCondition{Names: s.Names, Regexp: s.Regexp, Datacenter: s.Datacenter, Namespace: s.Namespace,
			Filter: s.Filter, CtsUserDefinedMeta: s.CtsUserDefinedMeta, UseAsModuleInput: use}
	case c.CatalogServices != nil:
		s := c.CatalogServices
		out.CatalogServices = &apispec.CatalogServicesCondition{Regexp: s.Regexp, Datacenter: &s.Datacenter, Namespace: &s.Namespace,
			NodeMeta: ref(texts(s.NodeMeta)), UseAsModuleInput: use}
	case c.ConsulKV != nil:
		kv := c.ConsulKV
		out.ConsulKv = &apispec.ConsulKVCondition{Path: kv.Path, Recurse: &kv.Recurse, Datacenter: &kv.Datacenter, Namespace: &kv.Namespace, UseAsModuleInput: use}
	case c.Schedule != nil:
		out.Schedule = &apispec.ScheduleCondition{Cron: c.Schedule.Cron}
	}
	return out
}

func moduleInput(inputs []config.Input) *apispec.ModuleInput {
	var out apispec.ModuleInput
	for _, in := range inputs {
		switch {
		case len(in.Services) > 0:
			out.Services = services(in.Services)
		case in.ConsulKV != nil:
			kv := in.ConsulKV
			out.ConsulKv = &apispec.ConsulKVModuleInput{Path: kv.Path, Recurse: &kv.Recurse, Datacenter: &kv.Datacenter, Namespace: &kv.Namespace}
		}
	}
	return &out
}

// services joins the selections that the deprecated list of services stands for.
func services(all []config.Services) *apispec.ServicesModuleInput {
	s := all[0]
	out := &apispec.ServicesModuleInput{Regexp: s.Regexp, Datacenter: &s.Datacenter, Namespace: &s.Namespace, Filter: &s.Filter,
		CtsUserDefinedMeta: ref(texts(s.CTSUserDefinedMeta))}
	if s.Regexp == nil {
		names := []string{}
		for _, s := range all {
			names = append(names, s.Names...)
		}
		out.Names = &names
	}
	return out
}

func texts(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
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
