package launch

import (
	"context"
	"slices"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Parallel is how many runs are executed at a time.
func (l *Local) Parallel() int { return l.runs.size }

// Room is how many more runs would begin at once; 0 once it is closed or runs are interrupted.
func (l *Local) Room() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.room()
}

func (l *Local) room() int {
	if l.closed || l.ctx.Err() != nil {
		return 0
	}
	return max(0, l.runs.free-len(l.runs.waiting))
}

// Close makes no room for more launches from now on. Start continues to work.
func (l *Local) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.signal()
}

// ends is how many runs have ended.
func (l *Local) ends() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// changes returns what receives when the room may have changed.
func (l *Local) changes() <-chan struct{} {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	l.changed = append(l.changed, c)
	l.mu.Unlock()
	context.AfterFunc(l.ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.signal()
	})
	return c
}

// poke signals that a launch has come that this process does not begin.
func (l *Local) poke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signal()
}

// Reserve keeps room for one run, if there is room. Then either Begin or Release follows, which Wait waits for.
func (l *Local) Reserve() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room() < 1 {
		return false
	}
	l.runs.free--
	l.work.Add(1)
	return true
}

// Release gives reserved room back.
func (l *Local) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.work.Done()
	l.runs.free++
	l.begin(&l.runs)
}

// Begin executes a launch of one run, for which room is reserved.
func (l *Local) Begin(launch state.Launch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.work.Done()
	l.runs.free++
	l.first(launch)
}

// beginFirst begins a launch before the others that wait.
func (l *Local) beginFirst(launch state.Launch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first(launch)
}

func (l *Local) first(launch state.Launch) {
	l.runs.waiting = append(l.comes(launch), l.runs.waiting...)
	l.begin(&l.runs)
	l.signal()
}

// queued returns those of the first launches that wait and that any instance may carry out which are not open yet.
func (l *Local) queued(first int, open map[string]state.Record) (all []state.Launch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.runs.waiting {
		if first == 0 {
			return all
		}
		if !w.launch.Kind.Applies() || w.launch.For != "" || len(w.launch.Runs) > 1 {
			continue
		}
		first--
		if _, is := open[w.launch.ID]; !is {
			all = append(all, w.launch)
		}
	}
	return all
}

// drop removes a launch of one run from those that wait, and reports whether it was one of them.
func (l *Local) drop(launch string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := len(l.runs.waiting)
	if l.runs.waiting = slices.DeleteFunc(l.runs.waiting, func(w waiting) bool { return w.launch.ID == launch }); len(l.runs.waiting) == waits {
		return false
	}
	delete(l.alive, launch)
	l.signal()
	return true
}
