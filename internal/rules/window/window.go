// Package window says when infrastructure may be changed: the window blocks of a
// task, or of the whole configuration. It takes the time as a value.
package window

import (
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/cron"
)

// Kind says what a window does.
type Kind string

// The kinds of window.
const (
	Allow Kind = "allow" // changes are allowed inside
	Deny  Kind = "deny"  // changes are denied inside
)

// Window is a time span that begins whenever a cron expression is due.
type Window struct {
	Kind     Kind          `json:"kind"`
	Schedule string        `json:"schedule"`
	Duration time.Duration `json:"duration"` // of each span, in elapsed time: also if clocks change meanwhile
	TimeZone string        `json:"time_zone,omitempty"`
	On       []Action      `json:"on,omitempty"` // what the window is about; everything if empty
	// AllowRemovalsAlways says that the window does not hold a change that only
	// removes entries.
	AllowRemovalsAlways bool `json:"allow_removals_always,omitempty"`

	schedule cron.Schedule
	zone     *time.Location
}

// Action is what a run wants to do.
type Action string

// The actions that a window can be about.
const (
	Apply   Action = "apply"
	Destroy Action = "destroy"
)

// Parse returns the window with its schedule and time zone, which must be valid.
func (w Window) Parse() (Window, error) {
	var err error
	if w.schedule, err = cron.Parse(w.Schedule); err != nil {
		return w, fmt.Errorf("schedule %q: %w", w.Schedule, err)
	}
	w.zone = time.Local
	if w.TimeZone != "" {
		if w.zone, err = time.LoadLocation(w.TimeZone); err != nil {
			return w, fmt.Errorf("time zone %q: %w", w.TimeZone, err)
		}
	}
	if w.Duration <= 0 {
		return w, fmt.Errorf("the duration %s is not positive", w.Duration)
	}
	return w, nil
}

// span reports whether a span of the window includes the time. edge is the end of
// such a span, and otherwise the time at which the next one begins, zero if none does.
func (w *Window) span(at time.Time) (inside bool, edge time.Time) {
	start := w.next(at.Add(-w.Duration))
	if start.IsZero() || start.After(at) {
		return false, start
	}
	// Of spans that overlap, a late one: the search takes fewer steps then.
	for back := w.Duration / 2; back >= time.Second; back /= 2 {
		late := w.next(at.Add(-back))
		if late.IsZero() || late.After(at) {
			break
		}
		start = late
	}
	return true, start.Add(w.Duration)
}

// next is when the first span after a time begins. If clocks skip that, a denying window
// begins when they change, and an allowing one not at all: what is not certain is denied.
func (w *Window) next(after time.Time) time.Time {
	if w.Kind == Deny {
		return w.schedule.NextOrSkipped(after.In(w.zone))
	}
	return w.schedule.Next(after.In(w.zone))
}

// Change is what the windows are asked about.
type Change struct {
	Action   Action
	Removals bool // it only removes entries
}

// Verdict says whether a change may be applied.
type Verdict struct {
	Open bool
	// Next is the time before which the change may not be applied, if it may not: when
	// the windows open, or as far as that is known. It is zero if they do not open within
	// a year.
	Next time.Time
	Text string // the same in words
}

const (
	// horizon is how far ahead Judge searches for the next opening.
	horizon = 366 * 24 * time.Hour
	// maxSteps is how many beginnings and ends of spans Judge tries for that.
	maxSteps = 1000
)

// Judge says whether a change may be applied at a time. A denying window wins over
// an allowing one. If windows allow such changes, they are denied outside of all
// of these.
func Judge(windows []Window, c Change, at time.Time) Verdict {
	about := concerned(windows, c)
	closed, next := closedUntil(about, at)
	if !closed {
		return Verdict{Open: true}
	}
	opens := "does not open before "
	for range maxSteps {
		if next.IsZero() || next.Sub(at) > horizon {
			return Verdict{Text: "outside its window, which does not open within a year"}
		}
		closed, later := closedUntil(about, next)
		if !closed {
			opens = "opens "
			break
		}
		next = later
	}
	return Verdict{Next: next, Text: "outside its window, which " + opens + clock.Stamp(next, next.In(about[0].zone))}
}

// concerned returns the windows that are about a change.
func concerned(windows []Window, c Change) []*Window {
	var about []*Window
	for i := range windows {
		w := &windows[i]
		if (len(w.On) == 0 || slices.Contains(w.On, c.Action)) && !(c.Removals && w.AllowRemovalsAlways) {
			about = append(about, w)
		}
	}
	return about
}

// closedUntil reports whether the windows hold a change at a time, and until when they
// do at least; zero if for ever.
func closedUntil(windows []*Window, at time.Time) (closed bool, until time.Time) {
	var denied, allowed time.Time // until when changes are denied, from when on they are allowed
	restricted, open := false, false
	for _, w := range windows {
		inside, edge := w.span(at)
		switch {
		case w.Kind == Deny && inside && edge.After(denied):
			denied = edge
		case w.Kind == Allow:
			restricted, open = true, open || inside
			if !edge.IsZero() && (allowed.IsZero() || edge.Before(allowed)) {
				allowed = edge
			}
		}
	}
	switch {
	case !denied.IsZero():
		return true, denied
	case restricted && !open:
		return true, allowed
	}
	return false, time.Time{}
}
