package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/record/spans"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
)

var sampler = tracing.FromEnviron(func(name string) string {
	return map[string]string{tracing.EndpointVariable: "http://collector:4318"}[name]
})

// sent are the spans that processes have exported.
type sent struct {
	t   testing.TB
	all []tracing.Span
}

// exports makes a process export its spans.
func (s *sent) exports(r *Reconciler) *Reconciler {
	r.Traces, r.Spans = sampler, spans.To(func(all ...tracing.Span) { s.all = append(s.all, all...) })
	return r
}

// of returns the spans of a run. All must be in its trace, below its first span, and each is sent once.
func (s *sent) of(run state.Run) (all []tracing.Span) {
	s.t.Helper()
	root, seen := run.Trace(), map[tracing.Context]bool{}
	if !root.Valid() {
		s.t.Fatalf("run %s has no trace", run.ID)
	}
	for _, span := range s.all {
		if attributeOf(span, "run") != run.ID {
			continue
		}
		if span.Trace != root.Trace || span.Context != root && span.Parent != root {
			s.t.Errorf("span %s of run %s is in trace %s below %s, and the run has %s", span.Name, run.ID, span.ID(), span.Parent, root)
		}
		if seen[span.Context] {
			s.t.Errorf("span %s of run %s is sent twice: %s", span.Name, run.ID, span.Context)
		}
		seen[span.Context], all = true, append(all, span)
	}
	return all
}

