package approval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// ErrSamePerson is why somebody cannot approve what they have changed.
var ErrSamePerson = errors.New("who changed, deleted or destroys the task through the API must not approve its plan")

// Given returns the approval of a person, if they may approve what others have changed, and what waits since a
// time. The error is ErrSamePerson or a *RefusedError.
func (s Spec) Given(who identity.Identity, changedBy []string, since, at time.Time, comment string) (state.Given, error) {
	g := state.Given{By: who.Name, Authenticated: who.Proven(), Proof: who.Proof, Account: who.Account, At: at, Comment: comment}
	if !s.mayApprove(changedBy, g) {
		return state.Given{}, ErrSamePerson
	}
	if (s.Restricted() || s.DistinctApprover) && who.Made.After(since) {
		return state.Given{}, &RefusedError{who.Name, "cannot approve: the token was made after the task began to wait for the approval, perhaps only to approve it: " +
			"use another identity, or let the task be planned again"}
	}
	var err error
	if g.As, err = s.admit(who); err != nil {
		return state.Given{}, err
	}
	if s.Expires > 0 {
		g.Expires = at.Add(s.Expires)
	}
	return g, nil
}

// mayApprove reports whether somebody may approve what others have changed. Only a name
// that was proven shows that it is somebody else.
func (s Spec) mayApprove(changedBy []string, g state.Given) bool {
	return !s.DistinctApprover || len(changedBy) == 0 || g.Authenticated && !slices.ContainsFunc(changedBy, func(other string) bool {
		return other == g.Account || s.People.Same(other, g.By)
	})
}

// Needed is how many different people must approve.
func (s Spec) Needed() int { return max(1, s.Require) }

// Restricted reports whether only people with a proven name may approve: a name that somebody
// claims may be that of anybody.
func (s Spec) Restricted() bool { return s.Needed() > 1 || len(s.From) > 0 }

// RefusedError says why somebody cannot approve.
type RefusedError struct {
	By  string
	Why string // after the name
}

func (e *RefusedError) Error() string { return e.By + " " + e.Why }

// admit returns the entry of From by which somebody may approve; "" if everybody may. The error is a
// *RefusedError.
func (s Spec) admit(who identity.Identity) (as string, err error) {
	if s.Restricted() && !who.Proven() {
		return "", &RefusedError{who.Name, "cannot approve: " + s.Approvers() + ", and nothing proves this name: use a token, a client certificate, a login or IAM"}
	}
	if len(s.From) == 0 {
		return "", nil
	}
	i := slices.IndexFunc(s.From, func(entry string) bool { return s.People.Means(entry, who) })
	if i < 0 {
		return "", &RefusedError{who.Name, "is not one of those who approve: " + s.Approvers()}
	}
	return s.From[i], nil
}

// Counting returns the approvals that count at a time: each is of another person, of one who may
// approve, and has not expired. The account of an OpenID provider is one person, whatever its name is.
func (s Spec) Counting(given []state.Given, now time.Time) []state.Given {
	var counting []state.Given
	for _, g := range given {
		if s.counts(g, now) && s.earlier(counting, g) < 0 {
			counting = append(counting, g)
		}
	}
	return counting
}

func (s Spec) counts(g state.Given, now time.Time) bool {
	switch {
	case !g.Valid(now), s.Restricted() && !g.Authenticated:
		return false
	}
	if person, ok := strings.CutPrefix(g.As, roles.PersonKind); ok && s.People.Of(g.By) != person {
		return false
	}
	return len(s.From) == 0 || slices.Contains(s.From, g.As)
}

// earlier returns the index of the approval that the same person has given; -1 if there is none.
func (s Spec) earlier(given []state.Given, by state.Given) int {
	return slices.IndexFunc(given, func(g state.Given) bool {
		return g.Account != "" && g.Account == by.Account || s.People.Same(g.By, by.By)
	})
}

// Repeated reports whether somebody has given one of the approvals that count. The error is a
// *RefusedError if they have given it as another identity.
func (s Spec) Repeated(given []state.Given, by state.Given) (bool, error) {
	i := s.earlier(given, by)
	if i < 0 || identity.Person(given[i].By) == identity.Person(by.By) {
		return i >= 0, nil
	}
	person := cmp.Or(s.People.Of(by.By), "the same account")
	return true, &RefusedError{by.By, fmt.Sprintf("cannot approve: %s has approved already, as %s", person, given[i].By)}
}

// Enough reports whether an approval is that of enough people at a time.
func (s Spec) Enough(a state.Approval, now time.Time) bool {
	return len(s.Counting(a.All(), now)) >= s.Needed()
}

// Progress says in words how many of the needed approvals are there, and by whom; "" if one person
// is enough.
func Progress(given []state.Given, needed int) string {
	if needed <= 1 || len(given) == 0 {
		return ""
	}
	have := "has"
	if len(given) > 1 {
		have = "have"
	}
	return fmt.Sprintf("%d of %d approvals: %s %s approved", len(given), needed, state.NamesOf(given), have)
}

// Equal reports whether two rules are the same.
func (s Spec) Equal(other Spec) bool {
	return s.Rule == other.Rule && s.Expires == other.Expires && s.DistinctApprover == other.DistinctApprover &&
		s.Require == other.Require && strings.Join(s.From, "\n") == strings.Join(other.From, "\n")
}
