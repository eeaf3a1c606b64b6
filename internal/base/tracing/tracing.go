// Package tracing has the spans of runs as plain values, and the context that records carry from the
// process that decides a run to the one that executes it. It does not need the SDK of OpenTelemetry:
// package otlp exports the spans, and programs that must be small do without it.
//
// Ids are derived from the ids of runs. So a write that is repeated, a launch that is started again and
// a process that takes over all name the same trace and the same spans.
package tracing

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Variable is the environment variable in which programs get the context.
const Variable = "TRACEPARENT"

// Header is the HTTP header in which requests have it.
const Header = "traceparent"

// Context identifies a span, as in https://www.w3.org/TR/trace-context/. The zero value is no span.
type Context struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool // spans of the trace are exported
}

// Root derives the first span of a trace from ids.
func Root(ids ...string) Context {
	sum := sha256.Sum256([]byte("trace " + strings.Join(ids, " ")))
	return Context{Trace: [16]byte(sum[:16]), Span: [8]byte(sum[16:24])}
}

// Child derives the span of this name in the trace. The ids tell it from others of the same name.
func (c Context) Child(name string, ids ...string) Context {
	sum := sha256.Sum256([]byte("span " + c.String() + " " + name + " " + strings.Join(ids, " ")))
	c.Span = [8]byte(sum[:8])
	return c
}

// Valid reports whether the context is one of a span.
func (c Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// String returns the context as a header and a variable have it; "" if it is none.
func (c Context) String() string {
	if !c.Valid() {
		return ""
	}
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" + flags
}

// ID is the id of the trace; "" if there is none.
func (c Context) ID() string {
	if !c.Valid() {
		return ""
	}
	return hex.EncodeToString(c.Trace[:])
}

// Parse reads a context. It is the zero value if the text is not one.
func Parse(text string) (c Context) {
	parts := strings.Split(text, "-")
	if len(parts) != 4 || parts[0] != "00" || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return c
	}
	trace, err1 := hex.DecodeString(parts[1])
	span, err2 := hex.DecodeString(parts[2])
	flags, err3 := hex.DecodeString(parts[3])
	if err1 != nil || err2 != nil || err3 != nil {
		return c
	}
	return Context{Trace: [16]byte(trace), Span: [8]byte(span), Sampled: flags[0]&1 == 1}
}

// Span is a step that has ended. Its values are no secrets: people read them in another system.
type Span struct {
	Context
	Parent     Context // zero for the first span of a trace
	Name       string
	Start, End time.Time
	Attributes []Attribute
	Links      []Link
	Error      string // why the step failed; "" if it did not
}

// Attribute is a string, an int or a bool under a name.
type Attribute struct {
	Key   string
	Value any
}

// Link names a span of another trace.
type Link struct {
	To         Context
	Attributes []Attribute
}

// Export takes spans, and returns at once. It may drop them. Nil exports none.
type Export func(spans ...Span)

// Send exports the spans that are sampled. A span begins and ends by the clocks of different machines,
// which may be apart: one that would end before it begins lasts no time.
func (e Export) Send(spans ...Span) {
	if e == nil {
		return
	}
	for _, s := range spans {
		if !s.Valid() || !s.Sampled {
			continue
		}
		if s.End.Before(s.Start) {
			s.End = s.Start
		}
		e(s)
	}
}
