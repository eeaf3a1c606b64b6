package roles

import (
	"maps"
	"slices"
	"strings"
)

// scopes returns which tasks a grant is for. Each scope is a text: a pattern of names, or the labels that a
// task must have, or both, with spaces between them, such as "firewall-* site=muc".
func (g Grant) scopes() []string {
	tasks := g.Tasks
	if len(tasks) == 0 {
		tasks = everyTask
	}
	if len(g.Labels) == 0 {
		return tasks
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(g.Labels)) {
		labels = append(labels, key+"="+g.Labels[key])
	}
	scopes := make([]string, len(tasks))
	for i, pattern := range tasks {
		if scopes[i] = strings.Join(labels, " "); pattern != "*" {
			scopes[i] = pattern + " " + scopes[i]
		}
	}
	return scopes
}

// byLabel reports whether a scope is for tasks with labels.
func byLabel(scope string) bool { return strings.Contains(scope, "=") }

// has reports whether a scope of these rights has a task.
func (r Rights) has(scope, task string) bool {
	for part := range strings.FieldsSeq(scope) {
		key, value, isLabel := strings.Cut(part, "=")
		switch {
		case !isLabel && !matches(part, task, true):
			return false
		case isLabel && !r.assumed && (r.labels == nil || value == "" || r.labels(task)[key] != value):
			return false
		}
	}
	return scope != ""
}
