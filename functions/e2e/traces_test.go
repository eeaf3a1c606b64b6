//go:build linux

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/base/otlp/otlptest"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// tracesOf returns the first spans of all traces, and the sorted names of the spans of each, by its id.
func tracesOf(t *testing.T, all []otlptest.Span) (roots []otlptest.Span, names map[string]string) {
	t.Helper()
	for _, wrong := range otlptest.OneTraceEach(all) {
		t.Error(wrong)
	}
	lists := map[string][]string{}
	for _, s := range all {
		if lists[s.Trace] = append(lists[s.Trace], s.Name); s.Parent == "" {
			roots = append(roots, s)
		}
	}
	names = map[string]string{}
	for trace, list := range lists {
		slices.Sort(list)
		names[trace] = strings.Join(list, ", ")
	}
	return roots, names
}

// The function decides a run and passes the ids on, the container exports the spans. The function dies before it
// hears that ECS has started the container, and answers of the table are lost as well.
func TestTraces_ARunIsOneTraceOverProcessesAndLostAnswers(t *testing.T) {
	t.Parallel()
	r := otlptest.Start(t)
	c := deploy(t, options{parameters: rehearsal.Parameters{"OtlpEndpoint": r.URL}})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	c.dynamo.loses("TransactWriteItems", 1)
	c.pushAndDie(ecstest.Fault{Operation: "RunTask", Lose: true, Times: 20})
	c.tickUntil("applied", func() bool { return c.out("lb") != "" && len(c.runs("lb")) == 1 })
	c.until("the container has sent its spans", func() bool { roots, _ := tracesOf(t, r.Spans()); return len(roots) == 1 })

	// A receiver that refuses everything changes nothing for the next run.
	r.Answers(otlptest.Faults(nil)["refuses"])
	asked := r.Asked()
	c.register("web-2", 8081)
	c.tickUntil("the change is applied", func() bool { return len(c.runs("lb")) == 2 })
	c.until("the container has offered its spans", func() bool { return r.Asked() > asked })
	r.Answers(nil)
	c.register("web-3", 8082)
	c.tickUntil("the next change is applied", func() bool { return len(c.runs("lb")) == 3 })
	c.until("the container has sent its spans", func() bool { roots, _ := tracesOf(t, r.Spans()); return len(roots) == 2 })

	runs := c.runs("lb")
	roots, names := tracesOf(t, r.Spans())
	for i, root := range roots {
		run := runs[2*i] // the spans of the second one were refused
		if run.State != state.RunSucceeded || run.Trace().ID() != root.Trace || root.Attributes["terrapulse.run"] != run.ID || root.Attributes["cicd.pipeline.result"] != "success" {
			t.Errorf("run %s is %s and has the trace %s; the trace that was sent begins with %+v", run.ID, run.State, run.Trace(), root)
		}
		for _, name := range []string{"apply lb", "claim", "launch", "read", "terraform", "record"} {
			if !strings.Contains(names[root.Trace], name) {
				t.Errorf("the trace of run %s lacks %s: %s", run.ID, name, names[root.Trace])
			}
		}
		for _, name := range []string{"decide", "start"} { // as docs/traces.md says
			if strings.Contains(names[root.Trace], name) {
				t.Errorf("a function has sent %s: %s", name, names[root.Trace])
			}
		}
	}
	if runs[1].State != state.RunSucceeded || runs[1].Trace() == (tracing.Context{}) {
		t.Errorf("the run whose spans were refused is %+v", runs[1])
	}
	if n := c.containers(); n != 3 {
		t.Errorf("%d containers", n)
	}
	if got := r.Header().Get("User-Agent"); got != "terrapulse" {
		t.Errorf("the spans were sent by %s", got)
	}
}
