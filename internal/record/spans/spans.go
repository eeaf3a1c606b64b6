// Package spans makes the spans of a run from its record. The process that records a step makes the span
// of it: the leader of the decision, the runner of everything from its claim on. docs/traces.md describes
// them.
package spans

import (
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Recorder exports the spans of steps, and returns at once. A program that links none of its
// implementations passes the ids of traces on and exports nothing.
type Recorder interface {
	// Ended exports the first span of each run whose trace is complete. It is called when the end is recorded.
	Ended(recorded time.Time, runs ...state.Run)
	// Claimed exports what came before the claim of a run.
	Claimed(run state.Run, launch state.Launch, began, claimed time.Time)
	// Step exports a step of a run, as a part of another step if that is named.
	Step(run state.Run, name, of string, start, end time.Time, err error)
	// Decided exports the decision of runs that were written together.
	Decided(runs []state.Run, began, ended time.Time)
	// Started exports an attempt of the leader with this fencing token to start a launch.
	Started(launch state.Launch, fence uint64, began, ended time.Time, err error)
}

// To returns the Recorder that exports to export; nil if that is nil.
func To(export tracing.Export) Recorder {
	if export == nil {
		return nil
	}
	return recorder{export}
}

type recorder struct{ tracing.Export }

func (r recorder) Ended(recorded time.Time, runs ...state.Run) {
	for _, run := range runs {
		r.Send(Whole(run, recorded)...)
	}
}

func (r recorder) Claimed(run state.Run, launch state.Launch, began, claimed time.Time) {
	r.Send(Claimed(run, launch, began, claimed)...)
}

func (r recorder) Step(run state.Run, name, of string, start, end time.Time, err error) {
	s := Step(run, name, start, end, err)
	if of != "" {
		s.Parent = run.Step(of)
	}
	r.Send(s)
}

func (r recorder) Decided(runs []state.Run, began, ended time.Time) {
	for _, run := range runs {
		if run.Trace().Valid() {
			r.Send(Step(run, "decide", began, ended, nil, Attribute("runs", len(runs)), Attribute("fence", int(run.Fence))))
		}
	}
}

// Started makes another span for each attempt: one in the trace of each run of the launch.
func (r recorder) Started(launch state.Launch, fence uint64, began, ended time.Time, err error) {
	for _, run := range launch.Runs {
		s := Step(state.Run{ID: run.ID, Task: run.Task, Launch: launch.ID, Traced: &state.Traced{Root: run.Trace}}, "start", began, ended, err,
			Attribute("launch", launch.ID), Attribute("fence", int(fence)))
		s.Context = s.Parent.Child("start", launch.ID, strconv.FormatUint(fence, 10), strconv.FormatInt(began.UnixNano(), 10))
		if s.Parent.Valid() {
			r.Send(s)
		}
	}
}

// maxError is how much of an error a span shows, in bytes.
const maxError = 1000

// Whole is the first span of the run's trace, which covers all others, also the record of its end, once the trace
// is complete: see state.Run.EndsTrace.
func Whole(run state.Run, recorded time.Time) []tracing.Span {
	root := run.Trace()
	if !root.Valid() || !run.EndsTrace() {
		return nil
	}
	s := tracing.Span{Context: root, Name: string(run.Kind) + " " + run.Task, Start: run.Traced.Since, End: run.Ended, Attributes: ofRun(run)}
	add := func(key string, value any) { s.Attributes = append(s.Attributes, Attribute(key, value)) }
	add("state", string(run.State))
	if result := results[run.State]; result != "" {
		s.Attributes = append(s.Attributes, tracing.Attribute{Key: "cicd.pipeline.result", Value: result})
	}
	if run.State == state.RunWaiting {
		s.End = run.Wait.Since
		add("wait_for", string(run.Wait.For))
		add("wait", state.CutTo(run.Wait.Text, maxError))
		if run.Wait.For == state.WaitApproval {
			add("plan", run.Wait.ID)
		}
	}
	s.End = clock.Later(s.End, recorded)
	if c := run.Changes; c != nil && !c.Unknown {
		add("added", c.Add)
		add("changed", c.Change)
		add("destroyed", c.Destroy)
	}
	if run.Verification != nil {
		add("verified", run.Verification.Passed())
	}
	switch run.State {
	case state.RunFailed, state.RunLost, state.RunInterrupted:
		s.Error = cut(run.Error)
	case state.RunCancelled, state.RunSuperseded:
		add("cause", cut(run.Error))
	case state.RunSucceeded:
		s.Error = cut(run.Verification.String())
	}
	s.Links = before(run)
	return []tracing.Span{s}
}

// results are the final states of a run in the words of OpenTelemetry's conventions.
var results = map[state.RunState]string{
	state.RunSucceeded: "success", state.RunFailed: "failure", state.RunLost: "error", state.RunInterrupted: "error",
	state.RunCancelled: "cancellation", state.RunSuperseded: "cancellation",
}

// before links to the trace that ended when the run began to wait for a person.
func before(run state.Run) []tracing.Link {
	after := tracing.Parse(run.Traced.After)
	if !after.Valid() || run.Wait == nil {
		return nil
	}
	link := tracing.Link{To: after, Attributes: []tracing.Attribute{Attribute("wait_for", string(run.Wait.For))}}
	if run.Approval != nil && run.Wait.For == state.WaitApproval {
		link.Attributes = append(link.Attributes, Attribute("approved_by", run.Approval.Names()))
	}
	link.Attributes = append(link.Attributes, Attribute("waited_seconds", int(max(0, run.Traced.Since.Sub(run.Wait.Since)).Seconds())))
	return []tracing.Link{link}
}

// Claimed are the spans of a run up to its claim: of the change and the wait that followed it, of the
// wait for another system, and of the launch.
func Claimed(run state.Run, launch state.Launch, began, claimed time.Time) []tracing.Span {
	root := run.Trace()
	if !root.Valid() {
		return nil
	}
	var all []tracing.Span
	add := func(name string, start, end time.Time, more ...tracing.Attribute) {
		all = append(all, Step(run, name, start, end, nil, more...))
	}
	switch {
	case run.Resumed == nil && run.Traced.Since.Before(run.Created):
		add("change", run.Traced.Since, run.Created)
	case run.Resumed != nil && run.Wait != nil && !run.Wait.For.ForPeople():
		add("wait", run.Wait.Since, run.Resumed.At, Attribute("wait_for", string(run.Wait.For)))
	}
	add("launch", launch.Created, began)
	add("claim", began, claimed, Attribute("runner", run.Runner), Attribute("owner", run.Owner))
	return all
}

// Step is the span of a step of a run in its present launch.
func Step(run state.Run, name string, start, end time.Time, err error, more ...tracing.Attribute) tracing.Span {
	s := tracing.Span{Context: run.Step(name), Parent: run.Trace(), Name: name, Start: start, End: end,
		Attributes: append([]tracing.Attribute{Attribute("task", run.Task), Attribute("run", run.ID)}, more...)}
	if err != nil {
		s.Error = cut(err.Error())
	}
	return s
}

// ofRun are the attributes that say which run it is.
func ofRun(run state.Run) []tracing.Attribute {
	all := []tracing.Attribute{
		{Key: "cicd.pipeline.name", Value: run.Task}, {Key: "cicd.pipeline.run.id", Value: run.ID},
		Attribute("task", run.Task), Attribute("run", run.ID), Attribute("launch", run.Launch),
		Attribute("kind", string(run.Kind)), Attribute("reason", string(run.Reason.Code)),
	}
	if run.Entries != nil {
		all = append(all, Attribute("entries_added", run.Entries.Added), Attribute("entries_removed", run.Entries.Removed), Attribute("entries_changed", run.Entries.Changed))
	}
	return all
}

// Attribute is an attribute of Terrapulse.
func Attribute(key string, value any) tracing.Attribute {
	return tracing.Attribute{Key: "terrapulse." + key, Value: value}
}

func cut(text string) string { return state.CutTo(strings.TrimSpace(text), maxError) }
