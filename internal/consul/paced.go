package consul

import (
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// pacedMarks are the marks of views that may not be polled each time: what the latest
// read showed, whether it was a poll or not. If a poll alone counted, a change that was
// read in between and then taken back would have the mark from before, and be missed.
type pacedMarks struct {
	mu    sync.Mutex
	marks map[condition.View]pacedMark
}

type pacedMark struct {
	mark string
	at   time.Time // by the wall clock: the monotonic one stands still while a function is frozen
}

// every is how often the view may be polled; 0 if there is no limit.
func every(v condition.View) time.Duration {
	if paced, ok := v.(condition.Paced); ok {
		return paced.Every()
	}
	return 0
}

// fresh returns the mark of a view that may not be polled yet; otherwise "".
func (p *pacedMarks) fresh(v condition.View, now time.Time) string {
	if every(v) == 0 {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.marks[v]
	if age := now.Round(0).Sub(m.at); age < 0 || age >= every(v) {
		return ""
	}
	return m.mark
}

// note keeps what a read that began at a time has shown.
func (p *pacedMarks) note(v condition.View, elements []condition.Element, began time.Time) {
	if every(v) == 0 {
		return
	}
	mark := markOf(elements)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.marks == nil {
		p.marks = map[condition.View]pacedMark{}
	}
	p.marks[v] = pacedMark{mark, began.Round(0)}
}
