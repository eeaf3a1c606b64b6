package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Digest identifies what the configuration means for a run: the same for the
// same meaning, whatever the files, their format, the order of keys, the host
// or the directory they were read in. It is hex SHA-256. The credentials for
// Consul and Vault are not part of it, so that they can be rotated.
func (c *Config) Digest() string {
	tasks := make([]any, len(c.Tasks))
	for i := range c.Tasks {
		t := &c.Tasks[i]
		tasks[i] = []any{c.taskMeaning(t), t.Enabled, t.BufferPeriod}
	}
	return digest(map[string]any{
		"consul": []string{c.Consul.Address, c.Consul.Namespace, c.Consul.Partition},
		"tasks":  tasks,
	})
}

// Digest identifies what decides the result of the task's run beside the data
// from Consul: its definition, its providers and the driver. It is hex SHA-256.
// Whether the task is enabled, its buffer period and its description are not
// part of it.
func (t *Task) Digest(c *Config) string { return digest(c.taskMeaning(t)) }

func (c *Config) taskMeaning(t *Task) any {
	var providers []any
	for _, id := range t.Providers {
		p, _ := c.Provider(id)
		name, _, _ := strings.Cut(id, ".")
		required := map[string]cty.Value{}
		if v, ok := c.Terraform.RequiredProviders[name]; ok {
			required[name] = v
		}
		providers = append(providers, []any{id, valuesMeaning(required), p.AutoCommit, p.Env, bodyMeaning(p.Body)})
	}
	meaning := map[string]any{
		"name":        t.Name,
		"module":      c.moduleMeaning(t),
		"version":     t.Version,
		"providers":   providers,
		"variables":   valuesMeaning(t.Variables),
		"condition":   t.Condition,
		"inputs":      t.ModuleInputs,
		"working_dir": c.relative(t.WorkingDir),
		"terraform":   c.Terraform.Version,
		"backend":     c.backendMeaning(),
	}
	if c.Terraform.Engine == EngineTofu {
		meaning["engine"] = c.Terraform.Engine
	}
	if len(t.VariableTemplates) > 0 {
		meaning["variable_templates"] = t.VariableTemplates
	}
	if t.ModuleDigest != "" {
		meaning["module_digest"] = t.ModuleDigest
	}
	return meaning
}

// backendMeaning is where states are, and not where the files for a TLS
// connection to them lie, which differs from host to host.
func (c *Config) backendMeaning() any {
	b := c.Terraform.Backend
	if b.Type == "consul" {
		b.Body.Attributes = maps.Clone(b.Body.Attributes)
		for _, file := range []string{"ca_file", "cert_file", "key_file"} {
			delete(b.Body.Attributes, file)
		}
	}
	return []any{b.Type, bodyMeaning(b.Body)}
}

// moduleMeaning is the module without what differs from host to host.
func (c *Config) moduleMeaning(t *Task) string {
	if relativeModule(t.written) && !filepath.IsLocal(t.written) {
		if rel, err := filepath.Rel(c.dir, t.Module); err == nil {
			return filepath.ToSlash(rel)
		}
	}
	return c.relative(t.Module)
}

// relative names a path in the directory of the configuration without that
// directory, which differs from host to host.
func (c *Config) relative(path string) string {
	if c.dir == "" || !filepath.IsAbs(path) {
		return filepath.ToSlash(path)
	}
	rel, err := filepath.Rel(c.dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return filepath.ToSlash(path)
	}
	return "./" + filepath.ToSlash(rel)
}

func bodyMeaning(b Body) any {
	blocks := map[string][]any{}
	for name, bodies := range b.Blocks {
		for _, body := range bodies {
			blocks[name] = append(blocks[name], bodyMeaning(body))
		}
	}
	return []any{valuesMeaning(b.Attributes), blocks}
}

// valuesMeaning keeps the types, which plain JSON would lose.
func valuesMeaning(values map[string]cty.Value) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for name, v := range values {
		src, err := ctyjson.Marshal(v, cty.DynamicPseudoType)
		if err != nil {
			src, _ = json.Marshal(v.GoString()) // not a value that Load returns
		}
		m[name] = src
	}
	return m
}

// digest hashes a value of maps, slices and plain structs; encoding/json sorts
// the keys of maps.
func digest(v any) string {
	src, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("config: digest: %v", err)) // a type that JSON cannot hold
	}
	sum := sha256.Sum256(src)
	return hex.EncodeToString(sum[:])
}
