package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/promql/parser"
)

// checkDashboard returns what is wrong with a dashboard.
func checkDashboard(raw []byte, shown scrape) []string {
	var d dashboard.Dashboard
	// The types return errors without any content, too.
	if err := d.UnmarshalJSONStrict(raw); err != nil && err.Error() != "" {
		return []string{err.Error()}
	}
	if err := d.Validate(); err != nil && err.Error() != "" {
		return []string{err.Error()}
	}
	l := &linter{variables: map[string]bool{}, shown: shown}
	l.whole(&d)
	var panels struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(raw, &panels); err != nil {
		return []string{err.Error()}
	}
	ids := map[int]bool{}
	for _, p := range panels.Panels {
		if ids[p.ID] {
			l.say("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		l.panel(p)
	}
	l.overlap(panels.Panels)
	return l.problems
}

type linter struct {
	problems  []string
	variables map[string]bool
	shown     scrape
}

func (l *linter) say(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// whole checks what is not in a panel.
func (l *linter) whole(d *dashboard.Dashboard) {
	if d.Title == nil || *d.Title == "" || d.Uid == nil || *d.Uid == "" {
		l.say("it has no title, or no uid")
	}
	if d.Editable != nil && *d.Editable {
		l.say("it is editable: changes in Grafana would be lost with the next import")
	}
	if d.Id != nil {
		l.say("it has an id, which is that of one Grafana")
	}
	for _, v := range d.Templating.List {
		l.variables[v.Name] = true
		if v.Type == dashboard.VariableTypeQuery && (v.Datasource == nil || v.Datasource.Uid == nil || *v.Datasource.Uid != "$datasource") {
			l.say("the variable %s does not use the data source $datasource", v.Name)
		}
	}
	for _, name := range []string{"datasource", "namespace", "job"} {
		if !l.variables[name] {
			l.say("there is no variable %s", name)
		}
	}
}

// panel is what is checked of a panel. The published types leave it open, because each kind of panel has its own.
type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Datasource  struct {
		Type, UID string
	} `json:"datasource"`
	GridPos     struct{ X, Y, W, H int } `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []struct {
		Expr, RefID, LegendFormat string
	} `json:"targets"`
}

// kinds are the panels that this program knows, and whether they need a unit.
var kinds = map[string]bool{"stat": true, "timeseries": true, "table": false, "state-timeline": false, "row": false}

func (l *linter) panel(p panel) {
	needsUnit, known := kinds[p.Type]
	switch {
	case !known:
		l.say("panel %q: unknown type %q", p.Title, p.Type)
	case p.Type == "row":
		return
	}
	if p.Title == "" || p.Description == "" {
		l.say("panel %d (%q) has no title, or no description", p.ID, p.Title)
	}
	if p.Datasource.Type != "prometheus" || p.Datasource.UID != "$datasource" {
		l.say("panel %q does not use the data source $datasource", p.Title)
	}
	if needsUnit && p.FieldConfig.Defaults.Unit == "" {
		l.say("panel %q has no unit", p.Title)
	}
	if len(p.Targets) == 0 {
		l.say("panel %q shows nothing", p.Title)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if target.RefID == "" || refs[target.RefID] {
			l.say("panel %q: a query has no refId, or one that another query has", p.Title)
		}
		refs[target.RefID] = true
		node := l.query(p.Title, target.Expr)
		for _, name := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
			if node != nil && !l.shown.labels(node)[name[1]] {
				l.say("panel %q: its legend has the label %s, which no series has", p.Title, name[1])
			}
		}
	}
}

var (
	variable = regexp.MustCompile(`\$(\w+)`)
	legend   = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
)

// query checks a query: it must be valid, and be about the deployment that was chosen.
func (l *linter) query(title, expr string) parser.Expr {
	for _, name := range variable.FindAllStringSubmatch(expr, -1) {
		if !l.variables[name[1]] && !strings.HasPrefix(name[1], "__") {
			l.say("panel %q: there is no variable %s", title, name[1])
		}
	}
	plain := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$__interval", "1m").Replace(expr)
	node, err := parser.NewParser(parser.Options{}).ParseExpr(plain)
	if err != nil {
		l.say("panel %q: %s: %v", title, expr, err)
		return nil
	}
	for _, problem := range l.shown.missing(node) {
		l.say("panel %q: %s", title, problem)
	}
	parser.Inspect(node, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			chosen := map[string]string{}
			for _, m := range n.LabelMatchers {
				chosen[m.Name] = m.Type.String() + m.Value
			}
			if chosen["job"] != "=~$job" || chosen["namespace"] != "=~$namespace" {
				l.say("panel %q: %s is not limited to namespace=~\"$namespace\", job=~\"$job\"", title, n.Name)
			}
		case *parser.Call:
			if n.Func.Name != "rate" && n.Func.Name != "increase" {
				break
			}
			if m, ok := n.Args[0].(*parser.MatrixSelector); ok && m.Range != 5*time.Minute && m.Range != time.Hour {
				l.say("panel %q: %s uses neither $__rate_interval nor $__range", title, n)
			}
		}
		return nil
	})
	return node
}

// overlap finds panels that lie on each other, or outside of the grid.
func (l *linter) overlap(all []panel) {
	for i, p := range all {
		a := p.GridPos
		if a.W < 1 || a.H < 1 || a.X < 0 || a.X+a.W > 24 {
			l.say("panel %q is outside of the grid", p.Title)
		}
		for _, q := range all[:i] {
			if b := q.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				l.say("the panels %q and %q overlap", q.Title, p.Title)
			}
		}
	}
}
