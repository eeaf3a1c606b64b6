package graph_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/graph"
)

func network() *graph.Graph {
	failing := apispec.PhaseFailing
	return graph.Of([]apispec.OrderedTask{
		{Name: "dns", After: []string{"lb", "fw-1"}}, {Name: "fw-1", After: []string{}, Phase: &failing}, {Name: "fw-2", After: []string{}},
		{Name: "lb", After: []string{"fw-*"}}, {Name: "web", After: []string{"dns"}},
	}, map[string][]string{"fw-*": {"fw-1", "fw-2"}, "lb": {"lb"}, "fw-1": {"fw-1"}, "dns": {"dns"}})
}

func TestGraph_LayersFollowTheOrder(t *testing.T) {
	var layers []string
	for _, layer := range network().Layers() {
		layers = append(layers, strings.Join(layer, " "))
	}
	if want := []string{"fw-1 fw-2", "lb", "dns", "web"}; !slices.Equal(layers, want) {
		t.Errorf("layers %q, want %q", layers, want)
	}
}

func TestGraph_AsText(t *testing.T) {
	var out strings.Builder
	if err := network().Text(&out); err != nil {
		t.Fatal(err)
	}
	const want = `fw-1 (failing)
├─ dns
│  └─ web
└─ lb
   └─ dns …
fw-2
└─ lb …
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestGraph_ForOtherPrograms(t *testing.T) {
	var dot, mermaid strings.Builder
	if network().Dot(&dot) != nil || network().Mermaid(&mermaid) != nil {
		t.Fatal("not written")
	}
	if !strings.Contains(dot.String(), "  \"fw-1\" [label=\"fw-1 (failing)\"];\n") || !strings.Contains(dot.String(), "  \"fw-2\" -> \"lb\";\n") {
		t.Error(dot.String())
	}
	if !strings.Contains(mermaid.String(), "  t1[\"fw-1 (failing)\"]\n") || strings.Count(mermaid.String(), " --> ") != 5 {
		t.Error(mermaid.String())
	}
}
