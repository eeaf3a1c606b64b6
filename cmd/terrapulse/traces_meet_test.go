package main

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/otlp/otlptest"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// traced makes every process of the site send its spans to a receiver, soon.
func (s *site) traced() *otlptest.Receiver {
	r := otlptest.Start(s.t)
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_BSP_SCHEDULE_DELAY=20")
	return r
}

// spansOf returns the names of the spans of a trace, each once, sorted.
func spansOf(all []otlptest.Span, trace string) string {
	var names []string
	for _, s := range all {
		if s.Trace == trace {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// soundTraces reports what is wrong with all spans that were received.
func soundTraces(t *testing.T, all []otlptest.Span) {
	t.Helper()
	for _, wrong := range otlptest.OneTraceEach(all) {
		t.Error(wrong)
	}
}

// The leader is killed while its run is applied. The next leader ends the trace of that run, and the run that
// makes it good is another trace.
func TestTraces_TakeoverDuringARun(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to end")
	}
	t.Parallel()
	e := newEnsemble(t, 10*time.Second, consultest.Start(t))
	r := e.traced()
	task := e.overlapTask("slow", onWeb)
	e.publish(e.servers[0], "web-1", 8080)
	first := e.instance(1, task)
	eventually(t, "the first apply", func() bool { return e.read("slow.out") == "web:8080\n" })
	second := e.instance(2, task)
	eventually(t, "there are two", func() bool { return first.sees(2, "cts-01") })

	e.write("hold", "")
	e.publish(e.servers[0], "web-2", 8081)
	eventually(t, "the second apply has begun", func() bool { return strings.Count(e.read("log"), "began") == 2 })
	eventually(t, "the leader has sent what came before it", func() bool { return len(spansNamed(r.Spans(), "read")) == 2 })
	if first.Process.Signal(syscall.SIGKILL); os.Remove(e.path("hold")) != nil {
		t.Fatal("the hold stays")
	}
	<-first.ended
	eventually(t, "the other instance leads", second.leads)
	eventually(t, "the change is applied", func() bool { return e.read("slow.out") == "web:8080 web:8081\n" })
	eventually(t, "the last trace is complete", func() bool { return len(spansNamed(r.Spans(), "record")) == 2 })
	if code := second.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	all := r.Spans()
	soundTraces(t, all)
	byState := map[string][]otlptest.Span{}
	for _, s := range spansNamed(all, "apply slow") {
		byState[s.Attributes["terrapulse.state"]] = append(byState[s.Attributes["terrapulse.state"]], s)
	}
	if len(byState["lost"]) != 1 || len(byState["succeeded"]) != 2 || byState["lost"][0].Error == "" {
		t.Fatalf("the traces begin with %+v", byState)
	}
	if got := spansOf(all, byState["lost"][0].Trace); got != "apply slow, claim, decide, launch, read, start" {
		t.Errorf("the trace of the lost run has: %s", got)
	}
	again := byState["succeeded"][1]
	if got := spansOf(all, again.Trace); !strings.Contains(got, "terraform") || !strings.Contains(got, "record") || again.Attributes["cicd.pipeline.result"] != "success" {
		t.Errorf("the trace of the run after it has: %s, and begins with %+v", got, again)
	}
}

func TestTraces_RenameWhileARunIsUnderWay(t *testing.T) {
	s := newParallelSite(t)
	r := s.traced()
	s.register("web", "web-1", 8080, "passing")
	task := s.slowTask("lb")
	p := s.start("-config-file", s.config(task))
	eventually(t, "the apply has begun", func() bool { return s.read("began") != "" })
	s.config(strings.Replace(strings.Replace(task, `"lb"`, `"edge"`, 1), "module", "moved_from = \"lb\"\n  module", 1))
	s.awaitPhase("edge", apispec.PhaseWaiting, "task lb, which its moved_from names, has not ended")
	s.write("go", "")
	s.awaitPhase("edge", apispec.PhaseApplied, "")
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	all := r.Spans()
	soundTraces(t, all)
	before, after := spansNamed(all, "apply lb"), spansNamed(all, "apply edge")
	if len(before) != 1 || len(after) != 1 || before[0].Trace == after[0].Trace {
		t.Fatalf("under the former name there are %+v, under the new one %+v", before, after)
	}
	for _, root := range []otlptest.Span{before[0], after[0]} {
		if got := spansOf(all, root.Trace); root.Attributes["terrapulse.state"] != "succeeded" || !strings.Contains(got, "claim, decide, launch") || !strings.Contains(got, "terraform") {
			t.Errorf("the trace of %s has: %s, and begins with %+v", root.Name, got, root)
		}
	}
	for _, span := range all {
		if task := span.Attributes["terrapulse.task"]; (span.Trace == before[0].Trace) != (task == "lb") {
			t.Errorf("span %s of task %s is in trace %s", span.Name, task, span.Trace)
		}
	}
}

func TestTraces_OfDriftAndOfRequestedRuns(t *testing.T) {
	s := newParallelSite(t)
	r := s.traced()
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", strings.Replace(everySecond, "%s", "apply", 1)+onWeb))
	p := s.start("-config-file", file)
	at := "-http-addr=" + p.served()
	eventually(t, "a check finds no drift", func() bool { return s.drift().Checked != nil })
	if err := os.Remove(s.path("lb.txt")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the drift is repaired", func() bool { return s.read("lb.txt") != "" && len(spansNamed(r.Spans(), "apply lb")) == 2 })
	wantCode(t, s.run("run", at, "lb"), exitOK)
	ask(t, "PATCH", p.served()+"/v1/tasks/lb?run=inspect", `{"enabled": true}`, 200)
	ask(t, "PATCH", p.served()+"/v1/tasks/lb", `{"enabled": false}`, 200) // ends the checks: a trace is complete when its run has ended
	eventually(t, "no run is under way", func() bool {
		var runs []apispec.Run
		decode(t, s.run("runs", at, "-json", "lb"), &runs)
		return !slices.ContainsFunc(runs, func(r apispec.Run) bool {
			return r.State == apispec.RunStateIntended || r.State == apispec.RunStateRunning
		})
	})
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	all := r.Spans()
	soundTraces(t, all)
	if plans := spansNamed(all, "plan lb"); len(plans) > 0 {
		t.Errorf("a plan that was requested is traced: %+v", plans)
	}
	reasons := map[string]string{} // the spans of the latest trace with each reason
	for _, root := range spansNamed(all, "drift lb", "apply lb") {
		if root.Attributes["terrapulse.state"] == "succeeded" {
			reasons[root.Attributes["terrapulse.kind"]+" "+root.Attributes["terrapulse.reason"]] = spansOf(all, root.Trace)
		}
	}
	for reason, want := range map[string]string{
		"apply drift":  "apply, apply lb, claim, decide, launch, plan, read, record, start, terraform",
		"apply forced": "apply, apply lb, claim, decide, launch, plan, read, record, start, terraform",
	} {
		if reasons[reason] != want {
			t.Errorf("a run for %q has the spans: %s", reason, reasons[reason])
		}
	}
	checks := 0
	for reason, spans := range reasons {
		if kind, _, _ := strings.Cut(reason, " "); kind != "drift" {
			continue
		}
		if checks++; spans != "claim, decide, drift lb, launch, plan, read, record, start, terraform" {
			t.Errorf("a check for drift (%s) has the spans: %s", reason, spans)
		}
	}
	if checks == 0 {
		t.Errorf("no check for drift is traced: %v", reasons)
	}
}

// Whatever the receiver does, runs begin and end as without it.
func TestTraces_AReceiverThatFailsDelaysAndFailsNoRun(t *testing.T) {
	s := newParallelSite(t)
	r := s.traced()
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_TIMEOUT=600000") // no request ends while the receiver hangs
	release := make(chan struct{})
	held := make(chan struct{}, 1)
	r.Answers(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		select {
		case held <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-req.Context().Done():
		}
	})
	s.register("web", "web-0", 8080, "passing")
	p := s.start("-config-file", s.config(s.task("lb", onWeb)))
	<-held
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	applied := func(what string, port int) {
		t.Helper()
		s.register("web", "web-"+strconv.Itoa(port), port, "passing")
		eventually(t, what+": a change is applied", func() bool { return strings.Contains(s.read("lb.txt"), strconv.Itoa(port)) })
	}
	applied("hangs", 8081) // the exporter still waits for the answer to its first request
	if asked := r.Asked(); asked != 1 {
		t.Errorf("%d requests were sent while the first one was not answered", asked)
	}
	close(release)
	port := 8082
	for name, answer := range otlptest.Faults(release) { // the one that hangs answers now
		r.Answers(answer)
		asked := r.Asked()
		applied(name, port)
		port++
		eventually(t, name+": spans are sent", func() bool { return r.Asked() > asked })
	}
	s.awaitPhase("lb", apispec.PhaseApplied, "")
	var runs []apispec.Run
	decode(t, s.run("runs", "-json", "lb"), &runs)
	for _, run := range runs {
		if run.State != apispec.RunStateSucceeded {
			t.Errorf("a run has ended as %s: %s", run.State, apispec.Deref(run.Error))
		}
	}
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	wantText(t, p.stderr.String(), "spans are lost: the receiver of traces does not take them")
}
