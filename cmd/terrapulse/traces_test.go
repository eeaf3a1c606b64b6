package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/otlp/otlptest"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// spansNamed returns the spans of these names.
func spansNamed(all []otlptest.Span, names ...string) (some []otlptest.Span) {
	for _, s := range all {
		if slices.Contains(names, s.Name) {
			some = append(some, s)
		}
	}
	return some
}

func TestTraces_ARunIsATraceAndAnotherOneAfterItsApproval(t *testing.T) {
	s := newParallelSite(t)
	r := otlptest.Start(t)
	events := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if trace := req.Header.Get("traceparent"); trace != "" {
			events <- trace
		}
	}))
	t.Cleanup(hook.Close)
	s.register("web", "web-1", 8080, "passing")
	module := filepath.Join(s.dir, "mod", "trace.tf")
	if err := os.WriteFile(module, []byte(`resource "terraform_data" "trace" {
  provisioner "local-exec" { command = "echo $TRACEPARENT >`+s.path("trace")+`" }
}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	noting := func(block, file string) string {
		return fmt.Sprintf("  %s { command = [\"sh\", \"-c\", \"echo $TRACEPARENT >>%s\"] }\n", block, s.path(file))
	}
	file := s.config(s.task("web", "approval = \"always\"\n  buffer_period { min = \"200ms\" }\n"+noting(`check "noted"`, "check-trace")+noting(`verify "noted"`, "verify-trace")+onWeb) + "\nnotify \"webhook\" { url = \"" + hook.URL + "\" }\n")
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_HEADERS=api-key=hunter2")
	p := s.start("-config-file", file)
	p.served()
	s.inPhase(apispec.PhaseWaiting, "every plan of the task needs an approval")

	var first []otlptest.Span
	eventually(t, "the trace is complete although the run waits", func() bool {
		first = r.Spans()
		return len(spansNamed(first, "apply web")) == 1
	})
	root := spansNamed(first, "apply web")[0]
	if root.Attributes["terrapulse.state"] != "waiting" || root.Attributes["terrapulse.wait_for"] != "approval" || root.Parent != "" || root.Error != "" {
		t.Errorf("the first trace begins with %+v", root)
	}
	wantCode(t, s.run("approve", "-http-addr="+p.served(), "web"), exitOK)
	eventually(t, "the task is applied", func() bool { return s.read("web.txt") != "" })
	eventually(t, "there is another trace", func() bool { return len(spansNamed(r.Spans(), "apply web")) == 2 })
	eventually(t, "the outcome is sent", func() bool { return len(spansNamed(r.Spans(), "record")) == 2 })
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "a change is a trace", func() bool { return len(spansNamed(r.Spans(), "change")) == 1 })
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	all := r.Spans()
	second := spansNamed(all, "apply web")[1]
	if second.Trace == root.Trace || len(second.Links) != 1 || second.Links[0] != root.Trace || second.LinkAttributes["terrapulse.wait_for"] != "approval" ||
		second.LinkAttributes["terrapulse.approved_by"] == "" || second.Attributes["terrapulse.state"] != "succeeded" || second.Attributes["terrapulse.run"] != root.Attributes["terrapulse.run"] {
		t.Errorf("after the approval, the trace begins with %+v", second)
	}
	if checked := s.read("check-trace"); !strings.Contains(checked, root.Trace) || !strings.Contains(checked, second.Trace) {
		t.Errorf("the check of each plan does not get the trace of its run, but %q", checked)
	}
	if noted := s.read("verify-trace"); !strings.Contains(noted, second.Trace) || strings.Contains(noted, root.Trace) {
		t.Errorf("the verification does not get the trace of its run, but %q", noted)
	}
	soundTraces(t, all)
	of := func(trace string) (names []string) {
		for _, s := range all {
			if s.Trace == trace {
				names = append(names, s.Name)
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	if got := strings.Join(of(root.Trace), " "); got != "apply web claim decide judge launch plan read record start terraform" {
		t.Errorf("the first trace has %s", got)
	}
	if got := strings.Join(of(second.Trace), " "); got != "apply apply web claim decide judge launch plan read record start terraform verify" {
		t.Errorf("the second trace has %s", got)
	}
	var driver otlptest.Span
	for _, s := range spansNamed(all, "terraform") {
		if s.Trace == second.Trace {
			driver = s
		}
	}
	if got := tracing.Parse(strings.TrimSpace(s.read("trace"))); got.ID() != second.Trace || !strings.Contains(got.String(), driver.ID) {
		t.Errorf("Terraform got %s, its span is %s of trace %s", got, driver.ID, second.Trace)
	}
	seen := false
	for len(events) > 0 {
		seen = tracing.Parse(<-events).ID() == second.Trace || seen
	}
	if !seen {
		t.Error("no webhook got the trace of the run")
	}
	wantText(t, p.stderr.String(), "trace_id="+second.Trace)
	for _, span := range all {
		for key, value := range span.Attributes {
			if strings.Contains(value, "hunter2") {
				t.Errorf("%s shows a secret", key)
			}
		}
	}
}

// traced makes every process of the site send its spans to a receiver, soon.
func (s *site) traced() *otlptest.Receiver {
	r := otlptest.Start(s.t)
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_BSP_SCHEDULE_DELAY=20")
	return r
}

// soundTraces reports what is wrong with all spans that were received.
func soundTraces(t *testing.T, all []otlptest.Span) {
	t.Helper()
	for _, wrong := range otlptest.OneTraceEach(all) {
		t.Error(wrong)
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
	r.Answers(otlptest.Faults(release)["refuses"])
	asked := r.Asked()
	applied("refuses", 8082)
	eventually(t, "spans are sent", func() bool { return r.Asked() > asked })
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
