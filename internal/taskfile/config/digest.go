package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Digest identifies the meaning of the configuration for runs, in hex SHA-256,
// independent of the files, their format, the order of keys, the host and the
// folder. Credentials for Consul and Vault are not part of it: they can be rotated.
func (c *Config) Digest() string { return c.meaning().digest() }

// meaning is the canonical form of the configuration, of which Parts says what differs.
func (c *Config) meaning() meaning {
	consul, m := meaning{}, meaning{}
	consul.set("address", c.Consul.Address)
	consul.set("namespace", c.Consul.Namespace)
	consul.set("partition", c.Consul.Partition)
	m.set("consul", consul)
	m.set("tasks", list.Map(c.Tasks, func(t Task) meaning { return c.runMeaning(&t) }))
	m.set("people", c.Rules.Approval.People)
	return m
}

// runMeaning is what decides whether, when and how a task runs.
func (c *Config) runMeaning(t *Task) meaning {
	m := meaning{}
	m.set("definition", c.taskMeaning(t))
	m.set("enabled", t.Enabled)
	m.set("buffer_period", bufferMeaning(t.BufferPeriod.Enabled, t.BufferPeriod.Min, t.BufferPeriod.Max))
	m.set("rules", t.Rules.meaning())
	m.set("moved_from", t.MovedFrom)
	m.set("after", t.After)
	m.set("after_timeout", t.AfterTimeout)
	return m
}

// Digest identifies what decides the result of the task's run beside the data from
// Consul, in hex SHA-256: its definition, its providers and the driver, but not its
// description, its buffer period and whether it is enabled.
func (t *Task) Digest(c *Config) string { return c.taskMeaning(t).digest() }

// DigestNamed is the Digest that the task would have under another name: if that is the
// one of the task of that name, nothing but the name differs.
func (t *Task) DigestNamed(c *Config, name string) string {
	other := *t
	if other.Name = name; t.WorkingDir == filepath.Join(c.WorkingDir, t.Name) {
		other.WorkingDir = filepath.Join(c.WorkingDir, name)
	}
	return other.Digest(c)
}

// Shape identifies what makes a renamed task the same one: its module, its providers
// and its condition.
func (t *Task) Shape(c *Config) string {
	m := meaning{}
	m.set("module", c.moduleMeaning(t))
	m.set("providers", t.Providers)
	if t.Condition.Spec != nil {
		m.set("condition", specMeaning(t.Condition.Spec))
	}
	return m.digest()[:16]
}

// Identity identifies the block of the task in its file, in hex SHA-256. Overrides,
// the driver, providers and the content of variable files do not change it, nor do labels:
// a task that was deleted through the API does not run again because of one.
func (t *Task) Identity(c *Config) string {
	m := meaning{}
	m.set("name", t.Name)
	m.set("description", t.Description)
	m.set("module", c.moduleMeaning(t))
	m.set("version", t.Version)
	m.set("providers", t.Providers)
	m.set("variable_files", t.VariableFiles)
	m.set("variables", t.variables)
	m.condition(t)
	m.set("buffer_period", bufferMeaning(t.buffer.Enabled, t.buffer.Min, t.buffer.Max))
	m.set("run_timeout", t.timeout)
	m.set("rules", t.rules)
	m.set("aws_role", t.AWSRole)
	m.set("moved_from", t.MovedFrom)
	m.set("after", t.After)
	m.set("after_timeout", t.AfterTimeout)
	m.set("terraform_cloud_workspace", t.cloud)
	m.set("working_dir", c.relative(t.dir))
	return m.digest()
}

