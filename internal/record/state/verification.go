package state

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// VerifyState is what came of a verification.
type VerifyState string

// What came of a verification. Only VerifyPassed says that what was applied works.
const (
	VerifyPassed      VerifyState = "passed"
	VerifyFailed      VerifyState = "failed"      // no attempt passed in its time
	VerifyInterrupted VerifyState = "interrupted" // the process was stopped before
	VerifyCancelled   VerifyState = "cancelled"   // a person cancelled the run before
)

// maxVerified is how much of the detail of a verification is kept, in bytes.
const maxVerified = 500

// Verified is what came of one verification of a run.
type Verified struct {
	Name     string        `json:"name"`
	State    VerifyState   `json:"state"`
	Detail   string        `json:"detail,omitempty"` // why it has not passed
	Attempts int           `json:"attempts,omitempty"`
	Took     time.Duration `json:"took,omitempty"`
	Holds    bool          `json:"holds,omitempty"` // a failure puts the task on hold
}

// Verification is what came of the verifications of a run that has applied its task.
type Verification struct {
	State   VerifyState `json:"state"`
	Results []Verified  `json:"results"`
}

// NewVerification joins results; it returns nil if there are none. A failure counts more than an
// interruption, which counts more than a pass.
func NewVerification(results []Verified) *Verification {
	if len(results) == 0 {
		return nil
	}
	v := &Verification{State: VerifyPassed, Results: results}
	for i := range results {
		results[i].Detail = CutTo(results[i].Detail, maxVerified)
	}
	for _, s := range []VerifyState{VerifyInterrupted, VerifyCancelled, VerifyFailed} {
		for _, r := range results {
			if r.State == s {
				v.State = s
			}
		}
	}
	return v
}

// Verifying is a verification that the next process continues: everything is applied.
type Verifying struct {
	Since      time.Time  `json:"since"`      // when the apply had ended
	Definition string     `json:"definition"` // digest of the task's definition that was applied
	Results    []Verified `json:"results,omitempty"`
}

// Ended returns the results of the verifications that need not be continued.
func (v Verifying) Ended() (all []Verified) {
	for _, r := range v.Results {
		if r.State != VerifyInterrupted {
			all = append(all, r)
		}
	}
	return all
}

// Cancelled returns the results if nobody continues: a person has cancelled the run.
func (v Verifying) Cancelled() []Verified {
	all := slices.Clone(v.Results)
	for i := range all {
		if all[i].State == VerifyInterrupted {
			all[i].State = VerifyCancelled
		}
	}
	return all
}

// Passed reports whether nothing contradicts that what was applied works. It does so, too, where nothing
// was to be verified.
func (v *Verification) Passed() bool { return v == nil || v.State == VerifyPassed }

// String says what has not passed.
func (v *Verification) String() string {
	if v.Passed() {
		return ""
	}
	var texts []string
	for _, r := range v.Results {
		if r.State != VerifyPassed {
			texts = append(texts, r.String())
		}
	}
	return Cut(strings.Join(texts, "; "))
}

// String says what came of a verification.
func (r Verified) String() string {
	text := fmt.Sprintf("%s %s", r.Name, r.State)
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

// Unverified says that a task was applied, and that nothing shows that it works.
type Unverified struct {
	Since time.Time   `json:"since"` // when the first of the runs ended that were not verified
	Run   string      `json:"run"`   // the latest run
	State VerifyState `json:"state"` // of that run
	Names string      `json:"names"` // what has not passed
	Text  string      `json:"text"`
	// VerifiedAt is when the latest run ended that was verified; zero if there is none.
	VerifiedAt time.Time `json:"verified_at,omitzero"`
	// Again is set if the verification was interrupted twice in a row: the task does not run for it any more.
	Again bool `json:"again,omitempty"`
}

// Interrupted reports whether the task runs again because its verification was interrupted.
func (u *Unverified) Interrupted() bool { return u != nil && u.State == VerifyInterrupted && !u.Again }

// verified returns the record of a task after a run has applied it: it says what is not verified, and
// the task is on hold if that is configured. An earlier hold stays.
func (t Task) verified(was Task, run Run) Task {
	v := run.Verification
	if v.Passed() {
		t.Applied.Unverified = nil
		return t
	}
	u := &Unverified{Since: run.Ended, Run: run.ID, State: v.State, Text: v.String(), VerifiedAt: was.Applied.At}
	var names []string
	for _, r := range v.Results {
		if r.State != VerifyPassed {
			names = append(names, r.Name)
		}
		if r.State == VerifyFailed && r.Holds && t.OnHold == nil {
			t.PutOnHold(OnHold{By: "verification " + r.Name, At: run.Ended, Comment: r.Detail})
		}
	}
	u.Names = strings.Join(names, " ")
	if before := was.Applied.Unverified; before != nil {
		u.Since, u.VerifiedAt = before.Since, before.VerifiedAt
		u.Again = v.State == VerifyInterrupted && before.State == VerifyInterrupted
	}
	t.Applied.Unverified = u
	return t
}
