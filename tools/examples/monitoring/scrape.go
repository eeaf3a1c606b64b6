package main

import (
	"fmt"
	"os"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// scrape is what an instance shows: the labels of each series, by its name.
type scrape map[string]map[string]bool

// ofTarget are the labels that Prometheus gives to what it scrapes, in Kubernetes also the namespace.
var ofTarget = []string{"job", "instance", "namespace"}

// ofPrometheus are the series that Prometheus itself makes.
var ofPrometheus = scrape{"up": {}, "ALERTS": {"alertname": true, "alertstate": true}}

func readScrape(file string) (scrape, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	parse := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parse.TextToMetricFamilies(f)
	if err != nil {
		return nil, err
	}
	all := scrape{}
	for name, family := range families {
		labels := map[string]bool{}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = true
			}
		}
		if family.GetType() != dto.MetricType_HISTOGRAM {
			all[name] = labels
			continue
		}
		all[name+"_count"], all[name+"_sum"] = labels, labels
		all[name+"_bucket"] = map[string]bool{"le": true}
		for label := range labels {
			all[name+"_bucket"][label] = true
		}
	}
	return all, nil
}

// of returns the labels of a series, and whether it exists.
func (s scrape) of(name string) (map[string]bool, bool) {
	own, ok := s[name]
	if !ok {
		own, ok = ofPrometheus[name]
	}
	labels := map[string]bool{}
	for label := range own {
		labels[label] = true
	}
	for _, label := range ofTarget {
		labels[label] = true
	}
	return labels, ok
}

// labels returns the labels of all series of an expression.
func (s scrape) labels(expr parser.Node) map[string]bool {
	all := map[string]bool{}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			labels, _ := s.of(selector.Name)
			for label := range labels {
				all[label] = true
			}
		}
		return nil
	})
	return all
}

// missing says which metrics and labels of an expression the scrape does not have.
func (s scrape) missing(expr parser.Expr) (problems []string) {
	say := func(format string, args ...any) {
		if problem := fmt.Sprintf(format, args...); !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	known := func(labels []string, of parser.Expr) {
		for _, label := range labels {
			if !s.labels(of)[label] {
				say("no series of %s has the label %s", of, label)
			}
		}
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			labels, ok := s.of(n.Name)
			if !ok {
				say("there is no metric %s", n.Name)
				return nil
			}
			for _, m := range n.LabelMatchers {
				if m.Name != model.MetricNameLabel && !labels[m.Name] {
					say("%s has no label %s", n.Name, m.Name)
				}
			}
		case *parser.AggregateExpr:
			known(n.Grouping, n.Expr)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				known(n.VectorMatching.MatchingLabels, n.LHS)
				known(n.VectorMatching.MatchingLabels, n.RHS)
				known(n.VectorMatching.Include, n)
			}
		}
		return nil
	})
	return problems
}