// Differences names what differs between two versions of a task, each with its
// configuration. It shows no values.
func Differences(was *Config, old *Task, is *Config, t *Task) []string {
	a, b := was.parts(old), is.parts(t)
	differ := differing(a, b)
	names := []string{"enabled", "description", "labels", "module", "files of the module", "version", "condition", "module_input", "buffer_period", "run_timeout", "aws_role", "moved_from", "after", "after_timeout",
		"guard", "approval", "on_removal", "window", "check", "drift", "verify", "variables", "providers", "provider", "engine", "Terraform's version", "backend", "workspace"}
	for _, name := range differ { // of a driver
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var what []string
	for _, name := range names {
		switch {
		case !slices.Contains(differ, name), name == "files of the module" && slices.Contains(differ, "module"):
		case name == "variables":
			what = append(what, "variables "+strings.Join(differing(a[name].(meaning), b[name].(meaning)), ", "))
		case name == "provider":
			for _, id := range differing(a[name].(meaning), b[name].(meaning)) {
				if slices.Contains(old.Providers, id) && slices.Contains(t.Providers, id) {
					what = append(what, "provider "+id)
				}
			}
		default:
			what = append(what, name)
		}
	}
	return what
}

// driverWords are the names that people read of keys of Driver.Meaning.
var driverWords = map[string]string{"terraform": "Terraform's version", "cloud": "workspace"}

// parts is the meaning of a task under the names that people read.
func (c *Config) parts(t *Task) meaning {
	m, variables, providers := c.taskMeaning(t), meaning{}, meaning{}
	for name, v := range t.Variables {
		variables[name] = valueMeaning(v)
	}
	for name, text := range t.VariableTemplates {
		variables[name] = text
	}
	for _, id := range t.Providers {
		providers[id] = c.providerMeaning(id)
	}
	parts := meaning{
		"enabled": t.Enabled, "description": t.Description, "labels": t.Labels, "buffer_period": t.BufferPeriod, "run_timeout": t.RunTimeout, "aws_role": t.AWSRole, "moved_from": t.MovedFrom,
		"after": t.After, "after_timeout": t.AfterTimeout,
		"module": m["module"], "files of the module": t.ModuleDigest, "version": t.Version,
		"condition": []any{m["condition"], t.Condition.UseAsModuleInput}, "module_input": m["module_input"],
		"variables": variables, "providers": t.Providers, "provider": providers,
	}
	maps.Copy(parts, t.Rules.meaning())
	for key, value := range c.Driver().Meaning(c, t) {
		parts[cmp.Or(driverWords[key], key)] = value
	}
	parts["engine"] = c.Terraform.Engine
	return parts
}

// differing returns the keys whose values differ, sorted.
func differing(a, b meaning) []string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	maps.DeleteFunc(both, func(key string, _ any) bool { return reflect.DeepEqual(a[key], b[key]) })
	return sortedKeys(both)
}

// meaning is the canonical form that a digest is made of. It has only keys that are
// set, so that a new key changes no digest of tasks that do not set it.
type meaning map[string]any

// set sets a key, unless the value is zero or empty. A pointer to a zero value is
// a value.
func (m meaning) set(key string, value any) {
	v := reflect.ValueOf(value)
	if !v.IsValid() || v.IsZero() || (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0 {
		return
	}
	m[key] = value
}

// digest hashes the JSON form, in which the keys of maps are sorted.
func (m meaning) digest() string {
	sum := sha256.Sum256(jsonOf(m))
	return hex.EncodeToString(sum[:])
}

func jsonOf(value any) []byte {
	src, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("config: digest: %v", err)) // a type that JSON cannot hold
	}
	return src
}

// condition sets the condition and the module inputs of a task.
func (m meaning) condition(t *Task) {
	if t.Condition.Spec != nil {
		m.set("condition", specMeaning(t.Condition.Spec))
		m.set("use_as_module_input", t.Condition.UseAsModuleInput)
	}
	m.set("module_input", list.Map(t.ModuleInputs, specMeaning))
}

// specMeaning is a block by its kind: its JSON form leaves out what is not set.
func specMeaning(spec condition.Spec) meaning { return meaning{spec.Kind().Name: spec} }

func bufferMeaning(enabled, least, most any) meaning {
	m := meaning{}
	m.set("enabled", enabled)
	m.set("min", least)
	m.set("max", most)
	return m
}

func (c *Config) taskMeaning(t *Task) meaning {
	m := meaning{}
	m.set("name", t.Name)
	m.set("module", c.moduleMeaning(t))
	m.set("module_digest", t.ModuleDigest)
	m.set("version", t.Version)
	m.set("aws_role", t.AWSRole)
	m.set("providers", list.Map(t.Providers, c.providerMeaning))
	m.set("variables", valuesMeaning(t.Variables))
	m.set("variable_templates", t.VariableTemplates)
	m.condition(t)
	m.set("working_dir", c.stateFolder(t))
	maps.Copy(m, c.Driver().Meaning(c, t))
	return m
}

