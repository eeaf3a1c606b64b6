package reconcile

import "github.com/terrapulse/terrapulse/internal/record/state"

// traced is the trace of a run that the batch launches.
func (b *batch) traced(it item, run state.Run) *state.Traced {
	if it.resumed == nil {
		return run.NewTrace(b.tick.Traces)
	}
	return run.ResumedTrace(b.tick.Traces, b.now)
}

// exportSpans exports the spans of the decisions that were just written.
func (b *batch) exportSpans() {
	if b.tick.Spans == nil {
		return
	}
	var runs []state.Run
	for _, it := range b.items {
		b.tick.Spans.Ended(it.ended...)
		if it.run != nil {
			runs = append(runs, it.assembled)
		}
	}
	b.tick.Spans.Decided(runs, b.tick.began, b.tick.Now())
}
