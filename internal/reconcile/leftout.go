package reconcile

import (
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

// leftOut are the names of services that a tick has left out, because Consul has no address for
// them, and the tasks that would have read them.
type leftOut struct {
	names, tasks []string
	partial      bool // not everything was read: earlier names may still be there
}

// maxLeftOut is how many bytes of a name are recorded.
const maxLeftOut = 200

// note adds what a task's answer leaves out.
func (l *leftOut) note(task string, answer consul.Answer) {
	l.partial = l.partial || answer.Err != nil
	if len(answer.LeftOut) == 0 {
		return
	}
	for _, name := range answer.LeftOut {
		l.names = append(l.names, state.CutTo(name, maxLeftOut))
	}
	if !slices.Contains(l.tasks[max(0, len(l.tasks)-1):], task) { // its condition and its inputs follow each other
		l.tasks = append(l.tasks, task)
	}
}

// record returns the names that are left out from now on, MaxNames at most. A name goes when
// everything was read without it, so that one that comes and goes is one event.
func (l *leftOut) record(was []string) []string {
	names := slices.Clone(l.names)
	if l.partial {
		names = append(names, was...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), state.MaxNames)]
}

// events returns the event of names that were not left out before: one, however many tasks would
// have read them. Nobody can send a storm of messages with more names than a record has.
func (l *leftOut) events(was []string, now time.Time) []outbox.Event {
	fresh := slices.DeleteFunc(slices.Clone(l.names), func(name string) bool { return slices.Contains(was, name) })
	if len(fresh) == 0 || len(was) >= state.MaxNames {
		return nil
	}
	slices.Sort(fresh)
	tasks := slices.Compact(slices.Sorted(slices.Values(l.tasks)))
	e := outbox.Event{Kind: outbox.ServicesLeftOut, At: now, Detail: state.Cut(consul.LeftOut(slices.Compact(fresh)))}
	return []outbox.Event{e.About(tasks)}
}
