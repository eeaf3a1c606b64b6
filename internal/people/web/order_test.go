package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/graph"
)

func TestOrder_IsDrawnInLayers(t *testing.T) {
	phase := apispec.PhaseWaiting
	page := orderOf(apispec.OrderResponse{
		Tasks: []apispec.OrderedTask{{Name: "dns", After: []string{"lb"}}, {Name: "fw-1", After: []string{}, Phase: &phase}, {Name: "fw-2", After: []string{}},
			{Name: "lb", After: []string{"fw-*"}}},
		Matches: map[string][]string{"fw-*": {"fw-1", "fw-2"}, "lb": {"lb"}},
	})
	var names []string
	for _, row := range page.Tasks {
		names = append(names, row.Name)
	}
	if got := strings.Join(names, " "); got != "fw-1 fw-2 lb dns" {
		t.Errorf("the rows are %s", got)
	}
	c := page.Chart
	at := map[string]box{}
	for _, box := range c.Boxes {
		at[box.Name] = box
	}
	if len(c.Lines) != 3 || at["fw-1"].X >= at["lb"].X || at["lb"].X >= at["dns"].X || at["fw-1"].Y >= at["fw-2"].Y || at["fw-1"].Below != string(phase) || at["fw-1"].Tone != ask || c.Width <= at["dns"].X+orderWide {
		t.Errorf("%+v", c)
	}
}

func TestOrder_OfManyTasksIsListedInPart(t *testing.T) {
	var order apispec.OrderResponse
	order.Matches = map[string][]string{"t-*": nil}
	for i := range 1000 {
		name := fmt.Sprintf("t-%03d", i)
		order.Tasks = append(order.Tasks, apispec.OrderedTask{Name: name, After: []string{}})
		order.Matches["t-*"] = append(order.Matches["t-*"], name)
	}
	order.Tasks = append(order.Tasks, apispec.OrderedTask{Name: "last", After: []string{"t-*"}})
	if page := orderOf(order); len(page.Chart.Boxes) != 0 || len(page.Tasks) != orderRows || page.Unlisted() != 1001-orderRows || moreOf(graph.Of(order.Tasks, order.Matches).Before["last"]) != 1000-orderNames {
		t.Errorf("%d boxes, %d rows, %d unlisted", len(page.Chart.Boxes), len(page.Tasks), page.Unlisted())
	}
}
