// Package condition has the kinds of condition: what makes a task run, and what
// its module gets from Consul. Each kind is one file, which says everything about
// it: the keys in task files and their checks, what is read of Consul and through
// which gate, which rights that takes, what the module gets, and what the API
// shows. Kinds lists them. No other package names a kind, except where a key of
// Consul-Terraform-Sync does.
//
// This package only describes. Package config decodes the keys, package consul
// reads, package rootmodule writes the files.
package condition

import (
	"reflect"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/tfvars"
)

// Kinds are the kinds of condition, in the order of the documentation.
var Kinds = []*Kind{ServicesKind, CatalogServicesKind, NodesKind, ConsulKVKind, ConfigEntriesKind, ResourcesKind, ScheduleKind}

// Kind is a kind of condition.
type Kind struct {
	// Name is the name in task files, such as "consul-kv". In the API it has
	// underscores.
	Name string
	// Doc says what the condition watches.
	Doc string
	// Keys returns the keys of a new condition block.
	Keys func() Keys

	// InputDoc says what a module_input of this kind gives to the module.
	InputDoc string
	// InputKeys returns the keys of a new module_input block; nil if the kind is
	// no module input.
	InputKeys func() Keys

	// Variable is the module's variable for the data; nil if there is no data.
	Variable *Variable
	// Entries is what the data consists of, in the plural, such as "keys".
	Entries string
}

// APIName is the name of the kind in the API.
func (k *Kind) APIName() string { return strings.ReplaceAll(k.Name, "-", "_") }

// Keys are the keys of a block of a kind: a pointer to a struct with the values
// of package block.
type Keys interface {
	// Place is where the block is; it has Set if a file has the block.
	Place() *block.Origin
	// Spec checks the keys and reports everything that is wrong. parent is the
	// block around this one: "condition" or "module_input".
	Spec(r *block.Report, parent string) Spec
}

// UseAsInput has the key of a condition whose data the module may get.
type UseAsInput struct {
	UseAsModuleInput block.Bool `key:"use_as_module_input" default:"true" doc:"'false': the module does not get the data"`
}

// AsModuleInput reports whether the module gets the data.
func (u *UseAsInput) AsModuleInput(*block.Report) bool { return u.UseAsModuleInput.V }

// sourceIncludesVar is UseAsInput of the kinds that have it by its old name, too.
type sourceIncludesVar struct {
	UseAsInput
	SourceIncludesVar block.Bool `key:"source_includes_var" deprecated:"use_as_module_input" doc:"whether the module gets the data"`
}

// AsModuleInput reports whether the module gets the data.
func (u *sourceIncludesVar) AsModuleInput(r *block.Report) bool {
	switch {
	case u.UseAsModuleInput.Set && u.SourceIncludesVar.Set:
		r.Warn(u.SourceIncludesVar.Origin, "source_includes_var has no effect beside use_as_module_input", "remove it")
	case u.SourceIncludesVar.Set:
		return u.SourceIncludesVar.V
	}
	return u.UseAsModuleInput.V
}

// Spec is the meaning of a block: checked, and with defaults. Its JSON form is
// the canonical form of which definition digests are made: it must leave out
// what is not set, so that a new key changes no digest.
type Spec interface {
	Kind() *Kind
	// String says in words what is watched, such as "service web in datacenter dc1".
	String() string
	// Selections are the parts of what is read. A schedule has none: when it is
	// due, the module inputs are read.
	Selections() []Selection
	// Feeds are what the block reads, each by itself, for people. A schedule has none.
	Feeds() []Feed
}

// Definition is a block as the API shows it: all fields of a struct with JSON tags,
// except pointers that are nil. A spec may have a method with this name instead.
func Definition(spec any) map[string]any {
	if defined, ok := spec.(interface{ Definition() map[string]any }); ok {
		return defined.Definition()
	}
	v := reflect.ValueOf(spec)
	shown := map[string]any{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch f := v.Field(i); {
		case f.Kind() == reflect.Pointer && f.IsNil():
		case f.Kind() == reflect.Map && f.IsNil():
			shown[name] = map[string]string{}
		default:
			shown[name] = f.Interface()
		}
	}
	return shown
}

// Variable is an input variable of the module. Modules are written against its
// declaration.
type Variable struct {
	Name string
	// Declaration returns the declaration in the root module. declared is the type
	// that the task's module declares for the variable, "" if that is not known.
	Declaration func(declared string) string
	// Always is true if every module declares the variable: it is then written
	// even if the task reads nothing for it.
	Always bool
	// Grouped is true if Terraform takes long to convert many entries: a map of
	// objects or lists, not one of strings.
	Grouped bool
}

// VariableNamed returns the variable with this name, or nil.
func VariableNamed(name string) *Variable {
	for _, k := range Kinds {
		if k.Variable != nil && k.Variable.Name == name {
			return k.Variable
		}
	}
	return nil
}

// Entries are the value of a variable.
type Entries interface {
	Len() int
	// Write writes the entries. attributes are the attributes to write if an entry
	// is an object.
	Write(w *tfvars.Writer, attributes map[string]bool)
}

// Warner is implemented by entries that may need a warning to people.
type Warner interface {
	Warning() string // "" if there is no reason
}

// Scheduled is implemented by the spec of a condition that is due at times.
type Scheduled interface {
	CronExpression() string
}
