package otlp

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/otlp/otlptest"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// exporter returns an exporter to the receiver, and what it logs.
func exporter(t *testing.T, r *otlptest.Receiver, env ...string) (*Exporter, *testtools.Output) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	log := new(testtools.Output)
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
	if len(got) != 2 || log.String() != "" {
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
	if got := r.Spans(); len(got) != 1 || r.Asked() != 3 || log.String() != "" {
		t.Errorf("received %d spans in %d requests, logged %s", len(got), r.Asked(), log)
	}
}

// A receiver that is down, slow, or answers nonsense costs the sender nothing but its spans.
func TestExport_NeverDelaysTheSender(t *testing.T) {
	firstPauseOf(t, time.Millisecond)
	release := make(chan struct{})
	defer close(release)
	for name, answer := range otlptest.Faults(release) {
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
			if name == "garbles" || name == "hangs" || name == "busy" {
				return // nothing is known to be lost
			}
			// On a busy machine, the end comes before the first attempt has failed.
			for deadline := time.Now().Add(10 * time.Second); log.String() == "" && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			if n := strings.Count(log.String(), "spans are lost"); n != 1 {
				t.Errorf("%d lines are logged: %s", n, log)
			}
		})
	}
}

// Without an answer about when to come again, the pauses double. With one, it counts, in seconds or as a date.
func TestExport_WaitsAsTheReceiverSays(t *testing.T) {
	for name, tt := range map[string]struct {
		header func() string
		least  time.Duration
	}{
		"seconds": {func() string { return "1" }, time.Second},
		"a date":  {func() string { return time.Now().Add(3 * time.Second).UTC().Format(http.TimeFormat) }, time.Second},
		"nothing": {func() string { return "" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := otlptest.Start(t)
			var refused, taken time.Time
			r.Answers(func(w http.ResponseWriter, _ *http.Request) {
				refused = time.Now()
				r.Answers(nil)
				w.Header().Set("Retry-After", tt.header())
				w.WriteHeader(http.StatusTooManyRequests)
			})
			firstPauseOf(t, time.Millisecond)
			e, log := exporter(t, r)
			e.Export().Send(ended(1))
			for deadline := time.Now().Add(10 * time.Second); len(r.Spans()) == 0 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			taken = time.Now()
			e.Close()
			if len(r.Spans()) != 1 || r.Asked() != 2 || log.String() != "" || taken.Sub(refused) < tt.least {
				t.Errorf("received %d spans in %d requests, %s after the refusal, logged %s", len(r.Spans()), r.Asked(), taken.Sub(refused), log)
			}
		})
	}
}

// A pause ends with the process, also if the receiver has asked for a long one.
func TestExport_PauseEndsWithTheProcess(t *testing.T) {
	r := otlptest.Start(t)
	r.Answers(otlptest.Faults(nil)["busy"])
	e, log := exporter(t, r)
	e.Export().Send(ended(1))
	for r.Asked() == 0 {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	e.Close()
	if took := time.Since(began); took > flushTime+2*time.Second || r.Asked() > 2 {
		t.Errorf("the end took %s and %d requests, logged %s", took, r.Asked(), log)
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
