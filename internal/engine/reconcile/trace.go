package reconcile

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// traced is the trace of a run that the batch launches.
func (b *batch) traced(it item, run state.Run) *state.Traced {
	if it.resumed == nil {
		return run.NewTrace(b.tick.Traces)
	}
	return run.ResumedTrace(b.tick.Traces, b.now)
}

// endsTrace notes that the trace of a run ends with a decision.
func (b *batch) endsTrace(it *item, run state.Run) {
	if b.tick.Spans != nil {
		it.ended = append(it.ended, run)
	}
}

// exportStart exports the span of an attempt to start a launch.
func (t *tick) exportStart(launch state.Launch, began time.Time, err error) {
	if t.Spans != nil {
		t.Spans.Started(launch, t.opts.Lease.Fence(), began, t.Now(), err)
	}
}

// exportSpans exports the spans of the decisions that were just written.
func (b *batch) exportSpans() {
	if b.tick.Spans == nil {
		return
	}
	var runs []state.Run
	for _, it := range b.items {
		b.tick.Spans.Ended(b.tick.Now(), it.ended...)
		if it.run != nil {
			runs = append(runs, it.assembled)
		}
	}
	b.tick.Spans.Decided(runs, b.tick.began, b.tick.Now())
}
