// Package config reads task files (YAML, and the HCL and JSON that
// Consul-Terraform-Sync reads), merges them, fills in defaults and reports
// everything that is wrong with them in one pass. Its result is complete: no other
// package reads a file, an environment variable or a default again.
package config

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Config is everything the task files say, merged, with defaults filled in.
type Config struct {
	LogLevel   string // TRACE, DEBUG, INFO, WARN or ERR
	Port       int    // of the HTTP API; 8558 by default
	WorkingDir string // parent of the tasks' directories; "sync-tasks" by default
	ID         string // of this instance in Consul; "cts-<hostname>" by default

	Syslog         Syslog
	Consul         Consul
	Vault          Vault
	API            API
	TLS            APITLS
	Terraform      Terraform  // the zero value with another driver
	OtherDriver    Driver     // nil with driver "terraform"; see Driver
	Providers      []Provider // in the order of the files
	BufferPeriod   BufferPeriod
	RunTimeout     time.Duration // of tasks that have none of their own; 0 is no limit
	AuditRetention time.Duration // how long entries of the audit record are kept
	KeepRemoved    time.Duration // how long the records of removed tasks are kept
	Rules                        // of tasks that have none of their own
	Tasks          []Task        // in the order of the files

	Notify []notify.Spec // in the order of the files

	// HighAvailability is nil if the files do not have the block.
	HighAvailability *HighAvailability
	// Nomad is nil if the files do not have the block.
	Nomad *Nomad

	// Warnings are findings that do not stop a run: deprecated keys, keys
	// that have no effect, a task that never triggers.
	Warnings []Diagnostic

	dir   string     // what relative paths were relative to
	files []string   // see Files
	names *taskNames // of Tasks
}

// Provider returns the provider configuration with this id ("name" or
// "name.alias"). A task may list a provider that no block configures.
func (c *Config) Provider(id string) (Provider, bool) {
	for _, p := range c.Providers {
		if p.ID() == id {
			return p, true
		}
	}
	return Provider{}, false
}

// instancesOf returns the ids of the configured instances of a provider.
func (c *Config) instancesOf(name string) []string {
	var ids []string
	for _, p := range c.Providers {
		if p.Name == name {
			ids = append(ids, p.ID())
		}
	}
	return ids
}

// Path is where the cluster keeps its state in Consul's KV: below the parent
// path, under the cluster's name. It neither begins nor ends with a slash.
func (c Cluster) Path() string {
	return strings.Trim(path.Join(c.Storage.Consul.ParentPath, c.Name), "/")
}

// Terraform is the driver "terraform" block.
type Terraform struct {
	Engine     string // the program: "terraform", or "tofu" for OpenTofu; "" is "terraform"
	Version    string // exact version, or "" for any
	Path       string // directory that holds, or receives, the binary; always absolute
	Log        bool
	PersistLog bool
	Backend    Backend
	// RequiredProviders by provider name; the value is either a cty string
	// (a version constraint) or a cty object (source, version), as configured.
	RequiredProviders map[string]cty.Value
}

// What can run a task's module.
const (
	EngineTerraform = "terraform"
	EngineTofu      = "tofu" // OpenTofu
)

// Backend is the one backend block, with the defaults of the consul backend
// merged in.
type Backend struct {
	Type string
	Body Body
}

// PlansRemotely reports whether plans may run in HCP Terraform. Terraform does not
// write such a plan to a file, or only if it stays there as a run to be applied.
func (b Backend) PlansRemotely() bool { return b.Type == "remote" || b.Type == "cloud" }

// Body is the content of a block with keys of a provider or backend: arguments and
// nested blocks.
type Body struct {
	Attributes map[string]cty.Value
	Blocks     map[string][]Body // by block type, in order of appearance
}

// Provider is a terraform_provider block.
type Provider struct {
	Name       string
	Alias      string
	AutoCommit bool
	Env        map[string]string // task_env: environment of the Terraform process
	Body       Body              // without alias, auto_commit and task_env

	dynamic bool // see Dynamic
}

