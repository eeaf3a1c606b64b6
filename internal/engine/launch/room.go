package launch

import "github.com/terrapulse/terrapulse/internal/record/state"

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
	notify(l.changed)
}

// ends is how many runs have ended.
func (l *Local) ends() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// expect has a launch count as under way that waits for its turn elsewhere. It reports whether the launch was not
// under way.
func (l *Local) expect(launch string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, is := l.alive[launch]; is {
		return false
	}
	l.alive[launch] = 0
	return true
}

// forget ends that, unless the launch has begun.
func (l *Local) forget(launch string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alive[launch] == 0 {
		delete(l.alive, launch)
	}
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
	l.runs.waiting = append(l.comes(launch), l.runs.waiting...)
	l.begin(&l.runs)
	notify(l.changed)
}