// names returns the names of the run's spans, sorted.
func (s *sent) names(run state.Run) string {
	s.t.Helper()
	var names []string
	for _, span := range s.of(run) {
		names = append(names, span.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (s *sent) want(run state.Run, names string) {
	s.t.Helper()
	if got := s.names(run); got != names {
		s.t.Errorf("the spans of the %s %s of %s are: %s; want: %s", run.Kind, run.ID, run.Task, got, names)
	}
}

// attributeOf returns an attribute of Terrapulse as a text.
func attributeOf(span tracing.Span, key string) string {
	for _, a := range span.Attributes {
		if text, ok := a.Value.(string); ok && a.Key == "terrapulse."+key {
			return text
		}
	}
	return ""
}

func TestTraces_TakeoverBetweenDecisionAndLaunchIsOneTrace(t *testing.T) {
	b, s := newBench(t, tasks(2)...), &sent{t: t}
	s.exports(b.Reconciler)
	b.launcher.refuse(errors.New("the answer is lost"))
	b.tick()
	decided := []state.Run{*b.runs("task-0"), *b.runs("task-1")}
	b.launcher.refuse(nil)
	b.now = b.now.Add(time.Minute)
	next := s.exports(b.another(tasks(2)))
	b.must(next.Tick(t.Context(), TickOptions{}))
	if all := b.launcher.launches(); len(all) != 1 || all[0].ID != decided[0].Launch {
		t.Fatalf("the next leader has started %+v, not launch %s", all, decided[0].Launch)
	}
	for _, run := range decided {
		s.want(run, "decide, start, start")
		var refused, begun int
		for _, span := range s.of(run) {
			switch {
			case span.Name == "start" && span.Error == "the answer is lost":
				refused++
			case span.Name == "start" && span.Error == "":
				begun++
			}
		}
		if refused != 1 || begun != 1 || b.runs(run.Task).Trace() != run.Trace() {
			t.Errorf("%s: %d attempts were refused and %d were not; the trace is %s, and was %s", run.Task, refused, begun, b.runs(run.Task).Trace(), run.Trace())
		}
	}
}

// Two leaders, one of which does not know yet that it was overtaken, may start a launch at the same moment.
func TestTraces_StartsOfTwoLeadersAtTheSameTimeAreTwoSpans(t *testing.T) {
	s := &sent{t: t}
	r := s.exports(new(Reconciler))
	run := state.Run{ID: "run-1", Task: "web", Launch: "launch-1", Created: noon}
	run.Traced = run.NewTrace(sampler)
	launch := state.Launch{ID: "launch-1", Runs: []state.PlannedRun{{ID: "run-1", Task: "web", Trace: run.Traced.Root}}}
	r.Spans.Started(launch, 1, noon, noon, nil)
	r.Spans.Started(launch, 2, noon, noon, nil)
	s.want(run, "start, start")
}

func TestTraces_NextLeaderEndsTheTraceOfALostRun(t *testing.T) {
	for name, lose := range map[string]bool{"": false, "and the answer of its write is lost": true} {
		t.Run(name, func(t *testing.T) {
			b, s := newBench(t, tasks(1)...), &sent{t: t}
			s.exports(b.Reconciler)
			b.tick()
			lost := *b.runs("task-0")
			b.launcher.status = map[string]LaunchStatus{lost.Launch: {Stopped: "its machine is gone"}}
			b.now = b.now.Add(time.Minute)
			next := s.exports(b.another(tasks(1)))
			if lose {
				b.store.After = func(changes []state.Change) error {
					for _, c := range changes {
						if c.Key == state.RunKey("task-0", lost.ID) {
							return errors.New("connection reset")
						}
					}
					return nil
				}
			}
			if _, err := next.Tick(t.Context(), TickOptions{}); (err != nil) != lose {
				t.Fatalf("the tick ends with %v", err)
			}
			b.store.After = nil
			for range 3 { // nobody sends anything of it again
				b.now = b.now.Add(time.Minute)
				b.must(next.Tick(t.Context(), TickOptions{}))
			}
			if lose { // the leader does not know that it is its write
				s.want(lost, "decide, start")
				return
			}
			s.want(lost, "apply task-0, decide, start")
			for _, span := range s.of(lost) {
				if span.Context == lost.Trace() && (attributeOf(span, "state") != "lost" || span.Error != "its machine is gone") {
					t.Errorf("the first span is %+v", span)
				}
			}
			again := b.runs("task-0")
			if s.want(*again, "decide, start"); again.Trace().Trace == lost.Trace().Trace {
				t.Error("the next run is in the trace of the lost one")
			}
		})
	}
}

func TestTraces_RenameWhileARunIsUnderWayIsATraceOfEachName(t *testing.T) {
	b, s := newBench(t, tasks(1)...), &sent{t: t}
	s.exports(b.Reconciler)
	b.tick()
	before := *b.runs("task-0")
	b.now = b.now.Add(liveCheck)
	b.reload(renamedTask("task-0"))
	if b.runs("new") != nil {
		t.Fatal("the new name does not wait for the run of the former one")
	}
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()
	after := *b.runs("new")
	s.want(before, "decide, start") // its runner sends the first span
	s.want(after, "decide, start")
	if after.Trace().Trace == before.Trace().Trace || after.Traced.Since != after.Created {
		t.Errorf("the run of the new name is in %+v, created at %s; that of the former name is in %+v", after.Traced, after.Created, before.Traced)
	}
}

// The rename supersedes what waits under the former name. A trace that ended when the run began to wait for a
// person has its first span already.
func TestTraces_RenameEndsTheTraceOfAWaitOnce(t *testing.T) {
	for wait, names := range map[state.WaitFor]string{state.WaitApproval: "decide, start", state.WaitRemotePlan: "apply task-0, decide, start"} {
		t.Run(string(wait), func(t *testing.T) {
			b, s := newBench(t, tasks(1)...), &sent{t: t}
			s.exports(b.Reconciler)
			b.tick()
			planned := b.launcher.launches()[0].Runs[0]
			b.claimed(planned, "container")
			b.wait(planned, state.Wait{For: wait, ID: "wait-1", Text: "it waits"})
			b.launcher.forget()
			b.now = b.now.Add(liveCheck)
			b.reload(renamedTask("task-0"))
			for range 3 {
				b.now = b.now.Add(removalLasts)
				b.tick()
			}
			ended := b.run(planned).Data
			if ended.State != state.RunSuperseded {
				t.Fatalf("the run that waited is %s", ended.State)
			}
			s.want(ended, names)
		})
	}
}

func TestTraces_ChecksForDriftAndRepairsAreTracesOfTheirOwn(t *testing.T) {
	all := driftTasks(1)
	all[0].Drift.Action = drift.Apply
	b, s := newBench(t, all...), &sent{t: t}
	s.exports(b.Reconciler)
	b.settle()
	b.now = b.now.Add(25 * time.Hour)
	b.tick()
	check := b.run(state.PlannedRun{ID: underCheck(b.task("task-0")).ID, Task: "task-0"}).Data
	b.endChecks(state.RunSucceeded, missing("d"))
	b.tickAfterEnd()
	repair := *b.runs("task-0")
	if check.Kind != state.KindDrift || repair.Reason.Code != state.ReasonDrift {
		t.Fatalf("the check is %+v, and the repair %+v", check, repair)
	}
	s.want(check, "decide, start")
	s.want(repair, "decide, start")
	if check.Trace().Trace == repair.Trace().Trace || repair.Traced.Since != repair.Created || check.Traced.Since != check.Created {
		t.Errorf("the check is in %+v, created at %s; the repair is in %+v, created at %s", check.Traced, check.Created, repair.Traced, repair.Created)
	}
}

func TestTraces_CheckWhoseRunnerDiedEndsItsTraceOnce(t *testing.T) {
	b, s := newBench(t, driftTasks(1)...), &sent{t: t}
	s.exports(b.Reconciler)
	b.settle()
	b.now = b.now.Add(25 * time.Hour)
	b.tick()
	check := b.run(state.PlannedRun{ID: underCheck(b.task("task-0")).ID, Task: "task-0"}).Data
	b.launcher.status = map[string]LaunchStatus{check.Launch: {Stopped: "its machine is gone"}}
	next := s.exports(b.another(driftTasks(1)))
	for range 3 {
		b.now = b.now.Add(time.Minute)
		b.must(next.Tick(t.Context(), TickOptions{}))
	}
	s.want(check, "decide, drift task-0, start")
}

func TestTraces_RequestedRunBeginsWithItsDecision(t *testing.T) {
	b, s := newBench(t, tasks(1)...), &sent{t: t}
	s.exports(b.Reconciler)
	b.settle()
	b.now = b.now.Add(time.Hour)
	b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-0": "Jo"}}))
	run := *b.runs("task-0")
	if s.want(run, "decide, start"); run.Reason.Code != state.ReasonForced || run.Traced.Since != run.Created {
		t.Errorf("the run is for %+v, was created at %s, and its trace is %+v", run.Reason, run.Created, run.Traced)
	}
}

// Nothing about traces is kept where they are off.
func TestTraces_WithoutAReceiverRunsHaveNone(t *testing.T) {
	b := newBench(t, tasks(1)...)
	report := b.tick()
	if run := b.runs("task-0"); run.Traced != nil || report.Launches[0].Runs[0].Trace != "" {
		t.Errorf("the run has %+v, its launch %+v", run.Traced, report.Launches[0])
	}
}
