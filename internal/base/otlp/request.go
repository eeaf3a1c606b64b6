package otlp

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resources "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	traces "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

// request is a request for spans of one process.
func request(spans []sdk.ReadOnlySpan) *collector.ExportTraceServiceRequest {
	if len(spans) == 0 {
		return new(collector.ExportTraceServiceRequest)
	}
	about, scope := spans[0].Resource(), spans[0].InstrumentationScope()
	all := &traces.ScopeSpans{Scope: &common.InstrumentationScope{Name: scope.Name, Version: scope.Version}, SchemaUrl: scope.SchemaURL}
	for _, s := range spans {
		all.Spans = append(all.Spans, span(s))
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*traces.ResourceSpans{{
		Resource: &resources.Resource{Attributes: pairs(about.Attributes())}, SchemaUrl: about.SchemaURL(), ScopeSpans: []*traces.ScopeSpans{all},
	}}}
}

func span(s sdk.ReadOnlySpan) *traces.Span {
	trace, id := s.SpanContext().TraceID(), s.SpanContext().SpanID()
	out := &traces.Span{
		TraceId: trace[:], SpanId: id[:], Name: s.Name(), Kind: traces.Span_SPAN_KIND_INTERNAL, Flags: uint32(s.SpanContext().TraceFlags()),
		StartTimeUnixNano: nanoseconds(s.StartTime()), EndTimeUnixNano: nanoseconds(s.EndTime()), Attributes: pairs(s.Attributes()),
		Status: &traces.Status{Code: traces.Status_STATUS_CODE_UNSET},
	}
	if s.Parent().SpanID().IsValid() {
		parent := s.Parent().SpanID()
		out.ParentSpanId = parent[:]
	}
	if status := s.Status(); status.Code == codes.Error {
		out.Status = &traces.Status{Code: traces.Status_STATUS_CODE_ERROR, Message: status.Description}
	}
	for _, l := range s.Links() {
		trace, id := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		out.Links = append(out.Links, &traces.Span_Link{TraceId: trace[:], SpanId: id[:], Attributes: pairs(l.Attributes), Flags: uint32(l.SpanContext.TraceFlags())})
	}
	return out
}

func nanoseconds(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

// pairs are attributes of the types that package tracing and the SDK's resource have.
func pairs(all []attribute.KeyValue) []*common.KeyValue {
	var out []*common.KeyValue
	for _, a := range all {
		v := new(common.AnyValue)
		switch a.Value.Type() {
		case attribute.BOOL:
			v.Value = &common.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
		case attribute.INT64:
			v.Value = &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		default:
			v.Value = &common.AnyValue_StringValue{StringValue: a.Value.String()}
		}
		out = append(out, &common.KeyValue{Key: string(a.Key), Value: v})
	}
	return out
}
