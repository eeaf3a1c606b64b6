// Package fault has the kinds of error. The package that owns a client classifies
// the client's errors once; no other code reads the text of an error.
//
// An error with more than a kind has its own type, such as lease.HeldError, which has
// the time until which to wait.
package fault

import "errors"

// Kind is what to do about an error.
type Kind string

// The kinds. An error that is not classified has none.
const (
	// Transient errors pass by themselves: try again.
	Transient Kind = "transient"
	// Person errors stay until a person changes something, such as a right or a
	// setting: trying again soon is of no use.
	Person Kind = "needs a person"
)

// Error is an error that has a kind.
type Error interface {
	error
	Fault() Kind
}

// Of returns the kind of the outermost classified error in err's tree, "" if
// there is none.
func Of(err error) Kind {
	if classified := Error(nil); errors.As(err, &classified) {
		return classified.Fault()
	}
	return ""
}

// IsTransient reports whether the error passes by itself.
func IsTransient(err error) bool { return Of(err) == Transient }

// NeedsPerson reports whether the error stays until a person changes something.
func NeedsPerson(err error) bool { return Of(err) == Person }

// As gives err a kind. Its text stays.
func As(kind Kind, err error) error { return &marked{err, kind} }

type marked struct {
	error
	kind Kind
}

func (m *marked) Fault() Kind   { return m.kind }
func (m *marked) Unwrap() error { return m.error }
