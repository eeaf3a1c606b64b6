// Package eventbridge sends events to a bus of EventBridge. Rules bring them from there to SNS,
// Slack, PagerDuty and others.
package eventbridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/terrapulse/terrapulse/internal/base/awsjson"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

// Source is the source of the events.
const Source = "terrapulse"

const (
	// maxEntries and maxBytes are EventBridge's limits of a request. It counts the bytes of the
	// detail, of its type and of the source, and 14 for the time.
	maxEntries = 10
	maxBytes   = 256 << 10
)

// Sink sends events to a bus.
type Sink struct {
	Bus    string // its name
	Stack  string // of Terrapulse, which is in every event
	Client *awsjson.Client
}

var _ outbox.Batcher = (*Sink)(nil)

// Name implements outbox.Sink.
func (*Sink) Name() string { return "eventbridge" }

// Most implements outbox.Batcher.
func (*Sink) Most() int { return maxEntries }

// Deliver implements outbox.Sink.
func (s *Sink) Deliver(ctx context.Context, e outbox.Event) error {
	return s.DeliverAll(ctx, []outbox.Event{e})[0]
}

// entry is an event in a request.
type entry struct {
	EventBusName string
	Source       string
	DetailType   string
	Detail       string
	Time         float64 // seconds
}

func (e entry) size() int { return len(e.Detail) + len(e.DetailType) + len(e.Source) + 14 }

// Detail is the detail of an event on the bus.
type Detail struct {
	outbox.Event
	Stack string `json:"stack"`
	// Message is the event in words, on one line and without double quotes: EventBridge does not
	// escape the values that an input transformer inserts.
	Message string `json:"message"`
}

var oneLine = strings.NewReplacer("\"", "'", "\\", "/", "\r\n", " ", "\n", " ", "\t", " ")

// entry returns the entry of an event, with this type of its detail. One that is too large for a request loses its lists; its
// texts are short.
func (s *Sink) entry(e outbox.Event, detailType string) (entry, error) {
	message := oneLine.Replace(strings.Join(notify.Lines(e), "; "))
	for {
		detail, err := json.Marshal(Detail{e, s.Stack, message})
		if err != nil {
			return entry{}, fmt.Errorf("encode the event: %w", err)
		}
		made := entry{s.Bus, Source, detailType, string(detail), float64(e.At.UnixMilli()) / 1000}
		if made.size() <= maxBytes || e.Entries == nil && e.Drift == nil {
			return made, nil
		}
		e.Entries, e.Drift = nil, nil
	}
}

// DeliverAll implements outbox.Batcher.
func (s *Sink) DeliverAll(ctx context.Context, events []outbox.Event) []error {
	return s.send(ctx, events, func(e outbox.Event) string { return string(e.Kind) })
}

// send sends events, in as many requests as needed, and returns the error of each.
func (s *Sink) send(ctx context.Context, events []outbox.Event, detailType func(outbox.Event) string) []error {
	errs := make([]error, len(events))
	var entries []entry
	var at []int // the events of the entries
	size := 0
	put := func() {
		if len(entries) > 0 {
			for i, err := range s.put(ctx, entries) {
				errs[at[i]] = err
			}
		}
		entries, at, size = nil, nil, 0
	}
	for i, e := range events {
		entry, err := s.entry(e, detailType(e))
		if err != nil {
			errs[i] = err
			continue
		}
		if size+entry.size() > maxBytes || len(entries) == maxEntries {
			put()
		}
		entries, at, size = append(entries, entry), append(at, i), size+entry.size()
	}
	put()
	return errs
}

// put sends entries in one request, and returns the error of each.
func (s *Sink) put(ctx context.Context, entries []entry) []error {
	errs := make([]error, len(entries))
	var out struct {
		Entries []struct{ ErrorCode, ErrorMessage string }
	}
	err := s.Client.Call(ctx, awsjson.PutEvents, "", map[string]any{"Entries": entries}, &out)
	if err == nil && len(out.Entries) != len(entries) {
		err = fmt.Errorf("EventBridge answered for %d of %d events", len(out.Entries), len(entries))
	}
	for i := range entries {
		if err != nil {
			errs[i] = s.refused(err)
		} else if e := out.Entries[i]; e.ErrorCode != "" {
			errs[i] = s.failed(e.ErrorCode, e.ErrorMessage)
		}
	}
	return errs
}

// refused is the error of a request, which concerns all events.
func (s *Sink) refused(err error) error {
	var api smithy.APIError
	answer := new(smithyhttp.ResponseError)
	switch {
	case !errors.As(err, &api):
		err = fmt.Errorf("send events to the bus %s: %w; in a VPC without NAT, the function needs an endpoint for events", s.Bus, err)
	case api.ErrorCode() == "AccessDeniedException":
		err = fault.As(fault.Person, fmt.Errorf("send events to the bus %s: %w; ReconcileRole needs %s on it", s.Bus, err, awsjson.PutEvents))
	case !isThrottled(api.ErrorCode()) && errors.As(err, &answer) && answer.HTTPStatusCode() < 500:
		err = fault.As(fault.Person, fmt.Errorf("send events to the bus %s: %w", s.Bus, err))
	default:
		err = fmt.Errorf("send events to the bus %s: %w", s.Bus, err)
	}
	return &outbox.DownError{Err: err}
}

// failed is the error of one event in a request that was answered.
func (s *Sink) failed(code, message string) error {
	err := fmt.Errorf("the bus %s refused the event: %s: %s", s.Bus, code, message)
	switch {
	case isThrottled(code):
		return &outbox.DownError{Err: err}
	case code == "InternalFailure", code == "InternalException":
		return err
	case code == "MalformedDetail", code == "InvalidArgument":
		return fault.As(fault.Person, err)
	}
	return &outbox.DownError{Err: fault.As(fault.Person, err)} // a right is missing
}

func isThrottled(code string) bool {
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	return throttled
}

// Check reports whether the bus exists, because otherwise events may be taken and reach nobody,
// and sends it an event of the kind test.
func (s *Sink) Check(ctx context.Context) (string, error) {
	var out struct{ Arn string }
	if err := s.Client.Call(ctx, awsjson.DescribeEventBus, "", map[string]string{"Name": s.Bus}, &out); err != nil {
		return "", fmt.Errorf("look for the event bus %s: %w", s.Bus, err)
	}
	now := time.Now().UTC()
	if err := s.Deliver(ctx, outbox.Event{ID: "test." + strconv.FormatInt(now.UnixNano(), 36), Kind: "test", At: now, Detail: "sent by terrapulse doctor"}); err != nil {
		return "", err
	}
	return "the bus " + s.Bus + " took an event of the kind test", nil
}
