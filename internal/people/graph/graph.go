// Package graph draws the order of tasks: as text, for Graphviz, for Mermaid, and in layers for the pages.
package graph

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// Graph is which tasks come after which. It has no cycle.
type Graph struct {
	Names  []string // of the tasks, sorted
	Before map[string][]string
	After  map[string][]string
	Phases map[string]apispec.Phase // of those whose phase is known
}

// Of returns the graph of an order.
func Of(tasks []apispec.OrderedTask, matches map[string][]string) *Graph {
	g := &Graph{Before: map[string][]string{}, After: map[string][]string{}, Phases: map[string]apispec.Phase{}}
	for _, t := range tasks {
		g.Names = append(g.Names, t.Name)
		if t.Phase != nil {
			g.Phases[t.Name] = *t.Phase
		}
		var before []string
		for _, entry := range t.After {
			before = append(before, matches[entry]...)
		}
		slices.Sort(before)
		before = slices.DeleteFunc(slices.Compact(before), func(name string) bool { return name == t.Name })
		if len(before) > 0 {
			g.Before[t.Name] = before
		}
		for _, name := range before {
			g.After[name] = append(g.After[name], t.Name)
		}
	}
	slices.Sort(g.Names)
	for _, names := range g.After {
		slices.Sort(names)
	}
	return g
}

// Layers returns the tasks in layers: each comes after tasks of earlier layers only.
func (g *Graph) Layers() [][]string {
	depth := map[string]int{}
	var of func(name string) int
	of = func(name string) int {
		if d, known := depth[name]; known {
			return d
		}
		depth[name] = 0 // for a cycle, which no configuration has
		d := 0
		for _, before := range g.Before[name] {
			d = max(d, of(before)+1)
		}
		depth[name] = d
		return d
	}
	var layers [][]string
	for _, name := range g.Names {
		d := of(name)
		for len(layers) <= d {
			layers = append(layers, nil)
		}
		layers[d] = append(layers[d], name)
	}
	return layers
}

// label is a task with its phase.
func (g *Graph) label(name string) string {
	if phase := g.Phases[name]; phase != "" {
		return fmt.Sprintf("%s (%s)", name, phase)
	}
	return name
}

// Text writes the graph as a tree: what comes after a task is below it. A task that comes after several is
// below each of them, and what comes after it is written once.
func (g *Graph) Text(w io.Writer) error {
	var out strings.Builder
	written := map[string]bool{}
	var write func(name, first, rest string)
	write = func(name, first, rest string) {
		more := ""
		if written[name] && len(g.After[name]) > 0 {
			more = " …"
		}
		fmt.Fprintf(&out, "%s%s%s\n", first, g.label(name), more)
		if written[name] {
			return
		}
		written[name] = true
		after := g.After[name]
		for i, next := range after {
			if i == len(after)-1 {
				write(next, rest+"└─ ", rest+"   ")
			} else {
				write(next, rest+"├─ ", rest+"│  ")
			}
		}
	}
	for _, name := range g.Names {
		if len(g.Before[name]) == 0 {
			write(name, "", "")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Dot writes the graph for Graphviz.
func (g *Graph) Dot(w io.Writer) error {
	var out strings.Builder
	out.WriteString("digraph tasks {\n  rankdir=LR;\n  node [shape=box];\n")
	for _, name := range g.Names {
		fmt.Fprintf(&out, "  %q [label=%q];\n", name, g.label(name))
	}
	g.edges(func(before, after string) { fmt.Fprintf(&out, "  %q -> %q;\n", before, after) })
	out.WriteString("}\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// Mermaid writes the graph as a flowchart of Mermaid.
func (g *Graph) Mermaid(w io.Writer) error {
	var out strings.Builder
	out.WriteString("flowchart LR\n")
	ids := make(map[string]int, len(g.Names))
	for i, name := range g.Names {
		ids[name] = i
		fmt.Fprintf(&out, "  t%d[\"%s\"]\n", i, g.label(name))
	}
	g.edges(func(before, after string) { fmt.Fprintf(&out, "  t%d --> t%d\n", ids[before], ids[after]) })
	_, err := io.WriteString(w, out.String())
	return err
}

// edges calls with each task and one that comes after it.
func (g *Graph) edges(with func(before, after string)) {
	for _, name := range g.Names {
		for _, after := range g.After[name] {
			with(name, after)
		}
	}
}
