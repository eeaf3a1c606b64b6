package tracing

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// The environment variables of OpenTelemetry that say whether and where spans are exported.
const (
	EndpointVariable       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	TracesEndpointVariable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// Sampler says which traces are exported. A nil Sampler says that there are none.
type Sampler struct {
	bound uint64 // of the last 8 bytes of a trace's id
}

// FromEnviron returns the Sampler that the environment variables of OpenTelemetry ask for; nil if they
// turn traces off or name no endpoint.
func FromEnviron(get func(name string) string) *Sampler {
	switch {
	case get(EndpointVariable) == "" && get(TracesEndpointVariable) == "":
		return nil
	case strings.EqualFold(get("OTEL_SDK_DISABLED"), "true"):
		return nil
	}
	if exporter := get("OTEL_TRACES_EXPORTER"); exporter != "" && exporter != "otlp" {
		return nil
	}
	return &Sampler{bound: boundOf(get("OTEL_TRACES_SAMPLER"), get("OTEL_TRACES_SAMPLER_ARG"))}
}

// boundOf is the bound of a sampler. The parent of a trace is unknown here: parentbased_* is the same.
func boundOf(sampler, argument string) uint64 {
	switch strings.TrimPrefix(sampler, "parentbased_") {
	case "always_off":
		return 0
	case "traceidratio":
		ratio, err := strconv.ParseFloat(argument, 64)
		if err == nil && ratio < 1 {
			return uint64(max(ratio, 0) * math.MaxInt64)
		}
	}
	return math.MaxInt64
}

// Begin returns the first span of the trace of these ids, with the decision whether it is exported.
// It is the zero value if there are no traces.
func (s *Sampler) Begin(ids ...string) Context {
	if s == nil {
		return Context{}
	}
	c := Root(ids...)
	c.Sampled = binary.BigEndian.Uint64(c.Trace[8:])>>1 < s.bound
	return c
}
