package reconcile

import (
	"strconv"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/record/spans"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// traced is the trace of a run that the batch launches.
func (b *batch) traced(it item, run state.Run) *state.Traced {
	if it.resumed == nil {
		return run.NewTrace(b.tick.Traces)
	}
	return run.ResumedTrace(b.tick.Traces, b.now)
}

// spans are those of the decisions that were just written.
func (b *batch) spans() (all []tracing.Span) {
	if b.tick.Export == nil {
		return nil
	}
	now := b.tick.Now()
	for _, it := range b.items {
		all = append(all, it.spans...)
		if it.assembled.Trace().Valid() {
			all = append(all, spans.Step(it.assembled, "decide", b.tick.began, now, nil,
				spans.Attribute("runs", len(b.items)), spans.Attribute("fence", int(it.assembled.Fence))))
		}
	}
	return all
}

// startSpans are the spans of an attempt to start a launch: one in the trace of each of its runs.
func startSpans(launch state.Launch, began, ended time.Time, err error) (all []tracing.Span) {
	for _, run := range launch.Runs {
		root := tracing.Parse(run.Trace)
		if !root.Valid() {
			continue
		}
		s := tracing.Span{Context: root.Child("start", launch.ID, strconv.FormatInt(began.UnixNano(), 10)), Parent: root, Name: "start", Start: began, End: ended,
			Attributes: []tracing.Attribute{spans.Attribute("task", run.Task), spans.Attribute("run", run.ID), spans.Attribute("launch", launch.ID)}}
		if err != nil {
			s.Error = state.CutTo(err.Error(), 1000)
		}
		all = append(all, s)
	}
	return all
}
