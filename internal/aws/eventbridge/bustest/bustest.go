// Package bustest is a bus of EventBridge for tests: a server that speaks its protocol, checks
// requests as EventBridge does, and keeps the events.
package bustest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/eventbridge"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/outbox/outboxtest"
)

// Event is an event as rules see it.
type Event struct {
	Bus, Source, DetailType string
	Time                    time.Time
	Detail                  eventbridge.Detail
	Raw                     string // the detail
}

// Bus is a bus. Name and Fail are set before it is used.
type Bus struct {
	URL  string
	Name string
	// Fail returns the error code of an event that the bus does not take; nil takes all.
	Fail func(Event) string

	t       testing.TB
	schemas *outboxtest.Schemas

	mu       sync.Mutex
	refuse   string
	requests int
	events   []Event
}

// Start starts a bus.
func Start(t testing.TB, name string) *Bus {
	t.Helper()
	b := &Bus{Name: name, t: t, schemas: outboxtest.New(t)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.URL = server.URL
	return b
}

// Refuse makes the bus answer every request with an error code; with "" it takes them again.
func (b *Bus) Refuse(code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = code
}

// Events returns the events that the bus has taken, in their order.
func (b *Bus) Events() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events)
}

// Requests is how many requests with events the bus has answered.
func (b *Bus) Requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}

// ServeHTTP answers PutEvents and DescribeEventBus.
func (b *Bus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	answer, code := any(nil), b.refuse
	switch operation := r.Header.Get("X-Amz-Target"); {
	case !strings.Contains(r.Header.Get("Authorization"), "/events/aws4_request"):
		code = "IncompleteSignature"
	case operation == "AWSEvents.PutEvents":
		b.requests++
		if code == "" {
			answer, code = b.put(r)
		}
	case operation == "AWSEvents.DescribeEventBus":
		var in struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&in); code == "" && (err != nil || in.Name != b.Name) {
			code = "ResourceNotFoundException"
		}
		answer = map[string]string{"Arn": "arn:aws:events:eu-west-1:123456789012:event-bus/" + b.Name}
	default:
		code = "UnknownOperationException"
	}
	if code != "" {
		w.WriteHeader(http.StatusBadRequest)
		answer = map[string]string{"__type": code, "message": "refused"}
	}
	json.NewEncoder(w).Encode(answer)
}

func (b *Bus) put(r *http.Request) (answer any, code string) {
	var in struct {
		Entries []struct {
			EventBusName, Source, DetailType, Detail string
			Time                                     float64
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Entries) == 0 || len(in.Entries) > 10 {
		return nil, "ValidationException"
	}
	size := 0
	for _, e := range in.Entries {
		size += len(e.Detail) + len(e.DetailType) + len(e.Source) + 14
	}
	if size > 256<<10 {
		return nil, "ValidationException"
	}
	type result struct {
		EventID      string `json:"EventId,omitempty"`
		ErrorCode    string `json:",omitempty"`
		ErrorMessage string `json:",omitempty"`
	}
	var out struct {
		FailedEntryCount int
		Entries          []result
	}
	for i, e := range in.Entries {
		event := Event{Bus: e.EventBusName, Source: e.Source, DetailType: e.DetailType, Time: time.UnixMilli(int64(e.Time * 1000)).UTC(), Raw: e.Detail}
		code := ""
		switch {
		case e.Source == "" || e.DetailType == "" || e.EventBusName != b.Name:
			code = "InvalidArgument"
		case json.Unmarshal([]byte(e.Detail), &event.Detail) != nil:
			code = "MalformedDetail"
		case b.Fail != nil:
			code = b.Fail(event)
		}
		if code != "" {
			out.FailedEntryCount++
			out.Entries = append(out.Entries, result{ErrorCode: code, ErrorMessage: "not taken"})
			continue
		}
		if event.DetailType == "test" { // by doctor: it has no schema, and tells of nothing
			out.Entries = append(out.Entries, result{EventID: "test"})
			continue
		}
		if err := b.schemas.Check(outbox.Kind(event.DetailType), []byte(e.Detail)); err != nil && event.DetailType != eventbridge.MessageType {
			b.t.Error(err)
		}
		b.events = append(b.events, event)
		out.Entries = append(out.Entries, result{EventID: fmt.Sprintf("id-%d-%d", b.requests, i)})
	}
	return out, ""
}
