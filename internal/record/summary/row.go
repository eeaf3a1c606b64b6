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
	// Newest is the beginning of the id of the task's newest run, by which runs sort in time.
	Newest string         `json:"n,omitempty"`
	Made   state.TypeList `json:"y,omitempty"` // types of its resources

	// Of a task at rest:
	Observed   string    `json:"o,omitempty"`
	Definition string    `json:"d,omitempty"`
	Due        time.Time `json:"u,omitzero"`
	Scheduled  time.Time `json:"c,omitzero"`
	Checked    bool      `json:"k,omitempty"` // it is checked for drift
	CheckAfter time.Time `json:"a,omitzero"`  // as in state.Drift
	Reason     string    `json:"m,omitempty"` // the sentence of the reason
	Ended      int64     `json:"e,omitempty"` // when the latest run ended, in milliseconds of Unix time
	// Unapplied says that the latest run has not applied everything, although nothing is to be done.
	Unapplied bool `json:"p,omitempty"`
}

// newestLength is how much of the newest id a row has: of a UUID of version 7 the milliseconds.
const newestLength = len("0193a7c0-1234")

// Of returns the row of a task's record.
func Of(task string, t state.Task) Row {
	row := Row{Task: task, Revision: t.Revision, Rest: t.Rest(), Newest: newest(t)}
	if t.Applied.Made != nil {
		row.Made = t.Applied.Made.Types
	}
	if row.Rest == "" {
		return row
	}
	row.Observed, row.Definition, row.Due, row.Scheduled = short(t.Observed.Digest), short(t.Applied.Definition), t.Due.UTC(), t.Scheduled.UTC()
	if t.Drift != nil {
		row.Checked, row.CheckAfter = true, t.Drift.After.UTC()
	}
	row.Reason = t.Reason.Text
	if last := t.Ended.Last; last != nil {
		row.Unapplied = last.State != state.RunSucceeded && last.Entries != nil
		if !last.Ended.IsZero() {
			row.Ended = last.Ended.UnixMilli()
		}
	}
	return row
}

// newest returns the beginning of the id of the task's newest run.
func newest(t state.Task) (id string) {
	if t.Run != nil {
		id = t.Run.ID
	}
	for _, ended := range t.Ended.IDs {
		id = max(id, ended)
	}
	return id[:min(len(id), newestLength)]
}

func short(digest string) string { return digest[:min(len(digest), digestLength)] }

// Shows reports whether the task has observed and applied this.
func (r Row) Shows(observed string) bool { return r.Observed == short(observed) }

// Has reports whether the task was applied, or has been disabled, with this definition.
func (r Row) Has(definition string) bool { return r.Definition == short(definition) }
