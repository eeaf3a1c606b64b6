// Package window says when infrastructure may be changed: the window blocks of a
// task, or of the whole configuration. It takes the time as a value.
package window

import (
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/cron"
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

// active reports whether a span of the window includes the time, and when its first
// such span ends. If none does, it returns when the next span begins, zero if never.
func (w *Window) active(at time.Time) (bool, time.Time) {
	start := w.schedule.Next(at.Add(-w.Duration).In(w.zone))
	if start.IsZero() || start.After(at) {
		return false, start
	}
	return true, start.Add(w.Duration)
}

// Change is what the windows are asked about.
type Change struct {
	Action   Action
	Removals bool // it only removes entries
}

// Verdict says whether a change may be applied.
type Verdict struct {
	Open bool
	Next time.Time // if it is not: when it may be next; zero if not within a year
	Text string    // the same in words
}

const (
	// horizon is how far ahead Judge searches for the next opening.
	horizon = 366 * 24 * time.Hour
	// maxSteps is how many beginnings and ends of spans Judge tries for that.
	maxSteps = 2000
)

// Judge says whether a change may be applied at a time. A denying window wins over
// an allowing one. If windows allow such changes, they are denied outside of all
// of these.
func Judge(windows []Window, c Change, at time.Time) Verdict {
	var about []*Window
	for i := range windows {
		w := &windows[i]
		if (len(w.On) == 0 || slices.Contains(w.On, c.Action)) && !(c.Removals && w.AllowRemovalsAlways) {
			about = append(about, w)
		}
	}
	open, next := judge(about, at)
	if open {
		return Verdict{Open: true}
	}
	limit := at.Add(horizon)
	for range maxSteps {
		if next.IsZero() || next.After(limit) {
			break
		}
		var later time.Time
		if open, later = judge(about, next); open {
			return Verdict{Next: next, Text: "outside its window, which opens " + next.In(about[0].zone).Format("Mon 2006-01-02 15:04 MST")}
		}
		next = later
	}
	return Verdict{Text: "outside its window, which does not open within a year"}
}

// judge says whether the windows let a change pass at a time. next is the first
// later time at which that may change; zero if there is none.
func judge(windows []*Window, at time.Time) (open bool, next time.Time) {
	denied, allowed, restricted := false, false, false
	for _, w := range windows {
		active, until := w.active(at)
		if !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
		switch w.Kind {
		case Deny:
			denied = denied || active
		case Allow:
			restricted, allowed = true, allowed || active
		}
	}
	return !denied && (allowed || !restricted), next
}
