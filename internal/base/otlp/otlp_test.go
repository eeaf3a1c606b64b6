package otlp

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/otlp/otlptest"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
)

// exporter returns an exporter to the receiver, and what it logs.
func exporter(t *testing.T, r *otlptest.Receiver, env ...string) (*Exporter, *bytes.Buffer) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	log := new(bytes.Buffer)
	e, sampler := FromEnviron("v1.2.3", slog.New(slog.NewTextHandler(log, nil)))
	if e == nil || sampler == nil {
		t.Fatalf("traces are off: %s", log)
	}
	return e, log
}

// ended is a span of a trace of its own.
func ended(n int) tracing.Span {
	root := tracing.Root(fmt.Sprint("run-", n))
	root.Sampled = true
	at := time.Date(2026, 7, 1, 12, 0, n, 0, time.UTC)
	return tracing.Span{Context: root, Name: "apply web", Start: at, End: at.Add(time.Second), Error: "it failed",
		Attributes: []tracing.Attribute{{Key: "text", Value: "x"}, {Key: "number", Value: 7}, {Key: "flag", Value: true}, {Key: "none", Value: ""}},
		Links:      []tracing.Link{{To: tracing.Root("before"), Attributes: []tracing.Attribute{{Key: "why", Value: "approval"}}}}}
}

func TestExport_SendsSpansWithTheirOwnIds(t *testing.T) {
	r := otlptest.Start(t)
	e, log := exporter(t, r, "OTEL_SERVICE_NAME=edge", "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20b,other=c", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip")
	root := ended(1)
	child := tracing.Span{Context: root.Child("read", "launch"), Parent: root.Context, Name: "read", Start: root.Start, End: root.End}
	e.Export().Send(child, root)
	e.Close()
	got := r.Spans()
	if len(got) != 2 || log.Len() > 0 {
		t.Fatalf("received %v, logged %s", got, log)
	}
	if got[0].Name != "read" {
		got[0], got[1] = got[1], got[0]
	}
	whole := got[1]
	if got[0].Trace != root.ID() || got[0].Parent != whole.ID || whole.Parent != "" || whole.Trace != root.ID() || !whole.Start.Equal(root.Start) || !whole.End.Equal(root.End) {
		t.Errorf("received %+v", got)
	}
	if whole.Error != "it failed" || fmt.Sprint(whole.Attributes) != "map[flag:true number:7 text:x]" || whole.Service != "edge" ||
		len(whole.Links) != 1 || whole.Links[0] != tracing.Root("before").ID() || whole.LinkAttributes["why"] != "approval" {
		t.Errorf("received %+v", whole)
	}
	if h := r.Header(); h.Get("Api-Key") != "a b" || h.Get("Other") != "c" {
		t.Errorf("the headers are %v", h)
	}
}

func TestExport_RepeatsWhatTheReceiverRefusesForAWhile(t *testing.T) {
	r := otlptest.Start(t)
	refusals := 2
	r.Answers(func(w http.ResponseWriter, _ *http.Request) {
		if refusals--; refusals == 0 {
			r.Answers(nil)
		}
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	firstPauseOf(t, time.Millisecond)
	e, log := exporter(t, r)
	e.Export().Send(ended(1))
	e.Close()
	if got := r.Spans(); len(got) != 1 || r.Asked() != 3 || log.Len() > 0 {
		t.Errorf("received %d spans in %d requests, logged %s", len(got), r.Asked(), log)
	}
}

// A receiver that is down, slow, or answers nonsense costs the sender nothing but its spans.
func TestExport_NeverDelaysTheSender(t *testing.T) {
	firstPauseOf(t, time.Millisecond)
	release := make(chan struct{})
	defer close(release)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"down":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice the end of the connection
			select {
			case <-release:
			case <-r.Context().Done():
			}
		},
		"garbles":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\xff\x00")) },
		"cuts off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"moves":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			r := otlptest.Start(t)
			r.Answers(answer)
			e, log := exporter(t, r)
			began := time.Now()
			for n := range 20_000 { // far more than the queue takes
				e.Export().Send(ended(n))
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("sending took %s", took)
			}
			began = time.Now()
			e.Close()
			if took := time.Since(began); took > flushTime+2*time.Second {
				t.Errorf("the end took %s", took)
			}
			if n := strings.Count(log.String(), "spans are lost"); name != "garbles" && name != "hangs" && n != 1 {
				t.Errorf("%d lines are logged: %s", n, log)
			}
		})
	}
}

func TestFromEnviron_SaysWhatIsWrongAndGoesOn(t *testing.T) {
	for entry, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318":      "OTEL_EXPORTER_OTLP_ENDPOINT is not the URL of a receiver",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                "sends http/protobuf only",
		"OTEL_EXPORTER_OTLP_HEADERS=hunter2":              "OTEL_EXPORTER_OTLP_HEADERS is not a list",
		"OTEL_EXPORTER_OTLP_TIMEOUT=10s":                  "number of milliseconds",
		"OTEL_EXPORTER_OTLP_COMPRESSION=br":               "set gzip or none",
		"OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere/ca.pem":  "read OTEL_EXPORTER_OTLP_CERTIFICATE",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://x:4318": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is not the URL",
	} {
		t.Run(entry, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
			name, value, _ := strings.Cut(entry, "=")
			t.Setenv(name, value)
			log := new(bytes.Buffer)
			e, sampler := FromEnviron("v1", slog.New(slog.NewTextHandler(log, nil)))
			if e != nil || sampler != nil || !strings.Contains(log.String(), want) || strings.Contains(log.String(), "hunter2") {
				t.Errorf("on: %v; logged %s", e != nil, log)
			}
			e.Export().Send(ended(1))
			e.Close()
		})
	}
}

func firstPauseOf(t *testing.T, pause time.Duration) {
	was := firstPause
	firstPause = pause
	t.Cleanup(func() { firstPause = was })
}
