package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

func TestMap_IsDrawnInThreeColumns(t *testing.T) {
	one := new(1)
	page := mapOf(apispec.MapResponse{
		Counts: apispec.MapCounts{Tasks: 2, Sources: 2, Types: 1, Resources: 3},
		Sources: []apispec.MapSource{{Text: "service api", Kind: "services", Name: new("api"), Tasks: 1},
			{Text: "service web of peer b", Kind: "services", Name: new("web"), Peer: new("b"), Tasks: 1}},
		Tasks: []apispec.MapTask{{Name: "a-web", Phase: apispec.PhaseApplied, Sources: []string{"service web of peer b"}, Resources: one, Types: []apispec.MapType{{Type: "aws_lb", Count: 1}}},
			{Name: "b-api", Phase: apispec.PhaseFailing, Sources: []string{"service api"}}},
		Types: []apispec.MapType{{Type: "aws_lb", Count: 1, Tasks: one}},
	}, selection.Map{Search: "a"})
	at := map[string]box{}
	for _, b := range page.Chart.Boxes {
		at[b.Name] = b
	}
	if c := page.Chart; len(c.Lines) != 3 || at["service api"].X >= at["a-web"].X || at["a-web"].X >= at["aws_lb"].X || at["b-api"].Y >= at["a-web"].Y || at["b-api"].Tone != bad || at["a-web"].Below != "applied · 1 resource" {
		t.Errorf("%+v", c)
	}
	for name, want := range map[string]string{"service api": "/ui/map?service=api", "service web of peer b": "/ui/map?source=service+web+of+peer+b", "aws_lb": "/ui/map?search=a&type=aws_lb", "b-api": "/ui/tasks/b-api"} {
		if at[name].Link != want {
			t.Errorf("%s leads to %s, want %s", name, at[name].Link, want)
		}
	}
	if len(page.By) != 1 || page.By[0].Without != "/ui/map" {
		t.Errorf("selected by %+v", page.By)
	}
}

func TestMap_OfManyTasksIsDrawnInPart(t *testing.T) {
	var m apispec.MapResponse
	for i := range mapRows {
		name := fmt.Sprintf("%03d", i)
		m.Sources = append(m.Sources, apispec.MapSource{Text: "service " + name, Tasks: 1})
		m.Tasks = append(m.Tasks, apispec.MapTask{Name: name, Sources: []string{"service " + name}})
		m.Types = append(m.Types, apispec.MapType{Type: strings.Repeat("x", 100) + name})
	}
	m.Counts.Tasks = 10_000
	page := mapOf(m, selection.Map{})
	if len(page.Chart.Boxes) != 3*mapDrawn || page.Undrawn() != 10_000-mapDrawn || page.Unlisted() != 10_000-mapRows || len([]rune(page.Chart.Boxes[3*mapDrawn-1].Short)) != mapChars {
		t.Errorf("%d boxes, %d undrawn, %d unlisted", len(page.Chart.Boxes), page.Undrawn(), page.Unlisted())
	}
}
