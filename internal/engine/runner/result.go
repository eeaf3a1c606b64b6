package runner

import (
	"slices"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// result is what was done under a claim.
type result struct {
	applied    bool   // an apply has begun, however it ended
	definition string // of the task, that was worked on
	snap       *consul.Snapshot
	driver.Outcome
	// differences are those of snap.Inputs to what was applied last.
	differences []consul.Difference
	entries     *state.EntryChanges // these counted; nil if it is not known what was applied, or if the run is not about that
	plan        driver.Plan         // of a run that plans
	staged      bool                // a remote run has begun with what was read
	verified    []state.Verified    // after an apply
	verifying   *state.Verifying    // of a run that waits for the rest of its verification
	backend     string              // digest of where the state is
	toKeep      *state.PackedInputs // what was applied, to be written with the outcome
	verdict     *state.Verdict      // of a what-if
}

// compare notes what differs from what was applied last.
func (r *result) compare(before state.Inputs) {
	for _, in := range r.snap.Inputs {
		r.differences = append(r.differences, consul.Diff(in.Kind.Entries, before.Of(in.Kind.Name), before.Details, in.Observation))
	}
}

// count counts the differences for the record of the run.
func (r *result) count() {
	r.entries = &state.EntryChanges{}
	for _, d := range r.differences {
		d.CountIn(r.entries)
	}
}

// changedEntries are all entries that differ from what was applied last; none if that is
// not known, or if the run is not about that.
func (r *result) changedEntries() []state.EntryChange {
	if !r.entries.Any() {
		return nil
	}
	var all []state.EntryChange
	for _, d := range r.differences {
		all = append(all, d.Entries()...)
	}
	return all
}

// counts returns how many entries each source has, after a run of this kind; those
// before if it is not known what was applied, or if the run is not about that.
func (r *result) counts(run state.Run, before []state.Count) []state.Count {
	succeeded := run.State == state.RunSucceeded
	switch {
	case run.Kind != state.KindApply:
		return before
	case run.Staged && !r.staged: // Now is of what the remote run applies
		counts := slices.Clone(before)
		for i := range counts {
			if succeeded {
				counts[i].Applied = counts[i].Now
			}
		}
		return counts
	case r.differences == nil:
		return before
	case !run.Staged && (run.AppliedElsewhere() || r.entries == nil && !succeeded):
		return before
	}
	counts := make([]state.Count, len(r.differences))
	for i, d := range r.differences {
		counts[i] = d.Count().WithPeaks(before)
		if counts[i].Triggers = r.snap.Inputs[i].Triggers; succeeded {
			counts[i].Applied = counts[i].Now
		}
	}
	return counts
}
