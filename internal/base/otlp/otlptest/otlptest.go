// Package otlptest is a receiver of traces for tests: OTLP over HTTP, decoded with the official messages.
// It can refuse, delay and garble.
package otlptest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	traces "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as the receiver got it.
type Span struct {
	Service, Name     string
	Trace, ID, Parent string
	Start, End        time.Time
	Attributes        map[string]string
	Links             []string // the traces
	LinkAttributes    map[string]string
	Error             string
}

// Receiver is a receiver of traces.
type Receiver struct {
	URL string
	// Answer, if set, answers a request instead of taking its spans. Set it with Answers.
	answer func(w http.ResponseWriter, r *http.Request)

	mu     sync.Mutex
	spans  []Span
	header http.Header // of the latest request
	asked  int
}

// Start starts a receiver.
func Start(t testing.TB) *Receiver {
	r := &Receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	r.URL = server.URL
	return r
}

// Answers makes the receiver answer in another way; nil ends that.
func (r *Receiver) Answers(answer func(w http.ResponseWriter, r *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// Faults are the ways in which a receiver fails, by their names, to be set with Answers. The one that
// hangs answers when release is closed.
func Faults(release <-chan struct{}) map[string]http.HandlerFunc {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	return map[string]http.HandlerFunc{
		"down":      status(http.StatusServiceUnavailable),
		"refuses":   status(http.StatusUnauthorized),
		"too large": status(http.StatusRequestEntityTooLarge),
		"busy": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		},
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
		"rejects": func(w http.ResponseWriter, _ *http.Request) {
			answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "too old"}})
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(answer)
		},
	}
}

// OneTraceEach reports what is wrong with spans as a whole: a run must be one trace unless it waited for a
// person, no span is sent twice or ends before it begins, and each is below one that was sent.
func OneTraceEach(all []Span) (wrong []string) {
	complain := func(s Span, text string) {
		wrong = append(wrong, fmt.Sprintf("span %s of run %s %s: %+v", s.Name, s.Attributes["terrapulse.run"], text, s))
	}
	seen, roots := map[string]bool{}, map[string]string{}
	for _, s := range all {
		if seen[s.Trace+s.ID] {
			complain(s, "is sent twice")
		}
		seen[s.Trace+s.ID] = true
		if s.Parent == "" {
			roots[s.Trace] = s.Attributes["terrapulse.run"]
		}
	}
	for _, s := range all {
		switch {
		case s.End.Before(s.Start):
			complain(s, "ends before it begins")
		case s.Parent != "" && !seen[s.Trace+s.Parent]:
			complain(s, "is below a span that was not sent")
		case roots[s.Trace] != s.Attributes["terrapulse.run"]:
			complain(s, "is in the trace of run "+roots[s.Trace])
		}
	}
	return wrong
}

// Spans returns what was received, in the order of their starts.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.spans)
	slices.SortStableFunc(all, func(a, b Span) int { return a.Start.Compare(b.Start) })
	return all
}

// Asked is how many requests came, and Header that of the latest one.
func (r *Receiver) Asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// Header is that of the latest request.
func (r *Receiver) Header() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.header
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.header, r.asked = req.Header.Clone(), r.asked+1
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w, req)
		return
	}
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	var got collector.ExportTraceServiceRequest
	text, err := io.ReadAll(body)
	if err == nil {
		err = proto.Unmarshal(text, &got)
	}
	if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not a request for traces", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range got.GetResourceSpans() {
		service := values(rs.GetResource().GetAttributes())["service.name"]
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				r.spans = append(r.spans, spanOf(service, s))
			}
		}
	}
	answerOf, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answerOf)
}

func spanOf(service string, s *traces.Span) Span {
	out := Span{Service: service, Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())), Attributes: values(s.GetAttributes())}
	if s.GetStatus().GetCode() == traces.Status_STATUS_CODE_ERROR {
		out.Error = s.GetStatus().GetMessage()
	}
	for _, l := range s.GetLinks() {
		out.Links, out.LinkAttributes = append(out.Links, hex.EncodeToString(l.GetTraceId())), values(l.GetAttributes())
	}
	return out
}

func values(pairs []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, p := range pairs {
		switch v := p.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[p.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[p.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		case *common.AnyValue_BoolValue:
			all[p.GetKey()] = strconv.FormatBool(v.BoolValue)
		}
	}
	return all
}
