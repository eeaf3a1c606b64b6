package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
	of := func(trace string) (names []string) {
		ids := map[string]otlptest.Span{}
		for _, s := range all {
			if s.Trace == trace {
				ids[s.ID] = s
			}
		}
		for _, s := range all {
			if s.Trace != trace {
				continue
			}
			names = append(names, s.Name)
			parent, sent := ids[s.Parent]
			if s.Parent != "" && !sent {
				t.Errorf("span %s has a parent that was not sent", s.Name)
			}
			if sent && s.End.After(parent.End) {
				t.Errorf("span %s ends after %s, of which it is a part", s.Name, parent.Name)
			}
			if s.End.Before(s.Start) {
				t.Errorf("span %s ends before it begins", s.Name)
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

// A receiver that hangs neither delays nor fails a run, nor the end of the process for longer than seconds.
func TestTraces_AReceiverThatHangsDelaysNoRun(t *testing.T) {
	s := newParallelSite(t)
	r := otlptest.Start(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	r.Answers(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		select {
		case <-release:
		case <-req.Context().Done():
		}
	})
	s.register("web", "web-1", 8080, "passing")
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_BSP_SCHEDULE_DELAY=1")
	began := time.Now()
	once := s.run("-once", "-config-file", s.config(s.task("web", onWeb)))
	wantCode(t, once, exitOK)
	if s.read("web.txt") == "" || r.Asked() == 0 {
		t.Errorf("web wrote %q after %s, %d requests for traces", s.read("web.txt"), time.Since(began), r.Asked())
	}
}
