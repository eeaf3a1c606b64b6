package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Drift is what is known of a task that is checked for drift.
type Drift struct {
	After   time.Time `json:"after"`             // the next check is due at the first time of its schedule after this
	Run     *LiveRun  `json:"run,omitempty"`     // the check under way; a run of the task ends it
	Last    string    `json:"last,omitempty"`    // the latest check that has ended
	Checked time.Time `json:"checked,omitzero"`  // when the latest check ended that could compare
	Error   string    `json:"error,omitempty"`   // why the latest check failed
	Skipped string    `json:"skipped,omitempty"` // why the latest check did not compare
	Found   *Drifted  `json:"found,omitempty"`   // what differs
	// Interrupted is set if the latest check was interrupted, and is due at once.
	Interrupted bool `json:"interrupted,omitempty"`
	// Applied is the digest of what differed before a run that has succeeded since. The
	// next check is due at once: it shows whether the run has ended the drift.
	Applied string `json:"applied,omitempty"`
}

// Drifted is what differs from what was applied last.
type Drifted struct {
	Since     time.Time         `json:"since"`
	Run       string            `json:"run"`       // the latest check, which has the plan
	Digest    string            `json:"digest"`    // of all resources with their attributes, without values
	Count     int               `json:"count"`     // resources
	Resources []DriftedResource `json:"resources"` // the first of them
	Changes   Changes           `json:"changes"`   // counts of what an apply would do
	// Persists is set if a run has succeeded, and the same differed right after it.
	// It is not applied again by itself.
	Persists bool `json:"persists,omitempty"`
}

// DriftedResource is a resource that differs.
type DriftedResource struct {
	Address    string   `json:"address"`
	Action     string   `json:"action"`               // what an apply would do
	Attributes []string `json:"attributes,omitempty"` // paths of the first attributes that differ
}

// shownDrift is how many resources and attributes String names.
const shownDrift = 3

// String says in words what differs.
func (d *Drifted) String() string {
	switch {
	case d.Count == 0 && d.Changes.Unknown:
		return "something differs, but the plan does not say how many resources"
	case d.Count == 0:
		return "outputs differ"
	}
	var texts []string
	for _, r := range d.Resources[:min(len(d.Resources), shownDrift)] {
		texts = append(texts, r.String())
	}
	if more := d.Count - len(texts); more > 0 && len(texts) > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	resources := "1 resource differs"
	if d.Count > 1 {
		resources = fmt.Sprintf("%d resources differ", d.Count)
	}
	if len(texts) == 0 { // only the numbers of the plan are known
		return resources
	}
	return resources + ": " + strings.Join(texts, ", ")
}

func (r DriftedResource) String() string {
	what := strings.Join(r.Attributes[:min(len(r.Attributes), shownDrift)], ", ")
	if len(r.Attributes) > shownDrift {
		what += ", …"
	}
	switch {
	case r.Action == "create":
		what = "is missing"
	case r.Action == "delete":
		what = "would be destroyed"
	default:
		what = cmp.Or(what, r.Action)
	}
	return fmt.Sprintf("%s (%s)", r.Address, what)
}

// Drifted is what differs from what was applied last, as far as a check has shown; nil
// if nothing does.
func (t Task) Drifted() *Drifted {
	if t.Drift == nil {
		return nil
	}
	return t.Drift.Found
}

// AgainInterrupted returns the run of a check as failed if it was interrupted, and so was the one
// before it: it takes longer than the process lives that checks, and would begin for ever.
func (t Task) AgainInterrupted(run Run) Run {
	if d := t.Drift; run.State == RunInterrupted && d != nil && d.Interrupted {
		run.State = RunFailed
		run.Error = Cut("interrupted twice in a row, so that it is not begun again before its next time: the check takes longer than the process lives that waits for it, or the process is stopped too often: " + run.Error)
	}
	return run
}

// EndCheck returns the task's record when a check has ended. A check that was interrupted is due at once.
func (t Task) EndCheck(run Run) (next Task) {
	d := *t.Drift
	next = t
	next.Drift, d.Run, d.Last = &d, nil, run.ID
	if run.State == RunInterrupted {
		d.Interrupted = true
		return next
	}
	// The clock of the runner may be behind that of the leader: the check would be due once more.
	if d.After = run.Ended; d.After.Before(run.Created) {
		d.After = run.Created
	}
	d.Error, d.Skipped, d.Interrupted = "", "", false
	switch run.State {
	case RunSucceeded:
		found := run.Found
		d.Checked = run.Ended
		if found != nil {
			now := *found
			now.Since, now.Run = run.Ended, run.ID
			now.Persists = now.Digest == d.Applied
			if was := d.Found; was != nil {
				now.Since = was.Since
				now.Persists = was.Persists && now.Digest == was.Digest
			}
			found = &now
		}
		d.Found, d.Applied = found, ""
	case RunSuperseded:
		d.Skipped, d.Applied = run.Error, ""
	default:
		d.Error, d.Applied = run.Error, ""
	}
	return next
}

// Forgotten are the checks that are of no use any more once next is known.
func (d *Drift) Forgotten(next *Drift) []string {
	return slices.DeleteFunc(d.kept(), func(id string) bool { return slices.Contains(next.kept(), id) })
}

// kept are the checks that people can read: the latest one, and the latest that has
// found something.
func (d *Drift) kept() []string {
	var kept []string
	if d.Last != "" {
		kept = append(kept, d.Last)
	}
	if d.Found != nil && d.Found.Run != d.Last {
		kept = append(kept, d.Found.Run)
	}
	return kept
}

// WithoutCheck returns the task's record without the check under way, whose outcome is
// dropped then.
func (t Task) WithoutCheck() Task {
	if t.Drift != nil && t.Drift.Run != nil {
		d := *t.Drift
		t.Drift, d.Run = &d, nil
	}
	return t
}

// endDrift returns the task's record after a run of this kind has succeeded.
func (t Task) endDrift(kind Kind, at time.Time) Task {
	if t.Drift == nil {
		return t
	}
	d := Drift{After: at, Last: t.Drift.Last, Checked: t.Drift.Checked}
	if kind == KindApply && t.Drift.Found != nil {
		d.Applied = t.Drift.Found.Digest
	}
	t.Drift = &d
	return t
}
