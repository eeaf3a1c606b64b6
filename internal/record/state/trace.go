package state

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
)

// Traced is the trace that a run belongs to. A trace ends when its run begins to wait for a person or a
// window, which may take days: then it shows at once what waits, and how long the work took. When the
// run is resumed, it begins another trace, which links to the earlier one.
type Traced struct {
	Root  string    `json:"root"`            // its first span, as a traceparent
	Since time.Time `json:"since"`           // when that begins
	After string    `json:"after,omitempty"` // the first span of the trace before the wait
}

// Trace is the first span of the run's trace; it is not valid if the run is not traced.
func (r Run) Trace() tracing.Context {
	if r.Traced == nil {
		return tracing.Context{}
	}
	return tracing.Parse(r.Traced.Root)
}

// Step is the span of a step of the run in its present launch.
func (r Run) Step(name string) tracing.Context { return r.Trace().Child(name, r.Launch) }

// EndsTrace reports whether the run's trace is complete: the run has ended, or waits for a person or a
// window.
func (r Run) EndsTrace() bool {
	return r.State.Ended() || r.State == RunWaiting && r.Wait != nil && r.Wait.For.ForPeople()
}

// NewTrace begins the trace of a run that is decided; nil without a sampler.
func (r Run) NewTrace(s *tracing.Sampler) *Traced {
	root := s.Begin(r.ID)
	if !root.Valid() {
		return nil
	}
	since := r.Created
	if r.Reason.Code == ReasonChanged { // a retry is for a change that was seen long before
		since = clock.Earlier(r.Seen, r.Created)
	}
	return &Traced{Root: root.String(), Since: since}
}

// ResumedTrace is the trace of a waiting run that is resumed at a time. After a wait for a person or a
// window it is another trace, which is sampled if the earlier one is.
func (r Run) ResumedTrace(s *tracing.Sampler, at time.Time) *Traced {
	switch {
	case s == nil:
		return nil
	case r.Wait == nil || !r.Wait.For.ForPeople() || r.Traced == nil:
		if r.Traced == nil {
			return r.NewTrace(s)
		}
		return r.Traced
	}
	root := s.Begin(r.ID, r.Wait.ID)
	root.Sampled = r.Trace().Sampled
	return &Traced{Root: root.String(), Since: at, After: r.Traced.Root}
}
