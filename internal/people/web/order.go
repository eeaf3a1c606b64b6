package web

import (
	"net/http"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/graph"
)

// orderPage is the page of the order of the tasks.
type orderPage struct {
	Tasks []orderRow `json:"tasks"` // in layers: a task comes after some of earlier layers
	Total int        `json:"total"`
	Chart drawing    `json:"-"`
}

// orderRow is a task of the order.
type orderRow struct {
	Name   string        `json:"name"`
	Phase  apispec.Phase `json:"phase,omitempty"`
	Reason string        `json:"reason,omitempty"`
	After  []string      `json:"after"`  // the tasks that it comes after
	Before []string      `json:"before"` // those that come after it
}

const (
	orderWide  = 180 // of a box
	orderChars = 22  // of a name fit into it

	// orderDrawn and orderLines are how many tasks and lines are drawn: nobody can read more of them.
	orderDrawn, orderLines = 150, 600
	// orderRows is how many tasks are listed, and orderNames how many others each names.
	orderRows, orderNames = 500, 12
)

func (p *pages) order(r *http.Request) (view, error) {
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	order, err := read(r.Context(), p.source, "order", p.source.Order)
	if refuses(err) {
		err = nil // an older version knows none
	}
	return view{title: "Order", template: "order", topic: everything, shown: o.topics, data: orderOf(order)}, err
}

// orderOf is the page of an order.
func orderOf(order apispec.OrderResponse) orderPage {
	g := graph.Of(order.Tasks, order.Matches)
	reasons := map[string]string{}
	for _, t := range order.Tasks {
		if t.Reason != nil {
			reasons[t.Name] = t.Reason.Text
		}
	}
	page := orderPage{Total: len(g.Names), Chart: drawOrder(g)}
	for _, layer := range g.Layers() {
		for _, name := range layer {
			if len(page.Tasks) < orderRows {
				page.Tasks = append(page.Tasks, orderRow{Name: name, Phase: g.Phases[name], Reason: reasons[name], After: g.Before[name], Before: g.After[name]})
			}
		}
	}
	return page
}

// Unlisted is how many tasks the page does not list.
func (p orderPage) Unlisted() int { return p.Total - len(p.Tasks) }

// drawOrder draws a graph: the tasks of a layer are below each other, those that come after them at their
// right. It draws nothing if the graph is empty, or too large to be read.
func drawOrder(g *graph.Graph) drawing {
	d := newDrawing("Tasks, with lines to those that come after them", orderWide, orderChars)
	lines := 0
	for _, after := range g.After {
		lines += len(after)
	}
	if len(g.Names) > orderDrawn || lines > orderLines {
		return d
	}
	for column, layer := range g.Layers() {
		for row, name := range layer {
			b := box{Name: name, Below: string(g.Phases[name]), Link: taskURL(name)}
			if phase := g.Phases[name]; phase != "" {
				b.Tone = toneOf(phase)
			}
			d.place(name, column, row, b)
		}
	}
	for _, name := range g.Names {
		for _, after := range g.After[name] {
			d.connect(name, after)
		}
	}
	return d
}

// firstOf are the first names of many; the number of the others follows.
func firstOf(names []string) []string { return names[:min(len(names), orderNames)] }
func moreOf(names []string) int       { return max(0, len(names)-orderNames) }