// stateFolder is the folder of the task if its state is there; "" otherwise: then the folder decides no result,
// and may be another one on each machine.
func (c *Config) stateFolder(t *Task) string {
	if c.Driver().Kind().Remote || c.Terraform.Backend.Type != "local" {
		return ""
	}
	return c.relative(t.WorkingDir)
}

// partWords are the names that people read of keys of a task's canonical form.
var partWords = map[string]string{"name": "the tasks", "module_digest": "files of the module", "variable_templates": "variables", "use_as_module_input": "condition"}

// Parts returns a digest of each part of what Digest identifies, without the address of Consul, by the name
// that people read: two instances can say in what they differ.
func (c *Config) Parts() map[string]string {
	sums := map[string]hash.Hash{"the tasks": sha256.New()} // also if there is none
	add := func(part, of string, value any) {
		if sums[part] == nil {
			sums[part] = sha256.New()
		}
		fmt.Fprintf(sums[part], "%q %s\n", of, jsonOf(value))
	}
	m := c.meaning()
	consul, _ := m["consul"].(meaning)
	delete(consul, "address")
	for _, key := range sortedKeys(consul) {
		add("consul."+key, "", consul[key])
	}
	tasks, _ := m["tasks"].([]meaning)
	for i, task := range tasks {
		for _, group := range []string{"definition", "rules"} {
			keys, _ := task[group].(meaning)
			delete(task, group)
			maps.Copy(task, keys)
		}
		for _, key := range sortedKeys(task) {
			add(cmp.Or(partWords[key], driverWords[key], key), c.Tasks[i].Name+" "+key, task[key])
		}
	}
	if people := m["people"]; people != nil {
		add("the groups of approvers", "", people)
	}
	digests := map[string]string{}
	for part, sum := range sums {
		digests[part] = hex.EncodeToString(sum.Sum(nil))[:16]
	}
	return digests
}

// DifferingParts names the parts in which two configurations differ. It names none if one side has no parts:
// an instance of an older version reports none.
func DifferingParts(a, b map[string]string) (names []string) {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, part := range sortedKeys(both) {
		if a[part] != b[part] {
			names = append(names, part)
		}
	}
	return names
}

func (c *Config) providerMeaning(id string) meaning {
	p, _ := c.Provider(id)
	name, _, _ := strings.Cut(id, ".")
	m := bodyMeaning(p.Body)
	m.set("id", id)
	if v, ok := c.RequiredProviders()[name]; ok {
		m.set("required", valueMeaning(v))
	}
	m.set("auto_commit", p.AutoCommit)
	m.set("task_env", p.Env)
	return m
}

// BackendDigest identifies where the states of Terraform are; "" if another system keeps them.
func (c *Config) BackendDigest() string {
	if c.Driver().Kind().Remote {
		return ""
	}
	return c.backendMeaning().digest()
}

// backendMeaning is where states are, without the files for the TLS connection,
// which differ from host to host.
func (c *Config) backendMeaning() meaning {
	b := c.Terraform.Backend
	if b.Type == "consul" {
		b.Body.Attributes = maps.Clone(b.Body.Attributes)
		for _, file := range []string{"ca_file", "cert_file", "key_file"} {
			delete(b.Body.Attributes, file)
		}
	}
	m := bodyMeaning(b.Body)
	m.set("type", b.Type)
	return m
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

func bodyMeaning(b Body) meaning {
	blocks := map[string][]meaning{}
	for name, bodies := range b.Blocks {
		for _, body := range bodies {
			blocks[name] = append(blocks[name], bodyMeaning(body))
		}
	}
	m := meaning{}
	m.set("attributes", valuesMeaning(b.Attributes))
	m.set("blocks", blocks)
	return m
}

func valuesMeaning(values map[string]cty.Value) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for name, v := range values {
		m[name] = valueMeaning(v)
	}
	return m
}

// valueMeaning is a value with its type, which plain JSON would lose.
func valueMeaning(v cty.Value) json.RawMessage {
	src, err := ctyjson.Marshal(v, cty.DynamicPseudoType)
	if err != nil {
		src, _ = json.Marshal(v.GoString()) // not a value that Load returns
	}
	return src
}
