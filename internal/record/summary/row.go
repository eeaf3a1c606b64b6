package summary

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// digestLength is how much of a digest a row has: 64 bits of SHA-256, so that two digests of one
// task are taken for the same once in 10^19 changes.
const digestLength = 16

// Row is what the summary has of a task's record.
type Row struct {
	Task     string     `json:"t"`
	Revision uint64     `json:"r,omitempty"` // of the record
	Gone     bool       `json:"x,omitempty"` // the record was removed
	Rest     state.Rest `json:"s,omitempty"`

	// Of a task at rest:
	Observed   string    `json:"o,omitempty"`
	Definition string    `json:"d,omitempty"`
	Due        time.Time `json:"u,omitzero"`
	Scheduled  time.Time `json:"c,omitzero"`
	Checked    bool      `json:"k,omitempty"` // it is checked for drift
	CheckAfter time.Time `json:"a,omitzero"`  // as in state.Drift
}

// Of returns the row of a task's record.
func Of(task string, t state.Task) Row {
	row := Row{Task: task, Revision: t.Revision, Rest: t.Rest()}
	if row.Rest == "" {
		return row
	}
	row.Observed, row.Definition, row.Due, row.Scheduled = short(t.Observed), short(t.Definition), t.Due.UTC(), t.Scheduled.UTC()
	if t.Drift != nil {
		row.Checked, row.CheckAfter = true, t.Drift.After.UTC()
	}
	return row
}

func short(digest string) string { return digest[:min(len(digest), digestLength)] }

// Shows reports whether the task has observed and applied this.
func (r Row) Shows(observed string) bool { return r.Observed == short(observed) }

// Has reports whether the task was applied, or has been disabled, with this definition.
func (r Row) Has(definition string) bool { return r.Definition == short(definition) }
