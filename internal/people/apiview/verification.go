package apiview

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Verification returns what came of the verifications of a run as the API shows it; nil if there were none.
func Verification(v *state.Verification) *apispec.Verification {
	if v == nil {
		return nil
	}
	shown := &apispec.Verification{State: apispec.VerifyState(v.State), Results: []apispec.Verified{}}
	for _, r := range v.Results {
		shown.Results = append(shown.Results, apispec.Verified{Name: r.Name, State: apispec.VerifyState(r.State), Detail: Optional(r.Detail),
			Attempts: Optional(r.Attempts), Took: Optional(r.Took.Seconds())})
	}
	return shown
}

// VerificationOf returns what the API shows.
func VerificationOf(v *apispec.Verification) *state.Verification {
	if v == nil {
		return nil
	}
	is := &state.Verification{State: state.VerifyState(v.State)}
	for _, r := range v.Results {
		is.Results = append(is.Results, state.Verified{Name: r.Name, State: state.VerifyState(r.State), Detail: apispec.Deref(r.Detail),
			Attempts: apispec.Deref(r.Attempts), Took: time.Duration(apispec.Deref(r.Took) * float64(time.Second))})
	}
	return is
}

// Unverified returns what is not verified of a task as the API shows it; nil if nothing contradicts that
// it works.
func Unverified(u *state.Unverified) *apispec.TaskUnverified {
	if u == nil {
		return nil
	}
	return &apispec.TaskUnverified{Since: u.Since, Run: u.Run, State: apispec.VerifyState(u.State), Text: u.Text, Verified: Moment(u.VerifiedAt)}
}

// NotVerified is what people read of a run that has applied everything and was not verified.
const NotVerified = "succeeded, not verified"

// Outcome is the state of a run in words.
func Outcome(r apispec.Run) string {
	if v := r.Verification; r.State == apispec.RunStateSucceeded && v != nil && v.State != apispec.VerifyStatePassed {
		return NotVerified
	}
	return string(r.State)
}

// Unproven reports whether nothing shows that the latest run of a task works.
func Unproven(t apispec.TaskOverview) bool {
	return t.Unverified != nil && t.LastRun != nil && t.Unverified.Run == t.LastRun.ID
}

// Latest says in words how the latest run of a task ended; "" if none has.
func Latest(t apispec.TaskOverview) string {
	switch {
	case t.LastRun == nil:
		return ""
	case Unproven(t):
		return "not verified"
	}
	return string(t.LastRun.State)
}
