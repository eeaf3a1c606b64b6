package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxRenamed is how many names Task.Renamed has at most: thousands of tasks of one shape may be renamed at once.
const MaxRenamed = 20

// Rename is what a task has from now on that was renamed.
type Rename struct {
	From, To string
	// Digests of the definition under both names, if it differs in nothing but the name.
	Was, Is string
	At      time.Time
}

// Take returns the record of the renamed task, and what is left of it under its former
// name: the history of its runs, and what it perhaps was. To is the record that the new name
// has so far.
//
// A rename moves everything: also what a person has said, such as a hold, a rejection or
// a request, and the backoff of a failing task. What is lost with a rename is named here.
// The task must have no run under either name.
func (r Rename) Take(from, to Task) (next, left Task) {
	next = from
	next.Applied.Definition, next.Attempted = r.definition(from.Applied.Definition), r.attempt(from.Attempted)
	if from.Stop != nil {
		stop := *from.Stop
		stop.For = r.attempt(stop.For)
		next.Stop = &stop
	}
	if to.Stop != nil {
		next.StopFor(*to.Stop)
	}
	if from.Accepted != nil {
		accepted := *from.Accepted
		accepted.Content.Definition = r.definition(accepted.Content.Definition)
		next.Accepted = &accepted
	}
	if from.Ended.Last != nil {
		last := *from.Ended.Last
		last.Task = cmp.Or(last.Task, r.From)
		next.Ended.Last = &last
	}
	if from.Applied.Made != nil {
		made := *from.Applied.Made
		made.Task = cmp.Or(made.Task, r.From)
		next.Applied.Made = &made
	}
	if limit := r.At.Add(Backoff(r.To, max(from.Failing.Count, 1))); from.Failing.RetryAt.After(limit) {
		next.Failing.RetryAt = limit // of two names, one backs off a little longer
	}
	next.OnHold, next.Destroy = cmp.Or(to.OnHold, from.OnHold), cmp.Or(to.Destroy, from.Destroy)
	next.Forced = Forced{By: cmp.Or(to.Forced.By, from.Forced.By)}
	itself := func(name string) bool { return name == r.To }
	next.Former = Former{Moving: slices.DeleteFunc(Names([]string{r.From}, from.Former.Moving), itself)}
	next.Renamed = slices.DeleteFunc(Names(from.Renamed), itself)
	next.Observed.Recheck, next.Observed.UnreadableSince, next.Due = true, time.Time{}, time.Time{} // it is read, and its place in a queue is found, anew
	next.Reason = Reason{Code: ReasonQueued, Text: "its next run takes along the state of task " + r.From}
	next.Gone = Gone{}
	next.OnRemoval = ""                             // it is kept for the new name
	next.Unsaved = cmp.Or(from.Unsaved, to.Unsaved) // an earlier move may have failed to save what it made
	next.Drift = nil                                // its findings have addresses of the former name
	next.Ended.IDs, next.Ended.Recent, next.Events = to.Ended.IDs, to.Ended.Recent, to.Events

	left = Task{Gone: Gone{Since: r.At, Final: true, MovedTo: r.To}, Naming: Naming{Renamed: from.Renamed}, Ended: from.Ended, Reason: from.Reason, Events: from.Events}
	return next, left
}

func (r Rename) definition(digest string) string {
	if digest != "" && digest == r.Was {
		return r.Is
	}
	return digest
}

func (r Rename) attempt(a Attempt) Attempt {
	return Attempt{Definition: r.definition(a.Definition), Observed: a.Observed}
}

// Used reports whether a task may have made something, or a person has said something
// about it: it is no task that nobody would miss.
func (t Task) Used() bool {
	if t.Destroyed() && t.Stop == nil {
		return false // it was removed, and so destroyed
	}
	return !t.Applied.At.IsZero() || t.Ended.Last != nil && t.Gone.MovedTo == "" || t.Run != nil || t.OnHold != nil || t.Stop != nil || t.Destroy != nil
}

// Unclear returns the removed tasks of which a new one is perhaps one, as long as nobody has said what it is: by a
// request for a run, or by its moved_from.
func (t Task) Unclear(movedFrom []string) []string {
	if t.Forced.By != "" || slices.ContainsFunc(movedFrom, func(name string) bool { return slices.Contains(t.Renamed, name) }) {
		return nil
	}
	return t.Renamed
}

// Names returns the names of all lists, each once.
func Names(lists ...[]string) []string {
	var all []string
	for _, name := range slices.Concat(lists...) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// maxSaid is how many tasks a sentence names.
const maxSaid = 5

// Some names the first of several tasks in words.
func Some(names []string, last string) string {
	if more := len(names) - maxSaid; more > 0 {
		return fmt.Sprintf("%s %s %d more", strings.Join(names[:maxSaid], ", "), last, more)
	}
	if n := len(names) - 1; n > 0 {
		return strings.Join(names[:n], ", ") + " " + last + " " + names[n]
	}
	return names[0]
}

// Plural is a noun as it follows a number.
func Plural(n int, noun string) string {
	stem, endsInY := strings.CutSuffix(noun, "y")
	switch {
	case n == 1:
		return noun
	case endsInY:
		return stem + "ies"
	}
	return noun + "s"
}
