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

// Reserve keeps room for so many runs, if there is room. Then either Begin or Release follows.
func (l *Local) Reserve(runs int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room() < runs {
		return false
	}
	l.runs.free -= runs
	return true
}

// Release gives reserved room back.
func (l *Local) Release(runs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs.free += runs
	l.begin(&l.runs)
	l.signal()
}

// Begin executes the runs of a launch, for which room is reserved.
func (l *Local) Begin(launch state.Launch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs.free += len(launch.Runs)
	l.first(launch)
}

// hand removes the launch that has waited longest and returns it, if another instance with room for
// so many runs may carry it out. It calls note with the launch before others can see that it is gone.
func (l *Local) hand(room int, note func(launch string)) (launch state.Launch, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := map[string]int{}
	for _, w := range l.runs.waiting {
		waits[w.launch.ID]++
	}
	for _, w := range l.runs.waiting {
		all := len(w.launch.Runs)
		if w.launch.Kind.Applies() && w.launch.Offer == "" && w.launch.For == "" && waits[w.launch.ID] == all && all <= room {
			l.runs.waiting = slices.DeleteFunc(l.runs.waiting, func(other waiting) bool { return other.launch.ID == w.launch.ID })
			note(w.launch.ID)
			delete(l.alive, w.launch.ID)
			return w.launch, true
		}
	}
	return launch, false
}

// takeBack puts a launch that was handed out before the others that wait.
func (l *Local) takeBack(launch state.Launch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first(launch)
}

// first begins a launch before the others that wait. The caller holds the lock.
func (l *Local) first(launch state.Launch) {
	l.runs.waiting = append(l.comes(launch), l.runs.waiting...)
	l.begin(&l.runs)
	l.signal()
}