// Dynamic reports whether a value of the body or of the environment is a
// template: one for which IsTemplate holds.
func (p Provider) Dynamic() bool { return p.dynamic }

// ID is what a task's providers list calls this provider: its name, or
// "name.alias".
func (p Provider) ID() string {
	if p.Alias == "" {
		return p.Name
	}
	return p.Name + "." + p.Alias
}

// Task is one unit of automation: a condition in Consul and the Terraform
// module that is applied when it is met.
type Task struct {
	Name        string
	Description string
	Labels      map[string]string // by key; nil if it has none. Nobody changes them
	Enabled     bool
	Module      string   // absolute path if local, else a Terraform module address
	Version     string   // module version constraint
	Providers   []string // ids: a name alone that means a block with an alias has the alias, too
	// Variables are the module's input variables, from the variable files and
	// the variables map, merged. Values are wholly known and may be null.
	Variables map[string]cty.Value
	// VariableTemplates are the templates of the variables that are evaluated for
	// each run: the values are secret strings. None of them is in Variables.
	VariableTemplates map[string]string
	VariableFiles     []string
	Condition         Condition
	ModuleInputs      []condition.Spec // data for the module that triggers nothing
	BufferPeriod      BufferPeriod
	RunTimeout        time.Duration // of each run; 0 is no limit
	AWSRole           string        // ARN of the role that Terraform assumes; "" for none
	MovedFrom         []string      // the names that the task had before
	After             []string      // the tasks that it comes after: names and patterns, see Config.Order
	AfterTimeout      time.Duration // how long it waits for them until that is reported; 0 is no limit
	Cloud             CloudWorkspace
	WorkingDir        string // the task's own directory
	Rules
	// ModuleDigest is a digest of the files of a local module. Only a bundle sets it.
	ModuleDigest string

	// DeprecatedServices are the ids of the deprecated services list, as
	// configured; their queries are in Condition or ModuleInputs.
	DeprecatedServices []string
	Source             Position // where the task block starts
	FromAPI            bool     // no file has the task: it was made through the API

	// as the file says them
	written   string            // Module
	variables map[string]string // Variables, without those of the variable files
	buffer    OwnBufferPeriod   // BufferPeriod
	timeout   *time.Duration    // RunTimeout
	rules     map[string]any    // Rules
	dir       string            // WorkingDir
	cloud     CloudWorkspace    // Cloud

	path   string              // of the keys, such as "task[0]"
	places map[string]Position // of the Variables
}

// VariableNames are the names of all variables that the task sets, sorted.
func (t *Task) VariableNames() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range t.Variables {
			if !yield(name) {
				return
			}
		}
		for name := range t.VariableTemplates {
			if !yield(name) {
				return
			}
		}
	})
}

// VariablePosition is where a variable of the task is set.
func (t *Task) VariablePosition(name string) Position {
	if pos, ok := t.places[name]; ok {
		return pos
	}
	return t.Source
}

// LocalModule reports whether the module is a directory on this machine, which
// Load has made absolute.
func (t *Task) LocalModule() bool { return filepath.IsAbs(t.Module) || relativeModule(t.Module) }

// Condition says what makes a task run.
type Condition struct {
	// Spec is what the block of its kind says; nil if the task has no condition.
	Spec             condition.Spec
	UseAsModuleInput bool // the module gets the data, too
}

// Kind is the kind of the condition; nil if the task has no condition.
func (c Condition) Kind() *condition.Kind {
	if c.Spec == nil {
		return nil
	}
	return c.Spec.Kind()
}

// Schedule returns the cron expression of a condition that is due at times.
func (c Condition) Schedule() (cron string, ok bool) {
	s, ok := c.Spec.(condition.Scheduled)
	if !ok {
		return "", false
	}
	return s.CronExpression(), true
}

// Dir is the absolute folder to which relative paths in the files are relative.
func (c *Config) Dir() string { return c.dir }

// Files are the task files in their order, as a person named them: absolute, or
// relative to Dir.
func (c *Config) Files() []string { return c.files }

// WrittenModule is the module as in the file: a local one is absolute, or relative
// to Dir.
func (t *Task) WrittenModule() string { return t.written }
