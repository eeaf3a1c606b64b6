package window

import (
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/clock"
)

// Status says whether changes may be applied, and how long that stays so.
type Status struct {
	Open  bool
	Until time.Time // zero if it stays so for a year, or if that takes too many steps to find out
	Text  string    // the same in words
}

// statusSteps is how many beginnings and ends of spans StatusAt tries: it is called for
// every task that people see.
const statusSteps = 100

// StatusAt says whether the windows permit a change at a time.
func StatusAt(windows []Window, c Change, at time.Time) Status {
	about := concerned(windows, c)
	if len(about) == 0 {
		return Status{Open: true, Text: "open at any time"}
	}
	closed, edge := closedUntil(about, at)
	s := Status{Open: !closed, Text: "closed"}
	if s.Open {
		s.Text, edge = "open", nextEdge(about, at)
	}
	for range statusSteps {
		if edge.IsZero() || edge.Sub(at) > horizon {
			s.Text += " for more than a year"
			return s
		}
		then, later := closedUntil(about, edge)
		if then != closed {
			s.Until = edge
			s.Text += " until " + clock.Stamp(edge, edge.In(about[0].zone))
			return s
		}
		if s.Open {
			later = nextEdge(about, edge)
		}
		edge = later
	}
	s.Text += " at least until " + clock.Stamp(edge, edge.In(about[0].zone))
	return s
}

// nextEdge is the first beginning or end of a span after a time; zero if there is none.
func nextEdge(windows []*Window, after time.Time) (next time.Time) {
	for _, w := range windows {
		if _, edge := w.span(after); !edge.IsZero() && (next.IsZero() || edge.Before(next)) {
			next = edge
		}
	}
	return next
}

// Inside reports whether a span of the window includes a time.
func (w *Window) Inside(at time.Time) bool {
	inside, _ := w.span(at)
	return inside
}

// String says in words what the window does, and when.
func (w *Window) String() string {
	what := "changes"
	switch {
	case slices.Equal(w.On, []Action{Destroy}):
		what = "removals of everything that the task has made"
	case slices.Equal(w.On, []Action{Apply}):
		what = "changes, except removals of everything that the task has made,"
	}
	verb := "allowed"
	if w.Kind == Deny {
		verb = "denied"
	}
	text := fmt.Sprintf("%s are %s for %s from each time of %s", what, verb, block.Brief(w.Duration), w.Schedule)
	if w.TimeZone != "" {
		text += " in " + w.TimeZone
	}
	if w.AllowRemovalsAlways {
		text += "; a change that only removes entries does not wait"
	}
	return text
}
