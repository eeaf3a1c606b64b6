package bundle

import (
	"cmp"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
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
	was = cmp.Or(was, &config.Config{})
	var all []Change
	for i := range is.Tasks {
		t := &is.Tasks[i]
		old, ok := was.Task(t.Name)
		if !ok {
			all = append(all, Change{Task: t.Name, Kind: New, Runs: t.Enabled})
			continue
		}
		if what := config.Differences(was, old, is, t); len(what) > 0 {
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
