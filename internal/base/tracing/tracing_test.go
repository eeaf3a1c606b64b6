package tracing_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/tracing"
)

func environ(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestContext_IsTheSameInEachProcessAndReadBack(t *testing.T) {
	a, b := tracing.Root("run-1"), tracing.Root("run-1")
	if a != b || a == tracing.Root("run-2") || a == tracing.Root("run-1", "wait-1") {
		t.Error("the trace does not follow from the ids")
	}
	claim := a.Child("claim", "launch-1")
	if claim.Trace != a.Trace || claim.Span == a.Span || claim != b.Child("claim", "launch-1") || claim == a.Child("claim", "launch-2") {
		t.Error("the span does not follow from its name and ids")
	}
	for _, sampled := range []bool{true, false} {
		a.Sampled = sampled
		if got := tracing.Parse(a.String()); got != a {
			t.Errorf("%s is read as %+v", a, got)
		}
	}
}

func TestParse_RefusesWhatIsNoContext(t *testing.T) {
	for _, text := range []string{"", "x", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-zaf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01"} {
		if c := tracing.Parse(text); c.Valid() || c.String() != "" || c.ID() != "" {
			t.Errorf("%q is read as %+v", text, c)
		}
	}
}

func TestFromEnviron_TurnsTracesOnAndOff(t *testing.T) {
	const endpoint = "http://collector:4318"
	for _, tt := range []struct {
		env     map[string]string
		on      bool
		sampled int // of 1000, roughly
	}{
		{nil, false, 0},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, true, 1000},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, true, 1000},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SDK_DISABLED": "true"}, false, 0},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_EXPORTER": "none"}, false, 0},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_SAMPLER": "always_off"}, true, 0},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}, true, 500},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "wrong"}, true, 1000},
	} {
		s := tracing.FromEnviron(environ(tt.env))
		if (s != nil) != tt.on {
			t.Errorf("%v: on is %v", tt.env, s != nil)
		}
		sampled := 0
		for i := range 1000 {
			if s.Begin("run", strconv.Itoa(i)).Sampled {
				sampled++
			}
		}
		if sampled < tt.sampled-60 || sampled > tt.sampled+60 {
			t.Errorf("%v: %d of 1000 are sampled", tt.env, sampled)
		}
	}
}

func TestSend_ExportsOnlyWhatIsSampled(t *testing.T) {
	var got []string
	export := tracing.Export(func(spans ...tracing.Span) {
		for _, s := range spans {
			got = append(got, s.Name)
		}
	})
	on, off := tracing.Root("a"), tracing.Root("b")
	on.Sampled = true
	export.Send(tracing.Span{Context: on, Name: "on"}, tracing.Span{Context: off, Name: "off"}, tracing.Span{Name: "none"})
	tracing.Export(nil).Send(tracing.Span{Context: on})
	if len(got) != 1 || got[0] != "on" {
		t.Errorf("exported %v", got)
	}
}

// A launch is decided on one machine and begins on another one, whose clock is behind.
func TestSend_NoSpanEndsBeforeItBegins(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	var got []tracing.Span
	export := tracing.Export(func(spans ...tracing.Span) { got = append(got, spans...) })
	root := tracing.Root("a")
	root.Sampled = true
	export.Send(tracing.Span{Context: root, Start: noon, End: noon.Add(-30 * time.Second)}, tracing.Span{Context: root, Start: noon, End: noon.Add(time.Second)})
	if len(got) != 2 || !got[0].Start.Equal(noon) || !got[0].End.Equal(noon) || !got[1].End.Equal(noon.Add(time.Second)) {
		t.Errorf("exported %+v", got)
	}
}
