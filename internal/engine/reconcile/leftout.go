package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// leftOut are the names of services that a tick has left out, because Consul has no address for
// them, and the tasks that would have read them.
type leftOut struct {
	names, tasks map[string]bool // thousands of tasks may read the same names
	partial      bool            // not everything was read: earlier names may still be there
}

// maxLeftOut is how many bytes of a name are recorded.
const maxLeftOut = 200

// note adds what a task's answer leaves out.
func (l *leftOut) note(task string, answer consul.Answer) {
	l.partial = l.partial || answer.Err != nil
	if len(answer.LeftOut) == 0 {
		return
	}
	if l.names == nil {
		l.names, l.tasks = map[string]bool{}, map[string]bool{}
	}
	l.tasks[task] = true
	for _, name := range answer.LeftOut {
		l.names[state.CutTo(name, maxLeftOut)] = true
	}
}

// record returns the names that are left out from now on, MaxNames at most. A name goes when
// everything was read without it, so that one that comes and goes is one event.
func (l *leftOut) record(was []string) []string {
	names := slices.Collect(maps.Keys(l.names))
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
	if len(was) >= state.MaxNames {
		return nil
	}
	fresh := slices.DeleteFunc(slices.Sorted(maps.Keys(l.names)), func(name string) bool { return slices.Contains(was, name) })
	if len(fresh) == 0 {
		return nil
	}
	e := outbox.Event{Kind: outbox.ServicesLeftOut, At: now, Detail: state.Cut(consul.LeftOut(fresh))}
	return []outbox.Event{e.About(slices.Sorted(maps.Keys(l.tasks)))}
}
