package reconcile

import (
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// outage reports whether Consul has answered nothing: that concerns Consul, and no single task.
func outage(answers []consul.Answer) bool {
	return len(answers) > 0 && !slices.ContainsFunc(answers, func(a consul.Answer) bool { return !consul.IsUnavailable(a.Err) })
}

// concerned is how many tasks wait because Consul cannot be watched.
func (t *tick) concerned(s state.Sight) (n int) {
	if s.ConsulError == "" {
		return 0
	}
	behind := t.gates.Failing(t.opts.GatesErr)
	for _, task := range t.Reconciler.tasks {
		if task.Enabled && task.query != nil && (s.ConsulUnreachable || behind(*task.query)) {
			n++
		}
	}
	return n
}

// unreadable sums up which tasks cannot be read, nil if all can.
func (t *tick) unreadable() *state.Unreadable {
	u := state.Unreadable{All: !slices.ContainsFunc(t.resting, func(i int) bool { return t.Reconciler.tasks[i].Enabled && t.Reconciler.tasks[i].Condition.Spec != nil })}
	for _, d := range t.report.Decisions {
		switch since := d.State.Observed.UnreadableSince; {
		case !since.IsZero():
			u.Count++
			if len(u.Tasks) < state.MaxNames {
				u.Tasks = append(u.Tasks, d.Task.Name)
			}
			if u.Error == "" && d.Unreadable != nil {
				u.Error = state.Cut(d.Unreadable.Error())
			}
			if since.After(u.Since) {
				u.Since = since
			}
		case !lifecycle.RowOf(d.Reason.Code).Off && d.Task.Condition.Spec != nil:
			u.All = false
		}
	}
	if u.Count == 0 {
		return nil
	}
	return &u
}

// readability returns the events about tasks that cannot be read, or can be read again, since
// the latest tick: one of each kind, however many tasks there are.
func (t *tick) readability(was state.Reconcile, now time.Time) (events []outbox.Event) {
	since, known := time.Time{}, map[string]bool{} // why tasks could not be read before
	if was.Unreadable != nil {
		since = was.Unreadable.Since
	}
	var others []decide.Decision
	for _, d := range t.report.Decisions {
		switch {
		case d.State.Observed.UnreadableSince.After(since):
			others = append(others, d)
		case d.Unreadable != nil:
			known[d.Unreadable.Error()] = true
		}
	}
	// What passes by itself may be found task by task, such as a peer that does not answer.
	others = slices.DeleteFunc(others, func(d decide.Decision) bool {
		return fault.IsTransient(d.Unreadable) && known[d.Unreadable.Error()]
	})
	if len(others) > 0 {
		e := outbox.Event{Kind: outbox.TasksUnreadable, At: now}
		var names []string
		for _, d := range others {
			if names = append(names, d.Task.Name); e.Error == "" && d.Unreadable != nil {
				e.Error = state.Cut(d.Unreadable.Error())
			}
		}
		events = append(events, e.About(names))
	}
	if len(t.readable) > 0 {
		e := outbox.Event{Kind: outbox.TasksReadable, At: now}
		var names []string
		for _, r := range t.readable {
			if names = append(names, r.Task); e.Since.IsZero() || r.Since.Before(e.Since) {
				e.Since = r.Since
			}
		}
		events = append(events, e.About(names))
	}
	return events
}
