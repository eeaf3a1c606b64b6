package state

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Override is a change of one task beside the files, made through the API or the
// command line.
type Override struct {
	Task string `json:"task"`
	// Definition is that of a task that no file has, as the API takes it.
	Definition json.RawMessage `json:"definition,omitempty"`
	// Enabled, if set, replaces that of the definition.
	Enabled *bool `json:"enabled,omitempty"`
	// Deleted hides a task of a file until its block there is changed.
	Deleted string `json:"deleted,omitempty"`
	// Provisional, if set, says that the change is kept only if the task's next run
	// succeeds.
	Provisional *Provisional `json:"provisional,omitempty"`
	By          string       `json:"by,omitempty"` // who made the latest change
	// Others made earlier changes that are still in effect.
	Others []string  `json:"others,omitempty"`
	At     time.Time `json:"at"`   // of the latest change
	Made   time.Time `json:"made"` // of the override: the order of the tasks
}

// Change notes who made the latest change. Others keeps account, too, if it has one: the name may change.
func (o *Override) Change(by, account string, at time.Time) {
	o.Others = slices.DeleteFunc(Names(o.ChangedBy(), []string{account}), func(other string) bool { return other == by || other == "" })
	o.By, o.At = by, at
}

// ChangedBy names everybody who made a change that is in effect, some of them also by their accounts.
func (o Override) ChangedBy() []string {
	if o.By == "" {
		return nil
	}
	return append([]string{o.By}, o.Others...)
}

// String describes the change in words.
func (o Override) String() string {
	var said []string
	if len(o.Definition) > 0 {
		said = append(said, "made")
	}
	if o.Deleted != "" && len(o.Definition) == 0 {
		said = append(said, "deleted, until its block in the file is changed")
	}
	if o.Enabled != nil {
		said = append(said, map[bool]string{true: "enabled", false: "disabled"}[*o.Enabled])
	}
	if o.Provisional != nil {
		said = append(said, "provisional")
	}
	return strings.Join(said, ", ")
}

// Provisional is what restores the override if the run of a provisional change fails.
type Provisional struct {
	Since  string    `json:"since,omitempty"`  // the task's latest run before: the next one decides
	Before *Override `json:"before,omitempty"` // nil if there was none
}
