package bundle

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/config"
)

// Kind is the kind of a difference.
type Kind string

// The kinds of difference.
const (
	New     Kind = "new"
	Changed Kind = "changed"
	Removed Kind = "removed" // its infrastructure and its state are kept
)

// Change is a task that differs between two bundles.
type Change struct {
	Task string   `json:"task"`
	Kind Kind     `json:"kind"`
	What []string `json:"what,omitempty"` // of a changed task, what of it; no values
	Runs bool     `json:"runs"`           // whether the task will run because of it
}

// Diff compares two configurations that Load has returned; a nil configuration has no tasks. New
// and changed tasks are in the order of the new configuration, then removed tasks.
func Diff(was, is *config.Config) []Change {
	if was == nil {
		was = &config.Config{}
	}
	var all []Change
	for i := range is.Tasks {
		t := &is.Tasks[i]
		old, ok := was.Task(t.Name)
		if !ok {
			all = append(all, Change{Task: t.Name, Kind: New, Runs: t.Enabled})
			continue
		}
		if what := differences(was, is, old, t); len(what) > 0 {
			all = append(all, Change{Task: t.Name, Kind: Changed, What: what, Runs: t.Enabled && (!old.Enabled || old.Digest(was) != t.Digest(is))})
		}
	}
	for i := range was.Tasks {
		name := was.Tasks[i].Name
		if _, ok := is.Task(name); !ok {
			all = append(all, Change{Task: name, Kind: Removed})
		}
	}
	return all
}

// differences lists what differs between two versions of a task.
func differences(was, is *config.Config, old, t *config.Task) []string {
	var what []string
	add := func(name string, same bool) {
		if !same {
			what = append(what, name)
		}
	}
	path := func(c *config.Config, t *config.Task) string {
		if rel, err := relative(c.Dir(), t.Module); err == nil && t.LocalModule() {
			return rel
		}
		return t.Module
	}
	add("enabled", old.Enabled == t.Enabled)
	add("description", old.Description == t.Description)
	same := path(was, old) == path(is, t)
	add("module", same)
	add("files of the module", !same || old.ModuleDigest == t.ModuleDigest)
	add("version", old.Version == t.Version)
	add("condition", reflect.DeepEqual(old.Condition, t.Condition))
	add("module_input", reflect.DeepEqual(old.ModuleInputs, t.ModuleInputs))
	add("buffer_period", old.BufferPeriod == t.BufferPeriod)
	names := changedValues(old.Variables, t.Variables)
	for _, name := range t.VariableNames() {
		if old.VariableTemplates[name] != t.VariableTemplates[name] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for name := range old.VariableTemplates {
		if !slices.Contains(t.VariableNames(), name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		add("variables "+strings.Join(names, ", "), false)
	}
	add("providers", slices.Equal(old.Providers, t.Providers))
	for _, id := range t.Providers {
		if slices.Contains(old.Providers, id) {
			add("provider "+id, sameProvider(was, is, id))
		}
	}
	add("Terraform's version", was.Terraform.Version == is.Terraform.Version)
	add("backend", was.Terraform.Backend.Type == is.Terraform.Backend.Type && sameBody(was.Terraform.Backend.Body, is.Terraform.Backend.Body))
	return what
}

func sameProvider(was, is *config.Config, id string) bool {
	name, _, _ := strings.Cut(id, ".")
	p, _ := was.Provider(id)
	q, _ := is.Provider(id)
	return sameBody(p.Body, q.Body) && maps.Equal(p.Env, q.Env) && p.AutoCommit == q.AutoCommit &&
		sameValue(was.Terraform.RequiredProviders[name], is.Terraform.RequiredProviders[name])
}

func sameBody(a, b config.Body) bool {
	return len(changedValues(a.Attributes, b.Attributes)) == 0 &&
		maps.EqualFunc(a.Blocks, b.Blocks, func(a, b []config.Body) bool { return slices.EqualFunc(a, b, sameBody) })
}

// changedValues lists the names of values that differ.
func changedValues(a, b map[string]cty.Value) []string {
	var names []string
	both := maps.Clone(b)
	if both == nil {
		both = a
	} else {
		maps.Copy(both, a)
	}
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if !sameValue(a[name], b[name]) {
			names = append(names, name)
		}
	}
	return names
}

// sameValue compares values of which one may be missing.
func sameValue(a, b cty.Value) bool {
	if a == cty.NilVal || b == cty.NilVal {
		return a == b
	}
	return a.RawEquals(b)
}
